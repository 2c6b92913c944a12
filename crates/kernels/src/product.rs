//! Small matrix products over slices.

/// How a matrix lies in a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix {
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl Matrix {
    /// Row-major without gaps.
    pub fn dense(rows: usize, columns: usize) -> Self {
        Self::rows(rows, columns, columns)
    }

    /// Rows at a distance.
    pub fn rows(rows: usize, columns: usize, row_stride: usize) -> Self {
        Self { rows, columns, row_stride, column_stride: 1 }
    }

    /// Transposed view of these values.
    pub fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, row_stride: self.column_stride, column_stride: self.row_stride }
    }

    /// Values that the slice must hold.
    fn extent(&self) -> usize {
        match (self.rows, self.columns) {
            (0, _) | (_, 0) => 0,
            (rows, columns) => (rows - 1) * self.row_stride + (columns - 1) * self.column_stride + 1,
        }
    }
}

/// `out ← a · b`, or `out += a · b`. Single-threaded: callers split the work.
///
/// # Panics
/// If the shapes do not fit each other or their slices.
pub(crate) fn product(
    out: &mut [f32],
    out_lies: Matrix,
    a: &[f32],
    a_lies: Matrix,
    b: &[f32],
    b_lies: Matrix,
    accumulate: bool,
) {
    assert!(a_lies.columns == b_lies.rows && out_lies.rows == a_lies.rows && out_lies.columns == b_lies.columns);
    assert!(out_lies.extent() <= out.len() && a_lies.extent() <= a.len() && b_lies.extent() <= b.len());
    // SAFETY: every index that shapes and strides reach lies within its slice, as asserted; `out` is borrowed mutably,
    // hence disjoint from the others, and its strides never map two elements to one place.
    unsafe {
        gemm::gemm(
            out_lies.rows,
            out_lies.columns,
            a_lies.columns,
            out.as_mut_ptr(),
            out_lies.column_stride as isize,
            out_lies.row_stride as isize,
            accumulate,
            a.as_ptr(),
            a_lies.column_stride as isize,
            a_lies.row_stride as isize,
            b.as_ptr(),
            b_lies.column_stride as isize,
            b_lies.row_stride as isize,
            1.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
