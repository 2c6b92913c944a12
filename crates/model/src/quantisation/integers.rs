//! Matrices of integers with scales and zero points.

use super::bits;
use super::codes::{Codes, Zeros};
use super::tensors::{Rows, Tensors};
use crate::weights::WeightsError;
use safetensors::Dtype;
use std::ops::Range;

/// The place of unsigned codes.
pub(super) enum Source {
    /// A stream of words for each row.
    Streams { suffix: &'static str, bits: u32 },
    /// Signed bytes, row after row; a code is a byte plus 128.
    Bytes { suffix: &'static str },
    /// Words `[in · bits / 32, out]`: a stream down each column.
    Columns { words: Vec<u32>, bits: u32 },
    /// Words `[in, out / 8]` of four-bit codes, in the order of AWQ.
    Interleaved { words: Vec<u32> },
}

/// A matrix of integers.
pub(super) struct Integers<'a> {
    tensors: Tensors<'a>,
    source: Source,
    codes: Codes,
    /// The group of each input, where it does not follow from the input's place.
    groups: Option<Vec<u32>>,
    /// Whether [`Codes`] describe the matrix: groups of equal size, whatever their order.
    regular: bool,
}

/// Scales and zero points `[groups, out]`.
pub(super) struct Scales {
    pub values: Vec<f32>,
    pub dtype: Dtype,
    pub zeros: Zeros,
}

impl<'a> Integers<'a> {
    /// A matrix `[out, in]` of codes of `bits` bits with a scale for `group` inputs.
    pub fn new(tensors: Tensors<'a>, [d_out, d_in]: [usize; 2], bits: u32, group: usize, scales: Scales) -> Self {
        let bits = if bits <= 4 { 4 } else { 8 };
        let Scales { values, dtype, zeros } = scales;
        let codes =
            Codes { bits, d_out, d_in, group, scales: values, scale_dtype: dtype, zeros, order: None, numbers: None };
        let source = Source::Bytes { suffix: "weight" };
        Self { tensors, source, codes, groups: None, regular: true }
    }

    /// Copy that reads its codes from elsewhere than the bytes of `weight`.
    pub fn reading(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// Copy whose inputs are assigned to groups by tensor `suffix`, if there is one that assigns them.
    pub fn grouped_by(mut self, suffix: &'static str) -> Result<Self, WeightsError> {
        if !self.tensors.has(suffix) {
            return Ok(self);
        }
        let groups = self.tensors.words(suffix)?;
        // compressed-tensors writes -1 everywhere where no order was found.
        if groups.iter().all(|&group| group == u32::MAX) {
            return Ok(self);
        }
        let count = self.codes.groups();
        if let Some(at) = groups.iter().position(|&group| group as usize >= count) {
            let reason = format!("element {at} is {}; there are {count} groups", groups[at] as i32);
            return Err(self.tensors.wrong(suffix, reason));
        }
        if groups.iter().enumerate().all(|(k, &g)| g as usize == k / self.codes.group) {
            return Ok(self);
        }
        let mut order: Vec<u32> = (0..groups.len() as u32).collect();
        order.sort_by_key(|&k| groups[k as usize]);
        self.regular = order.iter().enumerate().all(|(j, &k)| groups[k as usize] as usize == j / self.codes.group);
        self.codes.order = Some(order);
        self.groups = Some(groups);
        Ok(self)
    }

    /// Codes of rows, inputs in their own order.
    fn natural(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError> {
        let (d_in, d_out) = (self.codes.d_in, self.codes.d_out);
        match &self.source {
            Source::Streams { suffix, bits } => {
                let stream = 4 * bits::words(d_in, *bits);
                let mut bytes = vec![0u8; rows.len() * stream];
                self.tensors.read_bytes(suffix, rows.start * stream..rows.end * stream, &mut bytes)?;
                for (bytes, out) in bytes.chunks_exact(stream).zip(out.chunks_exact_mut(d_in)) {
                    bits::unpack(bytes, *bits, out);
                }
            }
            Source::Bytes { suffix } => {
                self.tensors.read_bytes(suffix, rows.start * d_in..rows.end * d_in, out)?;
                out.iter_mut().for_each(|code| *code ^= 0x80);
            }
            Source::Columns { words, bits } => {
                for k in 0..d_in {
                    for (i, n) in rows.clone().enumerate() {
                        out[i * d_in + k] = bits::at(k, *bits, |word| words[word * d_out + n]);
                    }
                }
            }
            Source::Interleaved { words } => {
                for (k, line) in words.chunks_exact(d_out / 8).enumerate() {
                    for (i, n) in rows.clone().enumerate() {
                        out[i * d_in + k] = bits::interleaved(line, n);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Rows for Integers<'_> {
    fn read(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let Codes { d_in, d_out, .. } = self.codes;
        let mut codes = vec![0u8; out.len()];
        self.natural(rows.clone(), &mut codes)?;
        let Some(groups) = &self.groups else {
            self.codes.dequantise(rows, &codes, out);
            return Ok(());
        };
        let pairs = codes.chunks_exact(d_in).zip(out.chunks_exact_mut(d_in));
        for (n, (codes, out)) in rows.zip(pairs) {
            for ((out, &code), &g) in out.iter_mut().zip(codes).zip(groups) {
                *out = self.codes.weight(g as usize * d_out + n, code);
            }
        }
        Ok(())
    }

    fn codes(&self) -> Option<&Codes> {
        Some(&self.codes).filter(|_| self.regular)
    }

    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError> {
        let Some(order) = &self.codes.order else { return self.natural(rows, out) };
        let mut codes = vec![0u8; out.len()];
        self.natural(rows, &mut codes)?;
        let d_in = self.codes.d_in;
        for (codes, out) in codes.chunks_exact(d_in).zip(out.chunks_exact_mut(d_in)) {
            out.iter_mut().zip(order).for_each(|(out, &k)| *out = codes[k as usize]);
        }
        Ok(())
    }
}

/// A matrix `[rows, columns]`, transposed.
pub(super) fn transposed<T: Copy>(values: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| values[r * columns + c])).collect()
}
