//! Rows of a weight matrix as checkpoints store them.

use crate::device::FloatFormat;
use crate::quantisation::{Codes, Matrix};
use crate::weights::{Checkpoint, WeightsError};
use gorgon_kernels::few_row_matmul::{PackError, RowSource, WeightDtype};
use gorgon_kernels::quantised_matmul::CodeSource;
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

/// Rows of one or more matrices of equal width, one after the other.
pub struct WeightRows<'a> {
    checkpoint: &'a Checkpoint,
    parts: Vec<Part<'a>>,
    /// Width of the rows.
    pub d_in: usize,
}

/// One matrix.
struct Part<'a> {
    name: &'a str,
    rows: usize,
    /// Where it is quantised.
    matrix: Option<Matrix<'a>>,
}

impl<'a> WeightRows<'a> {
    /// The rows of the named tensors; quantised ones are opened.
    ///
    /// # Errors
    /// When a tensor is damaged or cannot be read, or has rows of another width.
    pub fn new(checkpoint: &'a Checkpoint, names: &'a [String]) -> Result<Self, WeightsError> {
        let mut d_in = 0;
        let mut parts = vec![];
        for (i, name) in names.iter().enumerate() {
            let matrix = checkpoint.matrix(name)?;
            let stored = || checkpoint.entries().get(name).map_or(&[][..], |entry| entry.shape.as_slice());
            let shape = matrix.as_ref().map_or_else(|| stored().to_vec(), |matrix| matrix.shape().to_vec());
            let size = |i: usize| shape.get(i).copied().unwrap_or(0);
            if i == 0 {
                d_in = size(1);
            } else if d_in != size(1) {
                return Err(checkpoint.tensor_error(name, format!("rows of {}, expected {d_in}", size(1))));
            }
            parts.push(Part { name, rows: size(0), matrix });
        }
        Ok(Self { checkpoint, parts, d_in })
    }

    /// Number of rows.
    pub fn height(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// All rows as one matrix of integers, if their formats go together.
    pub fn codes(&self) -> Option<Codes> {
        let parts: Option<Vec<&Codes>> = self.parts.iter().map(|part| part.matrix.as_ref()?.codes()).collect();
        Codes::concat(&parts?)
    }

    /// Writes rows of codes `[rows, in]`, one a byte, inputs in the order of [`Self::codes`].
    ///
    /// # Errors
    /// A one-line description of what could not be read, and where the rows are no integers.
    pub fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), String> {
        self.for_parts(rows, out, |part, rows, out| match &part.matrix {
            Some(matrix) => matrix.read_codes(rows, out),
            None => Err(self.checkpoint.tensor_error(part.name, "it is not quantised".into())),
        })
    }

    /// How the CPU stores these rows. Matmuls are in `f32` whatever the storage, and widening 16 bits to 32 is exact,
    /// so asking for `f32` keeps what a checkpoint stores in 16 bits: the same results from half the memory and
    /// traffic.
    pub(crate) fn storage(&self, format: FloatFormat) -> WeightDtype {
        let kept = if format == FloatFormat::F32 { self.stored_bits() } else { None };
        kept.unwrap_or_else(|| stored_as(format))
    }

    /// Hands each part's share of `rows` to `read`, with the part and its own rows.
    fn for_parts<S>(
        &self,
        rows: Range<usize>,
        mut out: &mut [S],
        read: impl Fn(&Part<'_>, Range<usize>, &mut [S]) -> Result<(), WeightsError>,
    ) -> Result<(), String> {
        let mut first = 0;
        for part in &self.parts {
            let from = rows.start.max(first);
            let to = rows.end.min(first + part.rows);
            if from < to {
                let (head, rest) = out.split_at_mut((to - from) * self.d_in);
                read(part, from - first..to - first, head).map_err(|error| error.to_string())?;
                out = rest;
            }
            first += part.rows;
        }
        Ok(())
    }

    /// All rows in a storage format, read and converted in parallel.
    pub(crate) fn dense(&self, format: FloatFormat) -> Result<Vec<u8>, String> {
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

    pub(crate) fn error(&self, error: PackError) -> WeightsError {
        let tensor = self.parts.iter().map(|part| part.name).collect::<Vec<_>>().join(" + ");
        WeightsError::Tensor { path: self.checkpoint.dir().into(), tensor, reason: error.to_string() }
    }
}

impl CodeSource for WeightRows<'_> {
    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), String> {
        WeightRows::read_codes(self, rows, out)
    }
}

impl RowSource for WeightRows<'_> {
    fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), String> {
        self.for_parts(rows, out, |part, rows, out| match &part.matrix {
            Some(matrix) => matrix.read_rows(rows, out),
            None => self.checkpoint.read(part.name, rows.start * self.d_in..rows.end * self.d_in, out),
        })
    }

    fn stored_bits(&self) -> Option<WeightDtype> {
        if self.parts.iter().any(|part| part.matrix.is_some()) {
            return None;
        }
        let dtype = |name: &str| self.checkpoint.entries().get(name).map(|entry| entry.dtype);
        let first = dtype(self.parts.first()?.name)?;
        let alike = self.parts.iter().all(|part| dtype(part.name) == Some(first));
        match first {
            Dtype::F16 if alike => Some(WeightDtype::F16),
            Dtype::BF16 if alike => Some(WeightDtype::Bf16),
            _ => None,
        }
    }

    fn read_bits(&self, rows: Range<usize>, out: &mut [u16]) -> Result<(), String> {
        let elements = |rows: Range<usize>| rows.start * self.d_in..rows.end * self.d_in;
        self.for_parts(rows, out, |part, rows, out| self.checkpoint.read_bits(part.name, elements(rows), out))
    }
}
