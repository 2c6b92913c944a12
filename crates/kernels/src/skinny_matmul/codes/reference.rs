//! The definitions: the layout of codes and scales, and the product by plain loops in the kernel's order.

use super::super::reference::place;
use super::super::{INPUTS, LANE, LANES, OUTPUTS};
use super::part_blocks;
use crate::quantised_matmul::{CodeBits, Codes};

/// Where a code is: its byte, and how far the code is shifted up in it.
///
/// A register of a tile holds two numbers, which are 16 bits apart in a word of 32 bits: one shift and a mask find both.
/// Of 4 bits a word has the four registers of a tile; of 8 bits two words have them.
pub fn code_place(bits: CodeBits, d_in: usize, output: usize, input: usize) -> (usize, usize) {
    let at = place(d_in, output, input);
    let (number, lane, tile, block) = (at % LANE, at / LANE % LANES, at / (LANE * LANES) % 4, at / (4 * LANE * LANES));
    let (register, second) = (number / 2, number % 2);
    match bits {
        CodeBits::Eight => {
            let word = ((block * 2 + tile / 2) * LANES + lane) * 4 + tile % 2 * 2 + register / 2;
            (word * 4 + register % 2 + 2 * second, 0)
        }
        CodeBits::Four => {
            let word = (block * LANES + lane) * 4 + tile;
            (word * 4 + register / 2 + 2 * second, register % 2 * 4)
        }
    }
}

/// Place of a column's scale for a group of inputs: a lane reads those of its four outputs in one load.
pub fn scale_place(groups: usize, output: usize, group: usize) -> usize {
    let row = output % OUTPUTS;
    ((output / OUTPUTS * groups + group) * 8 + row % 8) * 4 + row / 8
}

/// Bytes of packed codes; outputs are padded to whole groups.
pub fn code_bytes(bits: CodeBits, d_in: usize, d_out: usize) -> usize {
    d_out.next_multiple_of(OUTPUTS) * d_in * bits.bits() / 8
}

/// Packs the codes of a group of outputs, less their zero point and in two's complement. Those of padding are zero.
///
/// # Shapes
/// `codes [out, in]`, `packed [32 · in · bits / 8]`.
pub fn pack(bits: CodeBits, d_in: usize, codes: &[u8], group: usize, packed: &mut [u8]) {
    packed.fill(0);
    let mask = bits.middle() | (bits.middle() - 1);
    let rows = codes.get(group * OUTPUTS * d_in..).unwrap_or(&[]).chunks_exact(d_in).take(OUTPUTS);
    for (output, row) in rows.enumerate() {
        for (input, &code) in row.iter().enumerate() {
            let (byte, shift) = code_place(bits, d_in, output, input);
            packed[byte] |= ((code ^ bits.middle()) & mask) << shift;
        }
    }
}

/// Scales in the order of [`scale_place`]; those of padding are zero.
pub fn pack_scales(codes: &Codes) -> Vec<f32> {
    let groups = codes.groups();
    let mut packed = vec![0.0; codes.d_out.next_multiple_of(OUTPUTS) * groups];
    for (output, scales) in codes.scales.chunks_exact(groups).enumerate() {
        for (group, &scale) in scales.iter().enumerate() {
            packed[scale_place(groups, output, group)] = scale;
        }
    }
    packed
}

/// `y = x · Wᵀ` in `f32`: parts of K one after the other, then their sums in that order. Scales are factors of sums over
/// blocks of inputs, or of those over parts where a column has one group.
///
/// # Shapes
/// `x [rows, in]`, `values [out, in]`, result `[rows, out]`.
pub fn product(x: &[f32], codes: &Codes, values: &[u8]) -> Vec<f32> {
    let (d_in, groups, middle) = (codes.d_in, codes.groups(), f32::from(codes.bits.middle()));
    let part = part_blocks(codes.bits, d_in, codes.d_out) * INPUTS;
    // Inputs whose sum is multiplied by a scale.
    let scaled = if groups == 1 { part } else { INPUTS };
    let mut y = vec![];
    for row in x.chunks_exact(d_in) {
        for (values, scales) in values.chunks_exact(d_in).zip(codes.scales.chunks_exact(groups)) {
            let block = |start: usize| {
                let range = start..d_in.min(start + scaled);
                let sum: f32 = range.map(|k| row[k] * (f32::from(values[k]) - middle)).sum();
                sum * scales[(start / codes.group).min(groups - 1)]
            };
            let of_part = |start: usize| (start..d_in.min(start + part)).step_by(scaled).map(block).sum::<f32>();
            y.push((0..d_in).step_by(part).map(of_part).sum());
        }
    }
    y
}

#[cfg(test)]
mod tests;
