//! Rows of inputs in integers, as tiles read them.

use super::QuantisedMatrix;
use crate::isa::per_isa;

/// How inputs are multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// As they are, in `f32`.
    #[default]
    Exact,
    /// In 8 bits, -127 to 127, with a scale per row and group.
    Eight,
    /// In 16 bits, -32512 to 32512, with a scale per row and group: `255 · upper + lower`, both from -127 to 127, a
    /// product each.
    Sixteen,
}

impl Activations {
    /// Greatest magnitude of a rounded input.
    pub(super) fn greatest(self) -> f32 {
        if self == Activations::Sixteen { 32512.0 } else { 127.0 }
    }

    /// Products of bytes per input.
    pub(super) fn parts(self) -> usize {
        if self == Activations::Sixteen { 2 } else { 1 }
    }
}

/// A unit of the upper part of 16 bits. With 256 the lower part would reach -128, whose negation is no byte.
pub(super) const BASE: f32 = 255.0;
/// Rows of a tile at most, both parts of 16 bits counted.
pub(super) const TALLEST: usize = 14;

/// Rows in integers, in tiles of nearly equal height. Memory is kept between products.
#[derive(Default)]
pub(super) struct IntegerRows {
    rows: usize,
    parts: usize,
    groups: usize,
    /// Words of a row: four inputs each.
    width: usize,
    /// Tile after tile, each `[width][parts · height]`, or `[parts · height][width]` by rows: a tile's lower parts follow
    /// its upper ones.
    words: Vec<u32>,
    by_rows: bool,
    /// `[rows][groups]`.
    scales: Vec<f32>,
    /// Sums of the rounded inputs, `[rows][parts][groups]`.
    sums: Vec<i32>,
    /// One row, part after part.
    bytes: Vec<i8>,
    /// One row in the order of the codes.
    ordered: Vec<f32>,
}

/// A few rows.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    /// The first row.
    pub first: usize,
    /// How many.
    pub rows: usize,
    pub parts: usize,
    /// `[width][parts · rows]`, or `[parts · rows][width]` by rows.
    pub words: &'a [u32],
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    pub by_rows: bool,
    /// `[rows][groups]`.
    pub scales: &'a [f32],
    /// `[rows][parts][groups]`.
    pub sums: &'a [i32],
}

impl IntegerRows {
    /// Rounds `x [rows, d_in]` for a matmul with `w`; `by_rows` lays each row in one piece.
    pub fn set(&mut self, isa: crate::Isa, x: &[f32], w: &QuantisedMatrix, activations: Activations, by_rows: bool) {
        self.by_rows = by_rows;
        let (d_in, group) = (w.d_in(), w.group());
        (self.rows, self.parts, self.groups) = (x.len() / d_in, activations.parts(), w.groups());
        self.width = w.lines() * w.bits().inputs_per_line() / 4;
        grow(&mut self.words, self.rows * self.parts * self.width);
        grow(&mut self.scales, self.rows * self.groups);
        grow(&mut self.sums, self.rows * self.parts * self.groups);
        grow(&mut self.bytes, self.parts * self.width * 4);
        for tile in 0..self.tiles() {
            let (first, height) = self.span(tile);
            for row in first..first + height {
                let x = &x[row * d_in..(row + 1) * d_in];
                let x = match w.order() {
                    None => x,
                    Some(order) => {
                        self.ordered.clear();
                        self.ordered.extend(order.iter().map(|&place| x[place as usize]));
                        &self.ordered
                    }
                };
                let size = self.width * 4;
                // Inputs beyond the last one of a row.
                self.bytes.chunks_exact_mut(size).take(self.parts).for_each(|part| part[d_in..].fill(0));
                for (index, x) in x.chunks(group).enumerate() {
                    let (upper, lower) = self.bytes.split_at_mut(size);
                    let at = index * group..index * group + x.len();
                    let lower = lower.get_mut(at.clone()).unwrap_or_default();
                    let (scale, sums) = round(isa, x, activations, &mut upper[at], lower);
                    self.scales[row * self.groups + index] = scale;
                    for (part, &sum) in sums.iter().enumerate().take(self.parts) {
                        self.sums[(row * self.parts + part) * self.groups + index] = sum;
                    }
                }
                self.lay(first, height, row - first);
            }
        }
    }

