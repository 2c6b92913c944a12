//! Sums of parts on a GPU.

use crate::device;
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;

/// Number `at` of a product of `size` numbers: its parts, added in their order and rounded to the product's format.
#[cube]
pub(crate) fn summed<F: Float, G: Float>(sums: &Tensor<G>, at: usize, size: usize, #[comptime] parts: usize) -> f32 {
    let mut sum = f32::cast_from(sums[at]);
    #[unroll]
    for part in 1..parts {
        sum += f32::cast_from(sums[part * size + at]);
    }
    f32::cast_from(F::cast_from(sum))
}

/// As [`summed`], for neighbouring numbers; `at` and `size` count loads.
#[cube]
pub(crate) fn summed_vector<F: Float, G: Float, N: Size>(
    sums: &Tensor<Vector<G, N>>,
    at: usize,
    size: usize,
    #[comptime] parts: usize,
) -> Vector<f32, N> {
    let mut sum = Vector::<f32, N>::cast_from(sums[at]);
    #[unroll]
    for part in 1..parts {
        sum = sum + Vector::<f32, N>::cast_from(sums[part * size + at]);
    }
    Vector::<f32, N>::cast_from(Vector::<F, N>::cast_from(sum))
}

/// One number of the whole product, on top of `x` if it is added to that.
#[cube(launch_unchecked, address_type = "dynamic")]
fn add_parts<F: Float, G: Float>(
    sums: &Tensor<G>,
    x: &Tensor<F>,
    out: &mut Tensor<F>,
    size: usize,
    #[comptime] parts: usize,
    #[comptime] onto: bool,
    #[define(F)] _dtype: ElemType,
    #[define(G)] _sums_dtype: ElemType,
) {
    let at = ABSOLUTE_POS as usize;
    if at < size {
        let mut sum = summed::<F, G>(sums, at, size, parts);
        if comptime!(onto) {
            sum += f32::cast_from(x[at]);
        }
        out[at] = F::cast_from(sum);
    }
}

/// The whole product in a number format, on top of `x` if there is one.
pub(super) fn add(
    sums: &CubeTensor,
    parts: usize,
    x: Option<&CubeTensor>,
    dtype: DType,
    shape: [usize; 3],
) -> CubeTensor {
    let size = shape.iter().product::<usize>();
    let out = device::empty(sums, shape, dtype);
    // SAFETY: units beyond the result's size do nothing, and there are as many sums for each part. Without `x` its place
    // is taken by the sums, which are not read there.
    unsafe {
        add_parts::launch_unchecked(
            &sums.client,
            CubeCount::Static(size.div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([sums, &out]),
            device::arg(sums),
            device::arg(x.unwrap_or(sums)),
            device::arg(&out),
            size,
            parts,
            x.is_some(),
            device::elem(&out),
            device::elem(sums),
        );
    }
    out
}
