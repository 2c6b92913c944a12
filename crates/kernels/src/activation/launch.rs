//! The gate on burn tensors.

use super::Activation;
use crate::partial_sums::PartialSums;
use crate::{Isa, host};
use burn::tensor::{DType, Tensor, activation};

/// `act(gate) · up` where the last dimension of `x` holds `[gate | up]`: on a GPU in one launch, which adds up the parts
/// of `x` too.
///
/// # Shapes
/// `x [batch, rows, 2 d]`, result `[batch, rows, d]`.
pub fn gate(kind: Activation, x: PartialSums) -> Tensor<3> {
    let [batch, rows, width] = x.dims();
    let d = width / 2;
    #[cfg(feature = "gpu")]
    if let Some(values) = x.on_device() {
        return crate::device::float_tensor(super::cube::gate(kind, &values, x.dims()));
    }
    let x = x.sum();
    if let Some(values) = host::read(&x) {
        let mut y = vec![0f32; batch * rows * d];
        gate_on_team(kind, values.as_slice(), d, &mut y);
        return host::tensor(y, [batch, rows, d]);
    }
    let (gate, up) = (x.clone().narrow(2, 0, d), x.narrow(2, d, d));
    match kind {
        Activation::Silu => activation::silu(gate) * up,
        Activation::GeluTanh => {
            let cubic = gate.clone() + gate.clone().powi_scalar(3) * 0.044_715;
            gate * ((cubic * 0.797_884_560_802_865_4).tanh() + 1.0) * 0.5 * up
        }
    }
}

/// [`gate`] of rows on the CPU, several at a time.
///
/// # Shapes
/// `x [rows, 2 d]`, `y [rows, d]`.
pub fn gate_on_team(kind: Activation, x: &[f32], d: usize, y: &mut [f32]) {
    let isa = Isa::detect();
    // An element costs an exponential: some twenty operations.
    crate::team::chunks(y, d.max(1), 10 * x.len(), |row, y| {
        super::gate_rows(isa, kind, &x[row * 2 * d..(row + 1) * 2 * d], d, y);
    });
}

/// `x · sigmoid(x)`.
pub fn silu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if let Some(values) = host::read(&x) {
        let mut y = values.as_slice().to_vec();
        super::silu_rows(Isa::detect(), &mut y);
        return host::tensor(y, x.dims());
    }
    activation::silu(x)
}

/// `cap · tanh(x / cap)`, computed in `f32`.
pub fn soft_cap<const D: usize>(x: Tensor<D>, cap: f32) -> Tensor<D> {
    let dtype = x.dtype();
    if let Some(values) = host::read(&x) {
        let mut y = values.as_slice().to_vec();
        super::soft_cap_rows(Isa::detect(), &mut y, cap);
        return host::tensor(y, x.dims());
    }
    ((x.cast(DType::F32) / cap).tanh() * cap).cast(dtype)
}
