//! Rows of a weight matrix as checkpoints store them.

use crate::device::FloatFormat;
use crate::weights::{Checkpoint, WeightsError};
use gorgon_kernels::few_row_matmul::{PackError, RowSource, WeightDtype};
use rayon::prelude::*;
use safetensors::Dtype;
use std::ops::Range;

/// How the CPU stores 32-bit weights in a number format.
pub(crate) fn stored_as(format: FloatFormat) -> WeightDtype {
    match format {
        FloatFormat::F32 => WeightDtype::F32,
        FloatFormat::F16 => WeightDtype::F16,
        FloatFormat::Bf16 => WeightDtype::Bf16,
    }
}

/// Rows of one or more tensors of equal width, one after the other.
pub(crate) struct WeightRows<'a> {
    checkpoint: &'a Checkpoint,
    parts: Vec<(&'a str, usize)>,
    /// Width of the rows.
    pub d_in: usize,
}

impl<'a> WeightRows<'a> {
    pub fn new(checkpoint: &'a Checkpoint, names: &'a [String]) -> Self {
        let shape = |name: &str| checkpoint.entries().get(name).map_or(&[0, 0][..], |entry| entry.shape.as_slice());
        let parts = names.iter().map(|name| (name.as_str(), shape(name)[0])).collect();
        let d_in = names.first().map_or(0, |name| shape(name).get(1).copied().unwrap_or(0));
        Self { checkpoint, parts, d_in }
    }

    pub fn height(&self) -> usize {
        self.parts.iter().map(|(_, rows)| rows).sum()
    }

    /// How the CPU stores these rows. Matmuls are in `f32` whatever the storage, and widening 16 bits to 32 is exact,
    /// so asking for `f32` keeps what a checkpoint stores in 16 bits: the same results from half the memory and
    /// traffic.
    pub fn storage(&self, format: FloatFormat) -> WeightDtype {
        let kept = if format == FloatFormat::F32 { self.stored_bits() } else { None };
        kept.unwrap_or_else(|| stored_as(format))
    }

    /// Hands each part's share of `rows` to `read`, with its name and element range.
    fn for_parts<S>(
        &self,
        rows: Range<usize>,
        mut out: &mut [S],
        read: impl Fn(&str, Range<usize>, &mut [S]) -> Result<(), WeightsError>,
    ) -> Result<(), String> {
        let mut first = 0;
        for &(name, height) in &self.parts {
            let from = rows.start.max(first);
            let to = rows.end.min(first + height);
            if from < to {
                let (head, rest) = out.split_at_mut((to - from) * self.d_in);
                let range = (from - first) * self.d_in..(to - first) * self.d_in;
                read(name, range, head).map_err(|error| error.to_string())?;
                out = rest;
            }
            first += height;
        }
        Ok(())
    }

    /// All rows in a storage format, read and converted in parallel.
    pub fn dense(&self, format: FloatFormat) -> Result<Vec<u8>, String> {
        const ROWS: usize = 64;
        let row_bytes = self.d_in * format.bytes();
        let mut bytes = vec![0u8; self.height() * row_bytes];
        bytes.par_chunks_mut(ROWS * row_bytes).enumerate().try_for_each_init(
            || vec![0f32; ROWS * self.d_in],
            |values, (block, bytes)| {
                let rows = bytes.len() / row_bytes;
                let values = &mut values[..rows * self.d_in];
                self.read_rows(block * ROWS..block * ROWS + rows, values)?;
                for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(format.bytes())) {
                    match format {
                        FloatFormat::F32 => bytes.copy_from_slice(&value.to_le_bytes()),
                        FloatFormat::F16 => bytes.copy_from_slice(&half::f16::from_f32(*value).to_le_bytes()),
                        FloatFormat::Bf16 => bytes.copy_from_slice(&half::bf16::from_f32(*value).to_le_bytes()),
                    }
                }
                Ok::<(), String>(())
            },
        )?;
        Ok(bytes)
    }

    pub fn error(&self, error: PackError) -> WeightsError {
        let tensor = self.parts.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" + ");
        WeightsError::Tensor { path: self.checkpoint.dir().into(), tensor, reason: error.to_string() }
    }
}

impl RowSource for WeightRows<'_> {
    fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), String> {
        self.for_parts(rows, out, |name, range, out| self.checkpoint.read(name, range, out))
    }

    fn stored_bits(&self) -> Option<WeightDtype> {
        let dtype = |name: &str| self.checkpoint.entries().get(name).map(|entry| entry.dtype);
        let first = dtype(self.parts.first()?.0)?;
        let alike = self.parts.iter().all(|(name, _)| dtype(name) == Some(first));
        match first {
            Dtype::F16 if alike => Some(WeightDtype::F16),
            Dtype::BF16 if alike => Some(WeightDtype::Bf16),
            _ => None,
        }
    }

    fn read_bits(&self, rows: Range<usize>, out: &mut [u16]) -> Result<(), String> {
        self.for_parts(rows, out, |name, range, out| self.checkpoint.read_bits(name, range, out))
    }
}
