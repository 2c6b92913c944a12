//! Weights rounded to codes: nearest values, with a search for the scale of each group.

use super::CodeBits;
use super::matrix::{CodeSource, Codes, QuantisedMatrix};
use super::scales::ScaleFormat;
use crate::few_row_matmul::{PackError, RowSource};
use rayon::prelude::*;
use std::ops::Range;

/// Rows that are read at a time.
const BLOCK: usize = 32;

/// How a matrix is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounding {
    /// Size of a code.
    pub bits: CodeBits,
    /// Neighbouring inputs that share a scale; `None` for all of a row.
    pub group: Option<usize>,
}

/// A matrix rounded to codes.
#[derive(Debug)]
pub struct Rounded {
    /// Sizes and scales.
    pub codes: Codes,
    /// `[d_out, d_in]`.
    pub values: Vec<u8>,
}

impl Rounding {
    /// Rounds a `[d_out, d_in]` matrix. The scale of a group is one of several candidates, the one with the least sum
    /// of squared errors; scales are kept in `f16` for groups and in `f32` for whole rows.
    ///
    /// # Errors
    /// When the source fails, or a weight is not finite.
    pub fn round(self, d_in: usize, d_out: usize, source: &dyn RowSource) -> Result<Rounded, PackError> {
        let group = self.group.unwrap_or(d_in).clamp(1, d_in.max(1));
        let scale_format = if self.group.is_some() { ScaleFormat::F16 } else { ScaleFormat::F32 };
        let groups = d_in.div_ceil(group);
        let mut values = vec![0u8; d_out * d_in];
        let mut scales = vec![0f32; d_out * groups];
        if d_in == 0 || d_out == 0 {
            return Err(PackError::Size { d_out, d_in });
        }
        let blocks = values.par_chunks_mut(BLOCK * d_in).zip(scales.par_chunks_mut(BLOCK * groups)).enumerate();
        blocks.try_for_each_init(
            || vec![0f32; BLOCK * d_in],
            |rows, (block, (codes, scales))| {
                let count = codes.len() / d_in;
                let rows = &mut rows[..count * d_in];
                source.read_rows(block * BLOCK..block * BLOCK + count, rows).map_err(PackError::Source)?;
                if let Some(&value) = rows.iter().find(|value| !value.is_finite()) {
                    return Err(PackError::Overflow { value });
                }
                let rows = rows.chunks(d_in).zip(codes.chunks_mut(d_in)).zip(scales.chunks_mut(groups));
                for ((row, codes), scales) in rows {
                    for ((weights, codes), scale) in row.chunks(group).zip(codes.chunks_mut(group)).zip(scales) {
                        *scale = round_group(weights, self.bits, scale_format, codes);
                    }
                }
                Ok(())
            },
        )?;
        let codes = Codes { d_in, d_out, bits: self.bits, group, scales, scale_format, zeros: None, order: None };
        Ok(Rounded { codes, values })
    }

    /// Rounds and packs a matrix.
    ///
    /// # Errors
    /// As of [`Self::round`] and [`QuantisedMatrix::pack`].
    pub fn pack(self, d_in: usize, d_out: usize, source: &dyn RowSource) -> Result<QuantisedMatrix, PackError> {
        let rounded = self.round(d_in, d_out, source)?;
        QuantisedMatrix::pack(rounded.codes.clone(), &rounded)
    }
}

/// Rounds a group of weights, and returns its scale.
pub(super) fn round_group(weights: &[f32], bits: CodeBits, format: ScaleFormat, codes: &mut [u8]) -> f32 {
    let greatest = weights.iter().fold(0f32, |a, &b| if b.abs() > a.abs() { b } else { a });
    let half = f32::from(bits.middle());
    // Codes of 8 bits stay symmetric: the byte products of some processors need that.
    let starts: &[f32] = match bits {
        CodeBits::Eight => &[127.0],
        // The greatest weight becomes -8, or less where clipping it pays.
        CodeBits::Four => &[-8.0, -8.4, -8.8, -9.3, -9.9, 7.0, 7.4, 7.8, 8.3, 8.9],
    };
    let mut best = (f64::INFINITY, 0f32);
    for start in starts {
        let first = format.round(greatest / start);
        for scale in [first, refined(weights, first, half, bits, format)] {
            let error = squared_error(weights, scale, half, bits);
            if error < best.0 {
                best = (error, scale);
            }
        }
    }
    let scale = best.1;
    for (weight, code) in weights.iter().zip(codes) {
        *code = (code_of(*weight, scale, half, bits) + half) as u8;
    }
    scale
}

/// Code less its zero point.
fn code_of(weight: f32, scale: f32, half: f32, bits: CodeBits) -> f32 {
    if scale == 0.0 {
        return 0.0;
    }
    let lowest = if bits == CodeBits::Eight { 1.0 - half } else { -half };
    (weight / scale).round_ties_even().clamp(lowest, half - 1.0)
}

/// The scale with the least squared error for the codes that another scale gives: `Σ w q / Σ q²`.
fn refined(weights: &[f32], scale: f32, half: f32, bits: CodeBits, format: ScaleFormat) -> f32 {
    let (mut with, mut of) = (0f64, 0f64);
    for &weight in weights {
        let code = f64::from(code_of(weight, scale, half, bits));
        with += f64::from(weight) * code;
        of += code * code;
    }
    let least = if of > 0.0 { format.round((with / of) as f32) } else { scale };
    // A scale beyond the format's range is none.
    if least.is_finite() { least } else { scale }
}

fn squared_error(weights: &[f32], scale: f32, half: f32, bits: CodeBits) -> f64 {
    if !scale.is_finite() {
        return f64::INFINITY;
    }
    weights.iter().map(|&weight| f64::from(weight - scale * code_of(weight, scale, half, bits)).powi(2)).sum()
}

/// Codes in memory.
impl CodeSource for Rounded {
    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), String> {
        (&self.values[..], self.codes.d_in).read_codes(rows, out)
    }
}

#[cfg(test)]
mod tests;