    /// Writes the row in `bytes` to its place in a tile.
    fn lay(&mut self, first: usize, height: usize, row: usize) {
        let (size, tall) = (self.width * 4, height * self.parts);
        let words = &mut self.words[first * self.parts * self.width..][..tall * self.width];
        for part in 0..self.parts {
            let bytes = self.bytes[part * size..(part + 1) * size].as_chunks::<4>().0;
            let (from, step) = if self.by_rows { (self.width, 1) } else { (1, tall) };
            for (word, out) in bytes.iter().zip(words[(part * height + row) * from..].iter_mut().step_by(step)) {
                *out = u32::from_le_bytes(word.map(|byte| byte as u8));
            }
        }
    }

    /// Number of tiles.
    pub fn tiles(&self) -> usize {
        (self.rows * self.parts).div_ceil(TALLEST / self.parts * self.parts)
    }

    /// First row and height of a tile.
    fn span(&self, tile: usize) -> (usize, usize) {
        let end = |tile: usize| tile * self.rows / self.tiles();
        (end(tile), end(tile + 1) - end(tile))
    }

    /// A tile of rows.
    pub fn tile(&self, tile: usize) -> Tile<'_> {
        let (first, rows) = self.span(tile);
        let (parts, groups) = (self.parts, self.groups);
        Tile {
            first,
            rows,
            parts,
            words: &self.words[first * parts * self.width..][..rows * parts * self.width],
            by_rows: self.by_rows,
            scales: &self.scales[first * groups..][..rows * groups],
            sums: &self.sums[first * parts * groups..][..rows * parts * groups],
        }
    }
}

/// Makes room for `size` values; what is there is overwritten.
fn grow<T: Copy + Default>(values: &mut Vec<T>, size: usize) {
    if values.len() < size {
        values.resize(size, T::default());
    }
}

per_isa! {
    /// Rounds a group of inputs: its scale, and the sums of its parts. A group with a number that is not finite has the
    /// scale NaN.
    fn round(x: &[f32], activations: Activations, upper: &mut [i8], lower: &mut [i8]) -> (f32, [i32; 2]) {
        let mut greatest = 0u32;
        for value in x {
            // Of magnitudes the order of bits is that of values; what is not finite is above all others.
            greatest = greatest.max(value.to_bits() & 0x7fff_ffff);
        }
        if greatest >= f32::INFINITY.to_bits() {
            upper.fill(0);
            lower.fill(0);
            return (f32::NAN, [0, 0]);
        }
        let greatest = f32::from_bits(greatest);
        let most = activations.greatest();
        // The quotient is infinite where the greatest input is subnormal: such a group counts as zero.
        let factor = if most / greatest < f32::INFINITY { most / greatest } else { 0.0 };
        let scale = if factor > 0.0 { greatest / most } else { 0.0 };
        let mut sums = [0i32; 2];
        if activations == Activations::Sixteen {
            for ((value, upper), lower) in x.iter().zip(upper).zip(lower) {
                let whole = (value * factor).round_ties_even();
                let high = (whole * (1.0 / BASE)).round_ties_even();
                let (high, low) = (high as i32, (whole - BASE * high) as i32);
                *upper = high as i8;
                *lower = low as i8;
                sums[0] += high;
                sums[1] += low;
            }
        } else {
            for (value, upper) in x.iter().zip(upper) {
                let whole = (value * factor).round_ties_even() as i32;
                *upper = whole as i8;
                sums[0] += whole;
            }
        }
        (scale, sums)
    }
}

#[cfg(test)]
mod tests;
