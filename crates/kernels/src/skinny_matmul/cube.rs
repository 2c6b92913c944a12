//! The product on a GPU, with cubecl's `MmaDefinition` (`mma.sync.aligned.m16n8k16.row.col.f32.{f16,bf16}` in PTX).

use super::{INPUTS, LANE, LANES, OUTPUTS, part_blocks, parts, tiles};
use crate::device;
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::cmma::MmaDefinition;
use cubecl::features::MmaConfig;
use cubecl::frontend::barrier::copy_async;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

/// Warps of a cube: neighbouring groups of outputs, which read the same rows of `x`.
pub(super) const PLANES: usize = 4;
/// Blocks of inputs in shared memory, one of them being multiplied: 50 to 72 KiB with the weights of a cube.
const STAGES: usize = 6;
/// Units of a cube that unpacks.
const UNITS: usize = 256;

/// A cube's share: 32 outputs of each of its warps and a part of K, for up to 64 rows. Blocks of weights and inputs go through
/// shared memory, [`STAGES`] of them at a time, so that reads are under way while others are multiplied. Rows beyond the
/// last one read that one, warps beyond the last group that group, and neither is written.
///
/// # Shapes
/// `packed [groups, blocks, 4, 32]` and `x [rows, in / 8]` of eight numbers each, `out [parts, rows, out]`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn multiply_part<F: Float, G: Float>(
    packed: &Tensor<Vector<F, Const<8>>>,
    x: &Tensor<Vector<F, Const<8>>>,
    out: &mut Tensor<G>,
    rows: usize,
    d_out: usize,
    blocks: usize,
    part_blocks: usize,
    #[comptime] row_tiles: usize,
    #[define(F)] _dtype: ElemType,
    #[define(G)] _out_dtype: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let base = (CUBE_POS_X as usize * PLANES + UNIT_POS_Y as usize) * OUTPUTS;
    let group = min(base, d_out - 1) / OUTPUTS;
    let (part, first_row) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize * comptime!(8 * row_tiles));
    let first = part * part_blocks;
    let steps = min(part_blocks, blocks - first);
    let mut stages = Stages::<F> {
        weights: Shared::new_aligned_slice(comptime!(STAGES * PLANES * 4 * LANES), 16usize),
        inputs: Shared::new_aligned_slice(comptime!(STAGES * row_tiles * LANES), 16usize),
    };
    let weights_at = (group * blocks + first) * comptime!(4 * LANES) + lane;
    #[unroll]
    for stage in 0..comptime!(STAGES - 1) {
        load_stage::<F>(packed, x, &mut stages, stage, weights_at, first, steps, first_row, rows, blocks, row_tiles);
    }
    let mut sums = Array::<Vector<f32, Const<2>>>::new(comptime!(4 * row_tiles));
    #[unroll]
    for i in 0..comptime!(4 * row_tiles) {
        sums[i] = Vector::new(f32::new(0.0));
    }
    for step in 0..steps {
        // All but the latest stages have arrived, for all warps, and all of them are done with the one before.
        gpu_asm!("cp.async.wait_group {pending};", pending = const comptime!(STAGES - 2));
        sync_cube();
        load_stage::<F>(
            packed,
            x,
            &mut stages,
            step + comptime!(STAGES - 1),
            weights_at,
            first,
            steps,
            first_row,
            rows,
            blocks,
            row_tiles,
        );
        multiply_stage::<F>(&stages, step % STAGES, &mut sums, row_tiles);
    }
    write_sums::<G>(&sums, out, part * rows + first_row, rows - first_row, base, d_out, row_tiles);
}

/// Blocks of weights and inputs that a cube has in shared memory.
///
/// # Shapes
/// `weights [stages, warps, 4, 32]`, `inputs [stages, rows, 4]`, of eight numbers each.
#[derive(CubeType)]
struct Stages<F: Float> {
    weights: Shared<[Vector<F, Const<8>>]>,
    inputs: Shared<[Vector<F, Const<8>>]>,
}

