//! Root-mean-square normalisation on a GPU, of a sum if there is one.

use crate::device;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units that share a row.
const UNITS: usize = 256;

/// One row: `sum = x + y` if `added`, and `normed = sum / sqrt(mean(sum²) + eps) · w`.
///
/// # Shapes
/// `x`, `y`, `sum`, `normed` `[rows, d]`, `w [d]` in `f32`.
#[cube(launch_unchecked)]
fn norm_row<F: Float>(
    x: &Tensor<F>,
    y: &Tensor<F>,
    w: &Tensor<f32>,
    sum: &mut Tensor<F>,
    normed: &mut Tensor<F>,
    d: usize,
    eps: f32,
    #[comptime] added: bool,
    #[define(F)] _dtype: ElemType,
) {
    let mut squares = Shared::<[f32]>::new_slice(UNITS);
    let from = CUBE_POS as usize * d;
    let unit = UNIT_POS as usize;
    let mut mine = f32::new(0.0);
    let mut i = unit;
    while i < d {
        let mut value = x[from + i];
        if added {
            // Rounded before it is squared, so that what is normed is what goes on.
            value = F::cast_from(f32::cast_from(value) + f32::cast_from(y[from + i]));
            sum[from + i] = value;
        }
        let value = f32::cast_from(value);
        mine += value * value;
        i += UNITS;
    }
    squares[unit] = mine;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            squares[unit] = squares[unit] + squares[unit + half];
        }
        sync_cube();
        half /= 2;
    }
    let scale = f32::new(1.0) / (squares[0] / f32::cast_from(d as u32) + eps).sqrt();
    let mut i = unit;
    while i < d {
        let mut value = f32::cast_from(x[from + i]);
        if added {
            value = f32::cast_from(sum[from + i]);
        }
        normed[from + i] = F::cast_from(value * scale * w[i]);
        i += UNITS;
    }
}

/// The normed rows of `x + y`, and that sum; without `y` those of `x` and no sum.
pub(super) fn rms_norm<const D: usize>(
    x: &CubeTensor,
    y: Option<&CubeTensor>,
    w: &CubeTensor,
    eps: f32,
    shape: [usize; D],
) -> (Option<CubeTensor>, CubeTensor) {
    let d = shape[D - 1];
    let rows = shape.iter().product::<usize>() / d.max(1);
    let normed = device::empty(x, shape, x.dtype);
    let sum = y.map(|_| device::empty(x, shape, x.dtype));
    // A launch has as many arguments either way; those that are not used are not touched.
    let (y, to) = (y.unwrap_or(x), sum.as_ref().unwrap_or(&normed));
    // SAFETY: all tensors are as large as the shape says, and a cube stays within its row.
    unsafe {
        norm_row::launch_unchecked(
            &x.client,
            CubeCount::Static(rows as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::arg(x),
            device::arg(y),
            device::arg(w),
            device::arg(to),
            device::arg(&normed),
            d,
            eps,
            sum.is_some(),
            device::elem(x),
        );
    }
    (sum, normed)
}
