//! Weights rounded to codes: nearest values, with a search for the scale of each group.

use super::CodeBits;
use super::matrix::{CodeSource, Codes, QuantisedMatrix};
use super::scales::ScaleFormat;
use crate::few_row_matmul::{PackError, RowSource};
use rayon::prelude::*;
use std::ops::Range;

/// Rows that are read at a time.
const BLOCK: usize = 32;

/// How the scale of a group is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleSearch {
    /// `max |w| / (2^(bits - 1) - 1/2)`, as observers of minimum and maximum have it; nothing is searched.
    Greatest,
    /// The greatest weight gets the outermost code, and then the scale is fitted to the codes: `Σ w q / Σ q²`.
    Fitted,
    /// The best of several scales that clip more and more of the greatest weights, each fitted. Of two scales the
    /// better one has the smaller sum of squared errors.
    Clipped,
}

/// How a matrix is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// Size of a code.
    pub bits: CodeBits,
    /// Neighbouring inputs that share a scale; `None` for all of a row.
    pub group: Option<usize>,
    /// Number format of scales.
    pub scale_format: ScaleFormat,
    /// How scales are chosen.
    pub search: ScaleSearch,
}

/// A matrix rounded to codes.
#[derive(Debug)]
pub struct Rounded {
    /// Sizes and scales.
    pub codes: Codes,
    /// `[d_out, d_in]`.
    pub values: Vec<u8>,
    /// `Σ (w - scale · (code - zero))²` over all weights.
    pub squared_error: f64,
    /// `Σ w²`.
    pub squared_weights: f64,
}

impl Rounding {
    /// Rounds a `[d_out, d_in]` matrix to nearest values.
    ///
    /// # Errors
    /// When the source fails, or a weight is not finite.
    pub fn round(self, d_in: usize, d_out: usize, source: &dyn RowSource) -> Result<Rounded, PackError> {
        let group = self.group.unwrap_or(d_in).clamp(1, d_in.max(1));
        let groups = d_in.div_ceil(group);
        let mut values = vec![0u8; d_out * d_in];
        let mut scales = vec![0f32; d_out * groups];
        if d_in == 0 || d_out == 0 {
            return Err(PackError::Size { d_out, d_in });
        }
        let blocks = values.par_chunks_mut(BLOCK * d_in).zip(scales.par_chunks_mut(BLOCK * groups)).enumerate();
        let sums: Result<Vec<[f64; 2]>, PackError> = blocks
            .map_init(
                || vec![0f32; BLOCK * d_in],
                |rows, (block, (codes, scales))| {
                    let rows = &mut rows[..codes.len()];
                    source
                        .read_rows(block * BLOCK..block * BLOCK + codes.len() / d_in, rows)
                        .map_err(PackError::Source)?;
                    self.round_rows(rows, [d_in, group], codes, scales)
                },
            )
            .collect();
        let [squared_error, squared_weights] =
            sums?.iter().fold([0f64; 2], |all, one| [all[0] + one[0], all[1] + one[1]]);
        let (bits, scale_format) = (self.bits, self.scale_format);
        let codes = Codes { d_in, d_out, bits, group, scales, scale_format, zeros: None, order: None, numbers: None };
        Ok(Rounded { codes, values, squared_error, squared_weights })
    }

    /// Rounds some rows; returns the sums of squared errors and of squared weights.
    fn round_rows(
        self,
        rows: &[f32],
        [d_in, group]: [usize; 2],
        codes: &mut [u8],
        scales: &mut [f32],
    ) -> Result<[f64; 2], PackError> {
        if let Some(&value) = rows.iter().find(|value| !value.is_finite()) {
            return Err(PackError::Overflow { value });
        }
        let mut error = 0f64;
        let rows_and_codes = rows.chunks(d_in).zip(codes.chunks_mut(d_in));
        for ((row, codes), scales) in rows_and_codes.zip(scales.chunks_mut(d_in.div_ceil(group))) {
            for ((weights, codes), scale) in row.chunks(group).zip(codes.chunks_mut(group)).zip(scales) {
                let (found, of_group) = self.round_group(weights, codes);
                *scale = found;
                error += of_group;
            }
        }
        Ok([error, rows.iter().map(|&weight| f64::from(weight).powi(2)).sum()])
    }

    /// Rounds and packs a matrix.
    ///
    /// # Errors
    /// As of [`Self::round`] and [`QuantisedMatrix::pack`].
    pub fn pack(self, d_in: usize, d_out: usize, source: &dyn RowSource) -> Result<QuantisedMatrix, PackError> {
        let rounded = self.round(d_in, d_out, source)?;
        QuantisedMatrix::pack(rounded.codes.clone(), &rounded)
    }

