//! Root-mean-square normalisation on a GPU, of a sum if there is one.

use crate::device;
use crate::partial_sums::{Unadded, summed};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Most units of a row.
const MOST_UNITS: usize = 1024;
/// Numbers of a row that a unit has, if there are enough units: their loads are under way at once.
const NUMBERS: usize = 4;
/// Most numbers of a unit whose loop is unrolled.
const UNROLLED: usize = 16;

/// A row's share of a launch, known when the kernel is compiled. It depends on the width alone, so a row's result does
/// not depend on how many rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    units: usize,
    /// Numbers of a unit.
    numbers: usize,
    /// Parts of what is added to the row; 0 if nothing is.
    parts: usize,
}

impl Row {
    /// A row of `d` numbers on a device with `most` units in a cube.
    fn new(d: usize, most: u32, parts: usize) -> Self {
        let most = MOST_UNITS.min(1 << most.max(1).ilog2());
        let units = d.div_ceil(NUMBERS).next_power_of_two().clamp(32.min(most), most);
        Self { units, numbers: d.div_ceil(units), parts }
    }
}

/// One row: `sum = x + Σ y` if there are parts of `y`, and `normed = sum / sqrt(mean(sum²) + eps) · w`.
///
/// # Shapes
/// `x`, `sum`, `normed` `[rows, d]`, `y [parts, rows, d]`, `w [d]` in `f32`; `size` is `rows · d`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_row<F: Float, G: Float>(
    x: &Tensor<F>,
    y: &Tensor<G>,
    w: &Tensor<f32>,
    sum: &mut Tensor<F>,
    normed: &mut Tensor<F>,
    d: usize,
    size: usize,
    eps: f32,
    #[comptime] row: Row,
    #[define(F)] _dtype: ElemType,
    #[define(G)] _sums_dtype: ElemType,
) {
    let unrolled = comptime!(row.numbers <= UNROLLED);
    let mut squares = Shared::<[f32]>::new_slice(comptime!(row.units));
    let mut values = Array::<f32>::new(comptime!(row.numbers));
    let from = CUBE_POS as usize * d;
    let unit = UNIT_POS as usize;
    let mut mine = f32::new(0.0);
    #[unroll(unrolled)]
    for i in 0..comptime!(row.numbers) {
        let at = unit + i * comptime!(row.units);
        let mut value = f32::new(0.0);
        if at < d {
            value = f32::cast_from(x[from + at]);
            if comptime!(row.parts > 0) {
                // Rounded before it is squared, so that what is normed is what goes on.
                let total = F::cast_from(value + summed::<F, G>(y, from + at, size, comptime!(row.parts)));
                sum[from + at] = total;
                value = f32::cast_from(total);
            }
        }
        values[i] = value;
        // Named, so that it is fused whatever else is compiled with it.
        mine = fma(value, value, mine);
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
    #[unroll(unrolled)]
    for i in 0..comptime!(row.numbers) {
        let at = unit + i * comptime!(row.units);
        if at < d {
            normed[from + at] = F::cast_from(values[i] * scale * w[at]);
        }
    }
}

/// The normed rows of `x + Σ y`, and that sum; without `y` those of `x` and no sum.
pub(super) fn rms_norm<const D: usize>(
    x: &CubeTensor,
    y: Option<&Unadded>,
    w: &CubeTensor,
    eps: f32,
    shape: [usize; D],
) -> (Option<CubeTensor>, CubeTensor) {
    let (d, size) = (shape[D - 1], shape.iter().product::<usize>());
    let rows = size / d.max(1);
    let normed = device::empty(x, shape, x.dtype);
    let sum = y.map(|_| device::empty(x, shape, x.dtype));
    let row = Row::new(d, x.client.properties().hardware.max_units_per_cube, y.map_or(0, |y| y.parts));
    // A launch has as many arguments either way; those that are not used are not touched.
    let (y, to) = (y.map_or(x, |y| &y.sums), sum.as_ref().unwrap_or(&normed));
    // SAFETY: all tensors are as large as the shape says, `y` for each of its parts, and a cube stays within its row.
    unsafe {
        norm_row::launch_unchecked(
            &x.client,
            CubeCount::Static(rows as u32, 1, 1),
            CubeDim::new_1d(row.units as u32),
            device::address([x, y]),
            device::arg(x),
            device::arg(y),
            device::arg(w),
            device::arg(to),
            device::arg(&normed),
            d,
            size,
            eps,
            row,
            device::elem(x),
            device::elem(y),
        );
    }
    (sum, normed)
}
