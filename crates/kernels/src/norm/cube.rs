//! Root-mean-square normalisation on a GPU, of a sum if there is one.

use crate::device;
use crate::partial_sums::{Unadded, summed_vector};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Most units of a row.
const MOST_UNITS: usize = 1024;
/// Most loads of a unit whose loop is unrolled: they are under way at once.
const UNROLLED: usize = 8;

/// A row's share of a launch, known when the kernel is compiled. It depends on the width alone, so a row's result does
/// not depend on how many rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    units: usize,
    /// Loads of a unit.
    loads: usize,
    /// Numbers of a load.
    wide: usize,
    /// Parts of what is added to the row; 0 if nothing is.
    parts: usize,
}

impl Row {
    /// A row of `d` numbers on a device with `most` units in a cube.
    fn new(d: usize, most: u32, parts: usize) -> Self {
        let most = MOST_UNITS.min(1 << most.max(1).ilog2());
        let wide = if d.is_multiple_of(4) { 4 } else { 1 };
        let units = (d / wide).next_power_of_two().clamp(32.min(most), most);
        Self { units, loads: (d / wide).div_ceil(units), wide, parts }
    }
}

/// One row: `sum = x + Σ y` if there are parts of `y`, and `normed = sum / sqrt(mean(sum²) + eps) · w`.
///
/// # Shapes
/// In loads of several numbers: `x`, `sum`, `normed` `[rows, d]`, `y [parts, rows, d]`, `w [d]` in `f32`. `loads` is
/// their number in a row, `size` in all rows.
#[cube(launch_unchecked, address_type = "dynamic")]
fn norm_row<F: Float, G: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    y: &Tensor<Vector<G, N>>,
    w: &Tensor<Vector<f32, N>>,
    sum: &mut Tensor<Vector<F, N>>,
    normed: &mut Tensor<Vector<F, N>>,
    loads: usize,
    size: usize,
    eps: f32,
    #[comptime] row: Row,
    #[define(F)] _dtype: ElemType,
    #[define(G)] _sums_dtype: ElemType,
) {
    let unrolled = comptime!(row.loads <= UNROLLED);
    let mut values = Array::<Vector<f32, N>>::new(comptime!(row.loads));
    let mut weights = Array::<Vector<f32, N>>::new(comptime!(row.loads));
    let from = CUBE_POS as usize * loads;
    let unit = UNIT_POS as usize;
    read_row::<F, G, N>(x, y, w, &mut values, &mut weights, loads, size, row);
    let mut mine = f32::new(0.0);
    #[unroll(unrolled)]
    for i in 0..comptime!(row.loads) {
        let at = unit + i * comptime!(row.units);
        if comptime!(row.parts > 0) {
            // Rounded before it is squared, so that what is normed is what goes on.
            let total = Vector::<F, N>::cast_from(values[i]);
            if at < loads {
                sum[from + at] = total;
            }
            values[i] = Vector::<f32, N>::cast_from(total);
        }
        #[unroll]
        for k in 0..comptime!(row.wide) {
            // Named, so that it is fused whatever else is compiled with it.
            mine = fma(values[i].extract(k), values[i].extract(k), mine);
        }
    }
    let squares = sum_of_all(mine, row);
    let d = f32::cast_from((loads * comptime!(row.wide)) as u32);
    let scale = Vector::<f32, N>::new(f32::new(1.0) / (squares / d + eps).sqrt());
    #[unroll(unrolled)]
    for i in 0..comptime!(row.loads) {
        let at = unit + i * comptime!(row.units);
        if at < loads {
            normed[from + at] = Vector::<F, N>::cast_from(values[i] * scale * weights[i]);
        }
    }
}

/// Reads a unit's share of a row, `x + Σ y`, and of the weights. All loads are under way before anything is stored: for
/// all that the compiler knows a store might be to their memory.
#[cube]
fn read_row<F: Float, G: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    y: &Tensor<Vector<G, N>>,
    w: &Tensor<Vector<f32, N>>,
    values: &mut Array<Vector<f32, N>>,
    weights: &mut Array<Vector<f32, N>>,
    loads: usize,
    size: usize,
    #[comptime] row: Row,
) {
    let unrolled = comptime!(row.loads <= UNROLLED);
    let from = CUBE_POS as usize * loads;
    #[unroll(unrolled)]
    for i in 0..comptime!(row.loads) {
        let at = UNIT_POS as usize + i * comptime!(row.units);
        let mut value = Vector::<f32, N>::new(f32::new(0.0));
        let mut weight = Vector::<f32, N>::new(f32::new(0.0));
        if at < loads {
            weight = w[at];
            value = Vector::<f32, N>::cast_from(x[from + at]);
            if comptime!(row.parts > 0) {
                value = value + summed_vector::<F, G, N>(y, from + at, size, comptime!(row.parts));
            }
        }
        values[i] = value;
        weights[i] = weight;
    }
}

/// The sum over a cube's units, in the same order whatever else is computed.
#[cube]
fn sum_of_all(mine: f32, #[comptime] row: Row) -> f32 {
    let mut sums = Shared::<[f32]>::new_slice(comptime!(row.units));
    let unit = UNIT_POS as usize;
    sums[unit] = mine;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            sums[unit] = sums[unit] + sums[unit + half];
        }
        sync_cube();
        half /= 2;
    }
    sums[0]
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
            row.wide,
            device::arg(x),
            device::arg(y),
            device::arg(w),
            device::arg(to),
            device::arg(&normed),
            d / row.wide,
            size / row.wide,
            eps,
            row,
            device::elem(x),
            device::elem(y),
        );
    }
    (sum, normed)
}
