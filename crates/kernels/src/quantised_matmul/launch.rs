//! The product on burn tensors.

use super::kernel::write_product;
use super::{Activations, QuantisedMatrix};
use crate::{Isa, host};
use burn::tensor::Tensor;

/// `x · Wᵀ + bias` on the CPU.
///
/// # Shapes
/// `x [batch, rows, d_in]`, `bias [d_out]`, result `[batch, rows, d_out]`.
///
/// # Panics
/// If `x` does not live on the CPU: packed weights exist only there.
pub fn matmul(x: &Tensor<3>, w: &QuantisedMatrix, activations: Activations, bias: Option<&Tensor<1>>) -> Tensor<3> {
    let [batch, rows, _] = x.dims();
    let values = host::read(x).expect("packed weights multiply CPU tensors only");
    let bias = bias.and_then(host::read);
    let bias = bias.as_ref().map(|bias| bias.as_slice());
    // SAFETY: a product writes every row and column.
    unsafe {
        host::filled([batch, rows, w.d_out()], |y| {
            write_product(Isa::detect(), values.as_slice(), w, activations, bias, y)
        })
    }
}
