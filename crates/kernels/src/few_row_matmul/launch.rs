//! The product on burn tensors.

use super::Packed;
use super::kernel::write_product;
use crate::{Isa, host};
use burn::tensor::Tensor;

/// `x · W` for a matrix of `rows` rows.
pub(crate) fn matrix(x: &[f32], w: &Packed, rows: usize) -> Tensor<2> {
    // SAFETY: a product writes every row and column.
    unsafe { host::filled([rows, w.d_out()], |y| write_product(Isa::detect(), x, w, None, y)) }
}

/// `x · W + bias` on the CPU.
///
/// # Shapes
/// `x [batch, rows, d_in]`, `bias [d_out]`, result `[batch, rows, d_out]`.
///
/// # Panics
/// If `x` does not live on the CPU: packed weights exist only there.
pub fn matmul(x: &Tensor<3>, w: &Packed, bias: Option<&Tensor<1>>) -> Tensor<3> {
    let [batch, rows, _] = x.dims();
    let values = host::read(x).expect("packed weights multiply CPU tensors only");
    let bias = bias.and_then(host::read);
    let fill = |y: &mut [_]| write_product(Isa::detect(), values.as_slice(), w, bias.as_ref().map(|b| b.as_slice()), y);
    // SAFETY: a product writes every row and column.
    unsafe { host::filled([batch, rows, w.d_out()], fill) }
}
