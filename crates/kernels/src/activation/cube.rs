//! The gate on a GPU.

use super::Activation;
use crate::device;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;

/// `act(gate) · up` of rows `[gate | up]`.
///
/// # Shapes
/// `x [rows, 2 d]`, `out [rows, d]`.
#[cube(launch_unchecked)]
fn gate_rows<F: Float>(
    x: &Tensor<F>,
    out: &mut Tensor<F>,
    d: usize,
    size: usize,
    #[comptime] tanh: bool,
    #[define(F)] _dtype: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at >= size {
        terminate!();
    }
    let (row, i) = (at / d, at % d);
    let gate = f32::cast_from(x[row * 2 * d + i]);
    let up = f32::cast_from(x[row * 2 * d + d + i]);
    let shape = if comptime!(tanh) {
        let inner = f32::new(0.797_884_6) * (gate + f32::new(0.044_715) * gate * gate * gate);
        f32::new(0.5) * (f32::new(1.0) + inner.tanh())
    } else {
        f32::new(1.0) / (f32::new(1.0) + (-gate).exp())
    };
    out[at] = F::cast_from(gate * shape * up);
}

/// See [`super::gate`].
pub(super) fn gate(kind: Activation, x: &CubeTensor, shape: [usize; 3]) -> CubeTensor {
    let [batch, rows, width] = shape;
    let d = width / 2;
    let out = device::empty(x, [batch, rows, d], x.dtype);
    let size = batch * rows * d;
    // SAFETY: units beyond the result's size stop, the others stay within their row.
    unsafe {
        gate_rows::launch_unchecked(
            &x.client,
            CubeCount::Static(size.div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::arg(x),
            device::arg(&out),
            d,
            size,
            kind == Activation::GeluTanh,
            device::elem(x),
        );
    }
    out
}
