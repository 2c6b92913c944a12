//! Where results go.

use super::super::PANEL;
use std::mem::MaybeUninit;

/// The output, written by one task per panel.
pub(super) struct Output<'a> {
    y: *mut f32,
    rows: usize,
    d_out: usize,
    bias: Option<&'a [f32]>,
}
// SAFETY: each panel writes only its own columns, and each is handled by one task.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    pub fn new(d_out: usize, bias: Option<&'a [f32]>, y: &'a mut [MaybeUninit<f32>]) -> Self {
        Self { y: y.as_mut_ptr().cast(), rows: y.len() / d_out, d_out, bias }
    }

    /// Adds the bias to the sums of rows from `first` on, for columns from `column` on, and writes them.
    pub fn write(&self, first: usize, column: usize, sums: &mut [[f32; PANEL]]) {
        let columns = PANEL.min(self.d_out - column);
        assert!(first + sums.len() <= self.rows);
        for (row, sums) in sums.iter_mut().enumerate() {
            if let Some(bias) = self.bias {
                for (sum, b) in sums.iter_mut().zip(&bias[column..column + columns]) {
                    *sum += b;
                }
            }
            // SAFETY: the row and these columns lie within y, and belong to this task.
            unsafe {
                let to = self.y.add((first + row) * self.d_out + column);
                std::ptr::copy_nonoverlapping(sums.as_ptr(), to, columns);
            }
        }
    }
}