/// Begins to load a block, if the part has it. A lane's weights are its own; its warps share the inputs.
#[cube]
fn load_stage<F: Float>(
    packed: &Tensor<Vector<F, Const<8>>>,
    x: &Tensor<Vector<F, Const<8>>>,
    stages: &mut Stages<F>,
    step: usize,
    weights_at: usize,
    first: usize,
    steps: usize,
    first_row: usize,
    rows: usize,
    blocks: usize,
    #[comptime] row_tiles: usize,
) {
    if step < steps {
        let (stage, unit) = (step % STAGES, UNIT_POS as usize);
        let (packed, x) = (packed.as_slice(), x.as_slice());
        let to = (stage * PLANES + UNIT_POS_Y as usize) * comptime!(4 * LANES) + UNIT_POS_X as usize;
        #[unroll]
        for i in 0..4usize {
            let (from, to) = (weights_at + (step * 4 + i) * LANES, to + comptime!(i * LANES));
            copy_async(&packed[from..from + 1], &mut stages.weights[to..to + 1], 8u32);
        }
        #[unroll]
        for i in 0..comptime!(row_tiles.div_ceil(PLANES)) {
            let at = unit + comptime!(i * LANES * PLANES);
            if at < comptime!(row_tiles * LANES) {
                let from =
                    (min(first_row + at / 4, rows - 1) * blocks + first + step) * comptime!(INPUTS / LANE) + at % 4;
                let to = stage * comptime!(row_tiles * LANES) + at;
                copy_async(&x[from..from + 1], &mut stages.inputs[to..to + 1], 8u32);
            }
        }
    }
    // A group for each step, empty ones too, so that as many are waited for.
    gpu_asm!("cp.async.commit_group;");
}

/// Adds the products of a block that is in shared memory.
#[cube]
fn multiply_stage<F: Float>(
    stages: &Stages<F>,
    stage: usize,
    sums: &mut Array<Vector<f32, Const<2>>>,
    #[comptime] row_tiles: usize,
) {
    let lane = UNIT_POS_X as usize;
    let weights = (stage * PLANES + UNIT_POS_Y as usize) * comptime!(4 * LANES) + lane;
    let mut tiles = Array::<Vector<F, Const<8>>>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        tiles[i] = stages.weights[weights + comptime!(i * LANES)];
    }
    #[unroll]
    for row_tile in 0..row_tiles {
        let values = stages.inputs[(stage * row_tiles + row_tile) * LANES + lane];
        multiply_block::<F>(&tiles, values, sums, row_tile, row_tiles);
    }
}

/// Writes a lane's sums, those of outputs from `base` on, to the rows from `first_row` on.
#[cube]
pub(super) fn write_sums<G: Float>(
    sums: &Array<Vector<f32, Const<2>>>,
    out: &mut Tensor<G>,
    first_row: usize,
    rows: usize,
    base: usize,
    d_out: usize,
    #[comptime] row_tiles: usize,
) {
    let lane = UNIT_POS_X as usize;
    let (g, t) = (lane / 4, lane % 4);
    #[unroll]
    for i in 0..comptime!(4 * row_tiles) {
        // Of each pair of registers the first is for output g of a tile, the second for output g + 8.
        let output = base + comptime!(i / (2 * row_tiles) * 16 + i % 2 * 8) + g;
        let first = comptime!(i % (2 * row_tiles) / 2 * 8) + 2 * t;
        #[unroll]
        for k in 0..2usize {
            if first + k < rows && output < d_out {
                out[(first_row + first + k) * d_out + output] = G::cast_from(sums[i].extract(k));
            }
        }
    }
}

/// Adds the products of a block's four tiles and a lane's inputs of eight rows.
#[cube]
fn multiply_block<F: Float>(
    tiles: &Array<Vector<F, Const<8>>>,
    inputs: Vector<F, Const<8>>,
    sums: &mut Array<Vector<f32, Const<2>>>,
    #[comptime] row_tile: usize,
    #[comptime] row_tiles: usize,
) {
    #[unroll]
    for tile in 0..4usize {
        let at = comptime!(2 * (tile / 2 * row_tiles + row_tile));
        multiply_tile::<F>(tiles[tile], inputs, sums, at, comptime!(tile % 2 * 4));
    }
}

/// Adds the product of a tile of weights and four of a lane's eight inputs, those from `from` on, to the sums in places
/// `at` and `at + 1`.
#[cube]
fn multiply_tile<F: Float>(
    weights: Vector<F, Const<8>>,
    inputs: Vector<F, Const<8>>,
    sums: &mut Array<Vector<f32, Const<2>>>,
    #[comptime] at: usize,
    #[comptime] from: usize,
) {
    let mut a = Array::<Vector<F, Const<2>>>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        let mut pair = Vector::<F, Const<2>>::empty();
        pair.insert(0usize, weights.extract(comptime!(2 * i)));
        pair.insert(1usize, weights.extract(comptime!(2 * i + 1)));
        a[i] = pair;
    }
    multiply_registers::<F>(&a, inputs, sums, 0usize, at, from);
}

