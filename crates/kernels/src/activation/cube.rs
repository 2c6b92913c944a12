//! The gate on a GPU.

use super::Activation;
use crate::device;
use crate::partial_sums::{Unadded, summed};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;

/// `act(gate) · up` of rows `[gate | up]`, whose parts are added up here.
///
/// # Shapes
/// `x [parts, rows, 2 d]`, `out [rows, d]` with `size` numbers.
#[cube(launch_unchecked, address_type = "dynamic")]
fn gate_rows<F: Float, G: Float>(
    x: &Tensor<G>,
    out: &mut Tensor<F>,
    d: usize,
    size: usize,
    #[comptime] tanh: bool,
    #[comptime] parts: usize,
    #[define(F)] _dtype: ElemType,
    #[define(G)] _sums_dtype: ElemType,
) {
    let at = ABSOLUTE_POS as usize;
    if at >= size {
        terminate!();
    }
    let from = at / d * 2 * d + at % d;
    let gate = summed::<F, G>(x, from, 2 * size, parts);
    let up = summed::<F, G>(x, from + d, 2 * size, parts);
    let shape = if comptime!(tanh) {
        let inner = f32::new(0.797_884_6) * (gate + f32::new(0.044_715) * gate * gate * gate);
        f32::new(0.5) * (f32::new(1.0) + inner.tanh())
    } else {
        f32::new(1.0) / (f32::new(1.0) + (-gate).exp())
    };
    out[at] = F::cast_from(gate * shape * up);
}

/// See [`super::gate`]; `shape` is that of the gate and the up projection side by side.
pub(super) fn gate(kind: Activation, x: &Unadded, [batch, rows, width]: [usize; 3]) -> CubeTensor {
    let d = width / 2;
    let out = device::empty(&x.sums, [batch, rows, d], x.dtype);
    let size = batch * rows * d;
    // SAFETY: units beyond the result's size stop, the others stay within their row.
    unsafe {
        gate_rows::launch_unchecked(
            &x.sums.client,
            CubeCount::Static(size.div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([&x.sums]),
            device::arg(&x.sums),
            device::arg(&out),
            d,
            size,
            kind == Activation::GeluTanh,
            x.parts,
            device::elem(&out),
            device::elem(&x.sums),
        );
    }
    out
}