    /// Rounds a group of weights; returns its scale and the sum of squared errors.
    fn round_group(self, weights: &[f32], codes: &mut [u8]) -> (f32, f64) {
        let (format, levels) = (self.scale_format, Levels::of(self.bits));
        let greatest = weights.iter().fold(0f32, |a, &b| if b.abs() > a.abs() { b } else { a });
        // Codes of 8 bits are symmetric, so a negative scale would gain nothing.
        let positive = self.bits == CodeBits::Eight || self.search == ScaleSearch::Greatest;
        let end = if positive { greatest.abs() } else { greatest };
        let mut best = (0f32, f64::INFINITY);
        let mut consider = |scale: f32| {
            let error = levels.squared_error(weights, scale);
            if error < best.1 {
                best = (scale, error);
            }
        };
        for start in self.starts() {
            let first = format.round(end / start);
            consider(first);
            if self.search != ScaleSearch::Greatest {
                consider(levels.fitted(weights, first, format));
            }
        }
        let (scale, middle) = (best.0, f32::from(self.bits.middle()));
        for (weight, code) in weights.iter().zip(codes) {
            let level = if scale == 0.0 { 0.0 } else { levels.code(*weight, scale) };
            *code = (level + middle) as u8;
        }
        best
    }

    /// Codes of the greatest weight that are tried; beyond the range of codes it is clipped.
    fn starts(self) -> &'static [f32] {
        match (self.search, self.bits) {
            (ScaleSearch::Greatest, CodeBits::Eight) => &[127.5],
            (ScaleSearch::Greatest, CodeBits::Four) => &[7.5],
            (ScaleSearch::Fitted, CodeBits::Eight) => &[127.0],
            (ScaleSearch::Fitted, CodeBits::Four) => &[-8.0, 7.0],
            (ScaleSearch::Clipped, CodeBits::Eight) => &[127.0, 130.0, 134.0, 139.0, 146.0, 155.0],
            (ScaleSearch::Clipped, CodeBits::Four) => &[-8.0, -8.4, -8.8, -9.3, -9.9, 7.0, 7.4, 7.8, 8.3, 8.9],
        }
    }
}

/// Weights side by side in sums.
const LANES: usize = 8;

/// Codes less their zero points, from `lowest` to `highest`.
#[derive(Clone, Copy)]
struct Levels {
    lowest: f32,
    highest: f32,
}

impl Levels {
    fn of(bits: CodeBits) -> Self {
        let half = f32::from(bits.middle());
        // Those of 8 bits are symmetric: the byte products of some processors need that.
        let lowest = if bits == CodeBits::Eight { 1.0 - half } else { -half };
        Self { lowest, highest: half - 1.0 }
    }

    /// The code nearest to a weight, ties to even. The scale is not zero.
    #[inline(always)]
    fn code(self, weight: f32, scale: f32) -> f32 {
        // Numbers this large have no fractions. Their sum is rounded by any processor, with or without such an
        // instruction.
        const SHIFT: f32 = 12_582_912.0;
        ((weight / scale).clamp(self.lowest, self.highest) + SHIFT) - SHIFT
    }

    /// The scale with the least squared error for the codes that another scale gives: `Σ w q / Σ q²`.
    fn fitted(self, weights: &[f32], scale: f32, format: ScaleFormat) -> f32 {
        if scale == 0.0 || !scale.is_finite() {
            return scale;
        }
        let [with, of] = sums(weights, |weight| {
            let code = self.code(weight, scale);
            [f64::from(weight) * f64::from(code), f64::from(code * code)]
        });
        let least = if of > 0.0 { format.round((with / of) as f32) } else { scale };
        // A scale beyond the format's range is none.
        if least.is_finite() { least } else { scale }
    }

    /// `Σ (w - scale · code)²`.
    fn squared_error(self, weights: &[f32], scale: f32) -> f64 {
        let error = |rest: f32| [f64::from(rest) * f64::from(rest)];
        let [sum] = match scale {
            0.0 => sums(weights, error),
            scale if scale.is_finite() => sums(weights, |weight| error(weight - scale * self.code(weight, scale))),
            _ => [f64::INFINITY],
        };
        sum
    }
}

/// Sums over weights in a fixed order: that of [`LANES`] interleaved sums, which are added at the end.
#[inline(always)]
fn sums<const N: usize>(weights: &[f32], terms: impl Fn(f32) -> [f64; N]) -> [f64; N] {
    let mut lanes = [[0f64; LANES]; N];
    let (blocks, rest) = weights.as_chunks::<LANES>();
    for block in blocks {
        for (lane, &weight) in block.iter().enumerate() {
            let terms = terms(weight);
            (0..N).for_each(|n| lanes[n][lane] += terms[n]);
        }
    }
    for (lane, &weight) in rest.iter().enumerate() {
        let terms = terms(weight);
        (0..N).for_each(|n| lanes[n][lane] += terms[n]);
    }
    lanes.map(|lanes| lanes.iter().sum())
}

/// Codes in memory.
impl CodeSource for Rounded {
    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), String> {
        (&self.values[..], self.codes.d_in).read_codes(rows, out)
    }
}

#[cfg(test)]
mod tests;