/// As [`multiply_tile`], with a tile in the four registers from `first` on.
#[cube]
pub(super) fn multiply_registers<F: Float>(
    registers: &Array<Vector<F, Const<2>>>,
    inputs: Vector<F, Const<8>>,
    sums: &mut Array<Vector<f32, Const<2>>>,
    #[comptime] first: usize,
    #[comptime] at: usize,
    #[comptime] from: usize,
) {
    let mut a = Array::<Vector<F, Const<2>>>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        a[i] = registers[comptime!(first + i)];
    }
    let mut b = Array::<Vector<F, Const<2>>>::new(2usize);
    #[unroll]
    for i in 0..2usize {
        let mut pair = Vector::<F, Const<2>>::empty();
        pair.insert(0usize, inputs.extract(comptime!(from + 2 * i)));
        pair.insert(1usize, inputs.extract(comptime!(from + 2 * i + 1)));
        b[i] = pair;
    }
    let mut c = Array::<Vector<f32, Const<2>>>::new(2usize);
    c[0usize] = sums[at];
    c[1usize] = sums[comptime!(at + 1)];
    let d = MmaDefinition::<F, F, f32>::new(16usize, 8usize, 16usize).execute(&a, &b, &c);
    sums[at] = d[0usize];
    sums[comptime!(at + 1)] = d[1usize];
}

/// A unit's share of the plain matrix `[out, in]`: two rows of eight inputs, which are a lane's shares of two tiles
/// ([`super::reference::place`]).
#[cube(launch_unchecked, address_type = "dynamic")]
fn unpack_tiles<F: Float>(
    packed: &Tensor<Vector<F, Const<8>>>,
    out: &mut Tensor<Vector<F, Const<8>>>,
    size: usize,
    blocks: usize,
    d_out: usize,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS as usize;
    if at < size {
        let (lane, half, index) = (at % LANES, at / LANES % 2, at / comptime!(2 * LANES));
        let (group, block) = (index / blocks, index % blocks);
        let from = (index * 4 + half * 2) * LANES + lane;
        let (first, second) = (packed[from], packed[from + LANES]);
        #[unroll]
        for row in 0..2usize {
            let output = group * OUTPUTS + half * 16 + lane / 4 + 8 * row;
            if output < d_out {
                let mut values = Vector::<F, Const<8>>::empty();
                #[unroll]
                for k in 0..4usize {
                    let place = comptime!((k / 2 * 2 + row) * 2 + k % 2);
                    values.insert(k, first.extract(place));
                    values.insert(comptime!(k + 4), second.extract(place));
                }
                out[(output * blocks + block) * comptime!(INPUTS / LANE) + lane % 4] = values;
            }
        }
    }
}

/// Whether a device multiplies such tiles.
pub(crate) fn is_supported(like: &CubeTensor) -> bool {
    let kind = match like.dtype {
        DType::BF16 => ElemType::Float(FloatKind::BF16),
        DType::F16 => ElemType::Float(FloatKind::F16),
        _ => return false,
    };
    let sums = ElemType::Float(FloatKind::F32);
    let tile = MmaConfig { a_type: kind, b_type: kind, cd_type: sums, m: 16, n: 8, k: 16 };
    // Every device with these tiles (compute capability 8.0 and newer) also has asynchronous copies to shared memory.
    like.client.features().matmul.mma.contains(&tile)
}

/// The product of `rows` rows of `x` in its parts, `[parts, rows, out]`: in `f32`, or in the format of `x` if there is
/// one.
pub(super) fn multiply(x: &CubeTensor, packed: &CubeTensor, rows: usize, d_in: usize, d_out: usize) -> CubeTensor {
    let parts = parts(d_in, d_out);
    let sums = device::empty(x, [parts, rows, d_out], if parts == 1 { x.dtype } else { DType::F32 });
    let cubes = d_out.div_ceil(OUTPUTS).div_ceil(PLANES);
    let (row_tiles, row_cubes) = tiles(rows);
    // SAFETY: `packed` has whole groups of outputs, rows and outputs beyond the result's are not written, and a part
    // has a block of inputs at least and ends with the last one.
    unsafe {
        multiply_part::launch_unchecked(
            &x.client,
            CubeCount::Static(cubes as u32, parts as u32, row_cubes as u32),
            CubeDim::new_2d(LANES as u32, PLANES as u32),
            device::address([x, packed, &sums]),
            device::arg(packed),
            device::arg(x),
            device::arg(&sums),
            rows,
            d_out,
            d_in / INPUTS,
            part_blocks(d_in, d_out),
            row_tiles,
            device::elem(x),
            device::elem(&sums),
        );
    }
    sums
}

/// The plain matrix, `[out, in]`.
pub(super) fn unpack(packed: &CubeTensor, d_in: usize, d_out: usize) -> CubeTensor {
    let out = device::empty(packed, [d_out, d_in], packed.dtype);
    let blocks = d_in / INPUTS;
    let size = d_out.div_ceil(OUTPUTS) * blocks * 2 * LANES;
    // SAFETY: units beyond the matrix do nothing, `packed` has whole groups of outputs, and outputs beyond the result's are
    // not written.
    unsafe {
        unpack_tiles::launch_unchecked(
            &packed.client,
            CubeCount::Static(size.div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([packed, &out]),
            device::arg(packed),
            device::arg(&out),
            size,
            blocks,
            d_out,
            device::elem(packed),
        );
    }
    out
}
