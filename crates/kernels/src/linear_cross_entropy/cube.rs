//! Rows of logits become their gradients in place on a GPU.

use super::Labels;
use crate::collective::{LEAST, join_softmax, with_entry};
use crate::device;
use burn::tensor::{DType, Device, Int, Tensor as Burn, TensorData};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units that share a row.
const UNITS: usize = 256;

/// One row: its greatest logit and the sum of exponentials in one pass, its gradient in a second one.
///
/// # Shapes
/// `logits [rows, V]` in vectors, `labels`, `scales` `[all rows]`, `found [2, all rows]`: losses, then ranks;
/// `vocab` and `stride` in vectors.
#[cube(launch_unchecked, address_type = "dynamic")]
fn cross_entropy_row<F: Float, N: Size>(
    logits: &mut Tensor<Vector<F, N>>,
    labels: &Tensor<i32>,
    scales: &Tensor<f32>,
    found: &mut Tensor<f32>,
    vocab: usize,
    stride: usize,
    first: usize,
    all: usize,
    #[comptime] width: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut largest = Shared::<[f32]>::new_slice(UNITS);
    let mut sums = Shared::<[f32]>::new_slice(UNITS);
    let mut counts = Shared::<[u32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    let row = first + CUBE_POS as usize;
    let from = CUBE_POS as usize * stride;
    let label = usize::cast_from(labels[row]);
    let own = f32::cast_from(logits[from + label / width].extract_dynamic(label % width));
    scan_row::<F, N>(logits, from, vocab, own, label, &mut largest, &mut sums, &mut counts, width);

    let most = largest[0];
    let sum = sums[0];
    let scale = scales[row];
    if unit == 0 {
        found[row] = sum.ln() + most - own;
        found[all + row] = f32::cast_from(counts[0]);
    }
    let factor = scale / sum;
    let mut i = unit;
    while i < vocab {
        let values = logits[from + i];
        let mut gradient = values;
        #[unroll]
        for k in 0..width {
            let mut slope = (f32::cast_from(values.extract(k)) - most).exp() * factor;
            if i * width + k == label {
                slope -= scale;
            }
            gradient.insert(k, F::cast_from(slope));
        }
        logits[from + i] = gradient;
        i += UNITS;
    }
}

/// The row's largest entry, its sum of exponentials, and how many entries beat that of the label, each in the first
/// place.
#[cube]
fn scan_row<F: Float, N: Size>(
    logits: &mut Tensor<Vector<F, N>>,
    from: usize,
    vocab: usize,
    own: f32,
    label: usize,
    largest: &mut Shared<[f32]>,
    sums: &mut Shared<[f32]>,
    counts: &mut Shared<[u32]>,
    #[comptime] width: usize,
) {
    let unit = UNIT_POS as usize;
    let mut most = f32::new(LEAST);
    let mut sum = f32::new(0.0);
    let mut above = 0u32;
    let mut i = unit;
    while i < vocab {
        let values = logits[from + i];
        #[unroll]
        for k in 0..width {
            let x = f32::cast_from(values.extract(k));
            let (now, total) = with_entry(x, most, sum);
            most = now;
            sum = total;
            if x > own || (x == own && i * width + k < label) {
                above += 1u32;
            }
        }
        i += UNITS;
    }
    largest[unit] = most;
    sums[unit] = sum;
    counts[unit] = above;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            join_softmax(largest, sums, unit, unit + half);
            counts[unit] = counts[unit] + counts[unit + half];
        }
        sync_cube();
        half /= 2;
    }
}

/// Labels and what was found about them: on the device until all chunks are through.
pub(super) struct Rows {
    labels: CubeTensor,
    scales: CubeTensor,
    /// `[2, rows]`: losses, then ranks, which are exact below 2²⁴.
    found: CubeTensor,
    rows: usize,
}

impl Rows {
    pub(super) fn new(labels: Labels<'_>, device: &Device) -> Self {
        let rows = labels.tokens.len();
        let tokens: Vec<i32> = labels.tokens.iter().map(|&token| token as i32).collect();
        let tokens = Burn::<1, Int>::from_data(TensorData::new(tokens, [rows]), (device, DType::I32));
        let scales = Burn::<1>::from_data(TensorData::new(labels.scales.to_vec(), [rows]), (device, DType::F32));
        let (labels, scales) = (device::ints(&tokens), device::floats(&scales));
        let found = device::empty(&scales, [2 * rows], DType::F32);
        Self { labels, scales, found, rows }
    }

    /// The gradients of the rows from `first` on.
    pub(super) fn differentiate(&self, logits: Burn<2>, first: usize) -> Burn<2> {
        let [rows, vocab] = logits.dims();
        let logits = device::owned(logits);
        let stride = logits.meta.strides()[0];
        let width = device::vector_width(&logits);
        // SAFETY: labels are below V, `first + rows` is at most the number of rows, and a cube stays within its row.
        unsafe {
            cross_entropy_row::launch_unchecked(
                &logits.client,
                CubeCount::Static(rows as u32, 1, 1),
                CubeDim::new_1d(UNITS as u32),
                device::address([&logits]),
                width,
                device::arg(&logits),
                device::arg(&self.labels),
                device::arg(&self.scales),
                device::arg(&self.found),
                vocab / width,
                stride / width,
                first,
                self.rows,
                width,
                device::elem(&logits),
            );
        }
        device::float_tensor(logits)
    }

    /// Losses and ranks, in one read.
    pub(super) fn read(self) -> (Vec<f32>, Vec<u32>) {
        let mut losses = device::values(self.found);
        let ranks = losses.split_off(self.rows);
        (losses, ranks.into_iter().map(|rank| rank as u32).collect())
    }
}
