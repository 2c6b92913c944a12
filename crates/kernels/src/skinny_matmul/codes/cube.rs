//! The product on a GPU: codes become fragments of `mma.sync` in registers.

use super::super::cube::{PLANES, multiply_registers, write_sums};
use super::super::{INPUTS, LANE, LANES, OUTPUTS, tiles};
use super::{ahead, part_blocks, parts};
use crate::device;
use crate::quantised_matmul::CodeBits;
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// Units of a cube that moves numbers one by one.
const UNITS: usize = 256;
/// [`base`] of `f16`.
const HALF_BASE: i32 = 0x6400_6400;

/// A matrix of codes on a device.
pub(super) struct Coded<'a> {
    pub words: &'a CubeTensor,
    pub scales: &'a CubeTensor,
    pub bits: CodeBits,
    pub d_in: usize,
    pub d_out: usize,
    /// Inputs that share a scale.
    pub group: usize,
}

impl Coded<'_> {
    fn groups(&self) -> usize {
        self.d_in.div_ceil(self.group)
    }

    fn four_bits(&self) -> bool {
        self.bits == CodeBits::Four
    }
}

/// Two equal 16-bit numbers to whose lowest bits a code's bits are added: 128 in `bf16`, 1024 in `f16`, the numbers
/// whose last place is one.
fn base(dtype: DType) -> i32 {
    if dtype == DType::F16 { HALF_BASE } else { 0x4300_4300 }
}

/// A warp's share: 32 outputs and a part of K, for all rows. Rows beyond the last one read that one, and are not
/// written.
///
/// # Shapes
/// `words [groups of outputs, blocks, loads, 32]` of four words each, `scales [groups of outputs, groups, 8]` of four,
/// `x [rows, in / 8]` of eight numbers, `out [parts, rows, out]`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn multiply_part<F: Float, S: Float, G: Float>(
    words: &Tensor<Vector<i32, Const<4>>>,
    scales: &Tensor<Vector<S, Const<4>>>,
    x: &Tensor<Vector<F, Const<8>>>,
    out: &mut Tensor<G>,
    rows: usize,
    d_out: usize,
    blocks: usize,
    part_blocks: usize,
    groups: usize,
    group_blocks: usize,
    #[comptime] row_tiles: usize,
    #[comptime] ahead: usize,
    #[comptime] four_bits: bool,
    #[comptime] grouped: bool,
    #[comptime] base: i32,
    #[define(F)] _dtype: ElemType,
    #[define(S)] _scale_dtype: ElemType,
    #[define(G)] _out_dtype: ElemType,
) {
    let lane = UNIT_POS_X as usize;
    let (g, t) = (lane / 4, lane % 4);
    let group = CUBE_POS_X as usize * PLANES + UNIT_POS_Y as usize;
    let (part, first_row) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize * comptime!(8 * row_tiles));
    if group * OUTPUTS >= d_out {
        terminate!();
    }
    let mut sums = zeros(comptime!(4 * row_tiles));
    let end = min((part + 1) * part_blocks, blocks);
    let row_width = blocks * comptime!(INPUTS / LANE);
    let loads = comptime!(if four_bits { 1usize } else { 2usize });
    let mut held = Array::<Vector<i32, Const<4>>>::new(comptime!(loads * ahead));
    let mut factors = scales[group * groups * 8 + g];
    let mut block = part * part_blocks;
    while block < end {
        let at = (group * blocks + block) * comptime!(loads * LANES) + lane;
        // All loads of codes are under way before the first product.
        #[unroll]
        for i in 0..comptime!(loads * ahead) {
            held[i] = words[at + comptime!(i * LANES)];
        }
        #[unroll]
        for later in 0..ahead {
            if comptime!(grouped) {
                factors = scales[(group * groups + (block + later) / group_blocks) * 8 + g];
            }
            let tiles = block_of::<F>(&held, comptime!(later * loads), four_bits, base);
            #[unroll]
            for row_tile in 0..row_tiles {
                let row = min(first_row + comptime!(row_tile * 8) + g, rows - 1);
                let values = x[row * row_width + (block + later) * comptime!(INPUTS / LANE) + t];
                multiply_block::<F, S>(&tiles, values, factors, &mut sums, row_tile, row_tiles, grouped);
            }
        }
        block += ahead;
    }
    if comptime!(!grouped) {
        scale_sums::<S>(&mut sums, factors, row_tiles);
    }
    write_sums::<G>(&sums, out, part * rows + first_row, rows - first_row, group * OUTPUTS, d_out, row_tiles);
}

