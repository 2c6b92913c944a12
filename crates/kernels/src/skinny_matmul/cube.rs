//! The product on a GPU, with cubecl's `MmaDefinition` (`mma.sync.aligned.m16n8k16.row.col.f32.{f16,bf16}` in PTX).

use super::{INPUTS, LANE, LANES, OUTPUTS, ahead, part_blocks, parts};
use crate::device;
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::cmma::MmaDefinition;
use cubecl::features::MmaConfig;
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

/// Warps of a cube: neighbouring groups of outputs, which read the same rows of `x`.
pub(super) const PLANES: usize = 4;
/// Units of a cube that moves numbers one by one.
const UNITS: usize = 256;

/// A warp's share: 32 outputs and a part of K, for all rows. Rows beyond the last one read that one, and are not
/// written.
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
    #[comptime] ahead: usize,
    #[define(F)] _dtype: ElemType,
    #[define(G)] _out_dtype: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let (g, t) = (lane / 4, lane % 4);
    let group = CUBE_POS_X as usize * PLANES + UNIT_POS_Y as usize;
    let part = CUBE_POS_Y as usize;
    if group * OUTPUTS >= d_out {
        terminate!();
    }
    let mut sums = Array::<Vector<f32, Const<2>>>::new(comptime!(4 * row_tiles));
    #[unroll]
    for i in 0..comptime!(4 * row_tiles) {
        sums[i] = Vector::new(f32::new(0.0));
    }
    let end = min((part + 1) * part_blocks, blocks);
    let row_width = blocks * comptime!(INPUTS / LANE);
    let mut tiles = Array::<Vector<F, Const<8>>>::new(comptime!(4 * ahead));
    let mut block = part * part_blocks;
    while block < end {
        let at = (group * blocks + block) * comptime!(4 * LANES) + lane;
        // All loads of weights are under way before the first product.
        #[unroll]
        for i in 0..comptime!(4 * ahead) {
            tiles[i] = packed[at + comptime!(i * LANES)];
        }
        #[unroll]
        for later in 0..ahead {
            #[unroll]
            for row_tile in 0..row_tiles {
                let row = min(comptime!(row_tile * 8) + g, rows - 1);
                let values = x[row * row_width + (block + later) * comptime!(INPUTS / LANE) + t];
                multiply_block::<F>(&tiles, values, &mut sums, comptime!(4 * later), row_tile, row_tiles);
            }
        }
        block += ahead;
    }
    write_sums::<G>(&sums, out, part * rows, rows, group * OUTPUTS, d_out, row_tiles);
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

/// Adds the products of a block's four tiles, those from `first` on, and a lane's inputs of eight rows.
#[cube]
fn multiply_block<F: Float>(
    tiles: &Array<Vector<F, Const<8>>>,
    inputs: Vector<F, Const<8>>,
    sums: &mut Array<Vector<f32, Const<2>>>,
    #[comptime] first: usize,
    #[comptime] row_tile: usize,
    #[comptime] row_tiles: usize,
) {
    #[unroll]
    for tile in 0..4usize {
        let at = comptime!(2 * (tile / 2 * row_tiles + row_tile));
        multiply_tile::<F>(tiles[comptime!(first + tile)], inputs, sums, at, comptime!(tile % 2 * 4));
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

/// One number of the plain matrix `[out, in]`, from its place in fragments ([`super::reference::place`]).
#[cube(launch_unchecked, address_type = "dynamic")]
fn unpack_number<F: Float>(
    packed: &Tensor<F>,
    out: &mut Tensor<F>,
    size: usize,
    d_in: usize,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS as usize;
    if at < size {
        let (output, input) = (at / d_in, at % d_in);
        let (row, k) = (output % OUTPUTS, input % INPUTS);
        let (lane, within) = (row % 8 * 4 + k / LANE, k % LANE);
        let tile = row / 16 * 2 + within / 4;
        let register = within % 4 / 2 * 2 + row % 16 / 8;
        let block = output / OUTPUTS * (d_in / INPUTS) + input / INPUTS;
        out[at] = packed[((block * 4 + tile) * LANES + lane) * LANE + register * 2 + within % 2];
    }
}

/// Whether a device multiplies such tiles.
pub(super) fn is_supported(like: &CubeTensor) -> bool {
    let kind = match like.dtype {
        DType::BF16 => ElemType::Float(FloatKind::BF16),
        DType::F16 => ElemType::Float(FloatKind::F16),
        _ => return false,
    };
    let sums = ElemType::Float(FloatKind::F32);
    let tile = MmaConfig { a_type: kind, b_type: kind, cd_type: sums, m: 16, n: 8, k: 16 };
    like.client.features().matmul.mma.contains(&tile)
}

/// The product of `rows` rows of `x` in its parts, `[parts, rows, out]`: in `f32`, or in the format of `x` if there is
/// one.
pub(super) fn multiply(x: &CubeTensor, packed: &CubeTensor, rows: usize, d_in: usize, d_out: usize) -> CubeTensor {
    let parts = parts(d_in, d_out);
    let sums = device::empty(x, [parts, rows, d_out], if parts == 1 { x.dtype } else { DType::F32 });
    let cubes = d_out.div_ceil(OUTPUTS).div_ceil(PLANES);
    // SAFETY: `packed` has whole groups of outputs, rows and outputs beyond the result's are not written, and a part
    // ends with the last block of inputs.
    unsafe {
        multiply_part::launch_unchecked(
            &x.client,
            CubeCount::Static(cubes as u32, parts as u32, 1),
            CubeDim::new_2d(LANES as u32, PLANES as u32),
            device::address([x, packed, &sums]),
            device::arg(packed),
            device::arg(x),
            device::arg(&sums),
            rows,
            d_out,
            d_in / INPUTS,
            part_blocks(d_in, d_out),
            rows.div_ceil(8).next_power_of_two(),
            ahead(d_in / INPUTS),
            device::elem(x),
            device::elem(&sums),
        );
    }
    sums
}

/// The plain matrix, `[out, in]`.
pub(super) fn unpack(packed: &CubeTensor, d_in: usize, d_out: usize) -> CubeTensor {
    let out = device::empty(packed, [d_out, d_in], packed.dtype);
    let size = d_out * d_in;
    // SAFETY: units beyond the matrix do nothing, and every weight of it has a place.
    unsafe {
        unpack_number::launch_unchecked(
            &packed.client,
            CubeCount::Static(size.div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([packed, &out]),
            device::arg(packed),
            device::arg(&out),
            size,
            d_in,
            device::elem(packed),
        );
    }
    out
}
