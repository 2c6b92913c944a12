//! Quantised matrices, read as rows.

use super::codes::Codes;
use super::format::Format;
use super::tensors::{Rows, Tensors};
use crate::weights::{Problems, WeightsError};
use std::ops::Range;

/// A quantised matrix, opened for reading.
pub(crate) struct Matrix<'a> {
    tensors: Tensors<'a>,
    shape: [usize; 2],
    rows: Box<dyn Rows + 'a>,
}

impl<'a> Matrix<'a> {
    /// Opens a module's matrix: scales and zero points are read, codes later unless they lie across the rows.
    pub fn open(format: &dyn Format, tensors: Tensors<'a>) -> Result<Self, WeightsError> {
        let shape = format.stored_shape(&tensors)?;
        let mut problems = Problems::default();
        format.parts(&tensors, shape).iter().for_each(|part| part.check(&tensors, &mut problems));
        if !problems.is_empty() {
            return Err(WeightsError::Mismatch { dir: tensors.store.dir().into(), problems });
        }
        Ok(Self { tensors, shape, rows: format.open(tensors, shape)? })
    }

    /// `[out, in]`.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Writes rows `[rows, in]` in `f32`, all of them finite.
    pub fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let first = self.start(&rows, out.len())?;
        self.rows.read(rows, out)?;
        match out.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(at) => {
                let (row, column) = ((first + at) / self.shape[1], (first + at) % self.shape[1]);
                Err(self.wrong(format!("the weight at row {row}, column {column} is {}", out[at])))
            }
        }
    }

    /// Writes elements of the matrix, row after row.
    pub fn read_elements(&self, range: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let [height, width] = self.shape;
        if range.end > height * width || range.len() != out.len() {
            return Err(self.wrong(format!("elements {range:?} of {height} x {width}")));
        }
        // Rows in one piece; the first and the last may be needed in part.
        const PIECE: usize = 64;
        let mut rows = vec![0f32; width * PIECE.min(height)];
        let mut at = range.start;
        while at < range.end {
            let first = at / width;
            let last = (first + PIECE).min(range.end.div_ceil(width));
            let rows = &mut rows[..(last - first) * width];
            self.read_rows(first..last, rows)?;
            let end = range.end.min(last * width);
            out[at - range.start..end - range.start].copy_from_slice(&rows[at - first * width..end - first * width]);
            at = end;
        }
        Ok(())
    }

    /// The matrix as codes, if it is one of integers or of numbers of a table.
    pub fn codes(&self) -> Option<&Codes> {
        self.rows.codes()
    }

    /// Writes rows of codes, inputs in the order of [`Codes`].
    pub fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), WeightsError> {
        self.start(&rows, out.len())?;
        self.rows.read_codes(rows, out)
    }

    /// The index of the first element of some rows.
    fn start(&self, rows: &Range<usize>, room: usize) -> Result<usize, WeightsError> {
        let [height, width] = self.shape;
        match rows.end <= height && rows.start <= rows.end && rows.len() * width == room {
            true => Ok(rows.start * width),
            false => Err(self.wrong(format!("rows {rows:?} of {height} x {width}"))),
        }
    }

    fn wrong(&self, reason: String) -> WeightsError {
        self.tensors.wrong("weight", reason)
    }
}

/// Compares a module's tensors with those of a matrix `[out, in]`; returns the names that belong to it.
pub(crate) fn check(
    format: &dyn Format,
    tensors: &Tensors<'_>,
    shape: [usize; 2],
    problems: &mut Problems,
) -> Vec<String> {
    let parts = format.parts(tensors, shape);
    let before = (problems.missing.len(), problems.wrong.len());
    parts.iter().for_each(|part| part.check(tensors, problems));
    // The sizes that a tensor states, and what else can be wrong with a part, where all parts are there.
    if before == (problems.missing.len(), problems.wrong.len()) {
        match format.stored_shape(tensors) {
            Ok(stored) if stored == shape => {}
            Ok(stored) => {
                problems.wrong.push(format!("{}.weight is stored as {stored:?}, expected {shape:?}", tensors.module));
            }
            Err(error) => problems.wrong.push(error.to_string()),
        }
    }
    parts.iter().map(|part| tensors.name(part.suffix())).collect()
}