#[cube]
fn zeros(#[comptime] size: usize) -> Array<Vector<f32, Const<2>>> {
    let mut sums = Array::<Vector<f32, Const<2>>>::new(size);
    #[unroll]
    for i in 0..size {
        sums[i] = Vector::new(f32::new(0.0));
    }
    sums
}

/// Multiplies a lane's sums by the scales of its four outputs.
#[cube]
fn scale_sums<S: Float>(
    sums: &mut Array<Vector<f32, Const<2>>>,
    factors: Vector<S, Const<4>>,
    #[comptime] row_tiles: usize,
) {
    #[unroll]
    for i in 0..comptime!(4 * row_tiles) {
        let factor = factors.extract(comptime!(i / (2 * row_tiles) * 2 + i % 2));
        sums[i] = sums[i] * Vector::new(f32::cast_from(factor));
    }
}

/// Registers of a block's four tiles, from the loads from `first` on.
#[cube]
fn block_of<F: Float>(
    held: &Array<Vector<i32, Const<4>>>,
    #[comptime] first: usize,
    #[comptime] four_bits: bool,
    #[comptime] base: i32,
) -> Array<Vector<F, Const<2>>> {
    let mut tiles = Array::<Vector<F, Const<2>>>::new(16usize);
    #[unroll]
    for i in 0..16usize {
        // Tile i / 4, register i % 4, as `reference::code_place` has them.
        let load = comptime!(if four_bits { first } else { first + i / 8 });
        let word = comptime!(if four_bits { i / 4 } else { i / 2 % 4 });
        let shift = comptime!((if four_bits { i % 4 * 4 } else { i % 2 * 8 }) as i32);
        tiles[i] = pair_of::<F>(held[load].extract(word), shift, four_bits, base);
    }
    tiles
}

/// Two codes as numbers: with `b` the base, `s` a code's sign and `r` its other bits, `(b + r) - (b + s)`, which is exact.
#[cube]
fn pair_of<F: Float>(
    word: i32,
    #[comptime] shift: i32,
    #[comptime] four_bits: bool,
    #[comptime] base: i32,
) -> Vector<F, Const<2>> {
    let bits = word >> shift;
    let rest = (bits & comptime!(if four_bits { 0x0007_0007i32 } else { 0x007f_007fi32 })) | base;
    let sign = (bits & comptime!(if four_bits { 0x0008_0008i32 } else { 0x0080_0080i32 })) | base;
    let (format, minus_one) =
        comptime!(if base == HALF_BASE { ("f16x2", 0xbc00_bc00u32 as i32) } else { ("bf16x2", 0xbf80_bf80u32 as i32) });
    // Both numbers in one instruction: the operators of vectors take one each, and pack them again.
    let minus = i32::cast_from(minus_one);
    let difference: i32;
    gpu_asm!(
        "fma.rn.{format} {to}, {sign}, {minus}, {rest};",
        to = out(_) difference, sign = in(_) sign, minus = in(_) minus, rest = in(_) rest,
        options(nomem),
    );
    Vector::<F, Const<2>>::reinterpret(difference)
}

/// Adds the products of a block's four tiles and a lane's inputs of eight rows, times the block's scales if it has any.
#[cube]
fn multiply_block<F: Float, S: Float>(
    tiles: &Array<Vector<F, Const<2>>>,
    inputs: Vector<F, Const<8>>,
    factors: Vector<S, Const<4>>,
    sums: &mut Array<Vector<f32, Const<2>>>,
    #[comptime] row_tile: usize,
    #[comptime] row_tiles: usize,
    #[comptime] grouped: bool,
) {
    #[unroll]
    for pair in 0..2usize {
        let at = comptime!(2 * (pair * row_tiles + row_tile));
        if comptime!(grouped) {
            let mut own = Array::<Vector<f32, Const<2>>>::new(2usize);
            own[0usize] = Vector::new(f32::new(0.0));
            own[1usize] = Vector::new(f32::new(0.0));
            multiply_registers::<F>(tiles, inputs, &mut own, comptime!(8 * pair), 0usize, 0usize);
            multiply_registers::<F>(tiles, inputs, &mut own, comptime!(8 * pair + 4), 0usize, 4usize);
            #[unroll]
            for half in 0..2usize {
                let factor = Vector::new(f32::cast_from(factors.extract(comptime!(2 * pair + half))));
                sums[comptime!(at + half)] = fma(own[half], factor, sums[comptime!(at + half)]);
            }
        } else {
            multiply_registers::<F>(tiles, inputs, sums, comptime!(8 * pair), at, 0usize);
            multiply_registers::<F>(tiles, inputs, sums, comptime!(8 * pair + 4), at, 4usize);
        }
    }
}

