//! The definitions: the layout of weights, and the product by plain loops in the kernel's order.

use super::{INPUTS, LANE, LANES, OUTPUTS, part_blocks};

/// Place of a weight in packed order: groups of 32 outputs, of these blocks of 32 inputs, of these four tiles (two of
/// outputs, each two of inputs), of these lanes, of these eight numbers.
///
/// In a tile, lane `4 g + t` holds the weights of outputs `g` and `g + 8`. A product takes inputs `2t, 2t+1, 2t+8, 2t+9`
/// of a tile from it ([PTX ISA, mma.m16n8k16](https://docs.nvidia.com/cuda/parallel-thread-execution/)). Sums do not
/// care which inputs those are as long as both factors agree, so lane `t` has inputs `8t` to `8t + 7` of a block: the
/// first four in the first tile, the others in the second. That way it reads its share of a row of `x` in one load too.
pub fn place(d_in: usize, output: usize, input: usize) -> usize {
    let (group, row) = (output / OUTPUTS, output % OUTPUTS);
    let (block, k) = (input / INPUTS, input % INPUTS);
    let (lane, within) = (row % 8 * 4 + k / LANE, k % LANE);
    let tile = row / 16 * 2 + within / 4;
    // Registers hold two numbers each: row g, row g + 8, row g of the later inputs, row g + 8 of them.
    let register = within % 4 / 2 * 2 + row % 16 / 8;
    (((group * (d_in / INPUTS) + block) * 4 + tile) * LANES + lane) * LANE + register * 2 + within % 2
}

/// Numbers of a packed matrix; outputs are padded to whole groups.
pub fn packed_size(d_in: usize, d_out: usize) -> usize {
    d_out.next_multiple_of(OUTPUTS) * d_in
}

/// Packs groups of outputs from `weights [out, in]`; those of padding are zero.
///
/// # Shapes
/// `packed [groups.., 32 · in]`, the groups from `first` on.
pub fn pack(d_in: usize, weights: &[u16], first: usize, packed: &mut [u16]) {
    let group = OUTPUTS * d_in;
    for (i, packed) in packed.chunks_exact_mut(group).enumerate() {
        let from = (first + i) * group;
        packed.fill(0);
        let rows = weights.get(from..).unwrap_or(&[]).chunks_exact(d_in).take(OUTPUTS);
        for (output, row) in rows.enumerate() {
            for (input, &weight) in row.iter().enumerate() {
                packed[place(d_in, output, input)] = weight;
            }
        }
    }
}

/// `y = x · Wᵀ` in `f32`: parts of K one after the other, then their sums in that order.
///
/// # Shapes
/// `x [rows, in]`, `weights [out, in]`, result `[rows, out]`.
pub fn product(d_in: usize, x: &[f32], weights: &[f32]) -> Vec<f32> {
    let part = part_blocks(d_in, weights.len() / d_in) * INPUTS;
    let mut y = vec![];
    for row in x.chunks_exact(d_in) {
        for output in weights.chunks_exact(d_in) {
            let dot = |(x, w): (&[f32], &[f32])| x.iter().zip(w).map(|(x, w)| x * w).sum::<f32>();
            y.push(row.chunks(part).zip(output.chunks(part)).map(dot).sum());
        }
    }
    y
}

#[cfg(test)]
mod tests;