/// One number of the plain matrix `[out, in]`, from its places ([`super::reference`]).
#[cube(launch_unchecked, address_type = "dynamic")]
fn unpack_number<F: Float, S: Float>(
    words: &Tensor<i32>,
    scales: &Tensor<S>,
    out: &mut Tensor<F>,
    size: usize,
    d_in: usize,
    groups: usize,
    group: usize,
    #[comptime] four_bits: bool,
    #[define(F)] _dtype: ElemType,
    #[define(S)] _scale_dtype: ElemType,
) {
    let at = ABSOLUTE_POS as usize;
    if at < size {
        let (output, input) = (at / d_in, at % d_in);
        let (row, k) = (output % OUTPUTS, input % INPUTS);
        let (lane, within) = (row % 8 * 4 + k / LANE, k % LANE);
        let tile = row / 16 * 2 + within / 4;
        let register = within % 4 / 2 * 2 + row % 16 / 8;
        let block = output / OUTPUTS * (d_in / INPUTS) + input / INPUTS;
        let (mut word, mut shift, mut above) = ((block * LANES + lane) * 4 + tile, 4 * register, 28usize);
        if comptime!(!four_bits) {
            word = ((block * 2 + tile / 2) * LANES + lane) * 4 + tile % 2 * 2 + register / 2;
            shift = register % 2 * 8;
            above = 24usize;
        }
        shift += within % 2 * 16;
        // The sign's bit comes to the top, and then down again with its copies.
        let code = (words[word] << (above - shift) as i32) >> above as i32;
        let scale = scales[((output / OUTPUTS * groups + input / group) * 8 + row % 8) * 4 + row / 8];
        out[at] = F::cast_from(f32::cast_from(code) * f32::cast_from(scale));
    }
}

/// The product of `rows` rows of `x` in its parts, `[parts, rows, out]`: in `f32`, or in the format of `x` if there is
/// one.
pub(super) fn multiply(x: &CubeTensor, coded: &Coded<'_>, rows: usize) -> CubeTensor {
    let Coded { words, scales, bits, d_in, d_out, group } = *coded;
    let (parts, blocks) = (parts(bits, d_in, d_out), d_in / INPUTS);
    let sums = device::empty(x, [parts, rows, d_out], if parts == 1 { x.dtype } else { DType::F32 });
    let cubes = d_out.div_ceil(OUTPUTS).div_ceil(PLANES);
    let (row_tiles, row_cubes) = tiles(rows);
    // SAFETY: `words` has whole groups of outputs and `scales` those of each, rows and outputs beyond the result's are
    // not written, and a part ends with the last block of inputs.
    unsafe {
        multiply_part::launch_unchecked(
            &x.client,
            CubeCount::Static(cubes as u32, parts as u32, row_cubes as u32),
            CubeDim::new_2d(LANES as u32, PLANES as u32),
            device::address([x, words, scales, &sums]),
            device::arg(words),
            device::arg(scales),
            device::arg(x),
            device::arg(&sums),
            rows,
            d_out,
            blocks,
            part_blocks(bits, d_in, d_out),
            coded.groups(),
            group.div_ceil(INPUTS),
            row_tiles,
            ahead(bits, blocks),
            coded.four_bits(),
            coded.groups() > 1,
            base(x.dtype),
            device::elem(x),
            device::elem(scales),
            device::elem(&sums),
        );
    }
    sums
}

/// The plain matrix, `[out, in]`.
pub(super) fn unpack(coded: &Coded<'_>, dtype: DType) -> CubeTensor {
    let Coded { words, scales, d_in, d_out, group, .. } = *coded;
    let out = device::empty(words, [d_out, d_in], dtype);
    let size = d_out * d_in;
    // SAFETY: units beyond the matrix do nothing, and every weight of it has a place.
    unsafe {
        unpack_number::launch_unchecked(
            &words.client,
            CubeCount::Static(size.div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([words, scales, &out]),
            device::arg(words),
            device::arg(scales),
            device::arg(&out),
            size,
            d_in,
            coded.groups(),
            group,
            coded.four_bits(),
            device::elem(&out),
            device::elem(scales),
        );
    }
    out
}
