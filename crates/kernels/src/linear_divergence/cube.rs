//! Two rows of logits are compared on a GPU, and the first becomes the gradient in place.

use crate::device;
use burn::tensor::{DType, Device, Tensor as Burn};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units that share a row.
const UNITS: usize = 256;
/// Below any logit that counts.
const LEAST: f32 = -3.0e38;

/// What is measured of `q = softmax(logits)` and `p = softmax(targets)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Measure {
    /// `−Σ p ln q`.
    CrossEntropy,
    /// `Σ p ln(p/q)`.
    ForwardKl,
    /// `Σ q ln(q/p)`.
    ReverseKl,
    /// `β Σ p ln(p/m) + (1−β) Σ q ln(q/m)`, `m = βp + (1−β)q`.
    JensenShannon,
    /// `½ Σ ∣p − q∣`.
    TotalVariation,
}

impl Measure {
    /// Whether `q − p` is the gradient: then no mean is needed first.
    fn is_difference(self) -> bool {
        matches!(self, Self::CrossEntropy | Self::ForwardKl)
    }
}

/// A token's share of the measure.
#[cube]
fn share(q: f32, p: f32, log_q: f32, log_p: f32, beta: f32, #[comptime] measure: Measure) -> f32 {
    let mut part = p * (log_p - log_q);
    if comptime!(measure == Measure::CrossEntropy) {
        part = f32::new(0.0) - p * log_q;
    }
    if comptime!(measure == Measure::ReverseKl) {
        part = q * (log_q - log_p);
    }
    if comptime!(measure == Measure::JensenShannon) {
        let log_m = log_mixed(q, p, beta);
        part = beta * p * (log_p - log_m) + (f32::new(1.0) - beta) * q * (log_q - log_m);
    }
    if comptime!(measure == Measure::TotalVariation) {
        part = f32::new(0.5) * (p - q).abs();
    }
    part
}

/// The measure's derivative with respect to `q`, up to a constant; not that of those whose gradient is a difference.
#[cube]
fn slope(q: f32, p: f32, log_q: f32, log_p: f32, beta: f32, #[comptime] measure: Measure) -> f32 {
    let mut slope = log_q - log_p;
    if comptime!(measure == Measure::JensenShannon) {
        slope = (f32::new(1.0) - beta) * (log_q - log_mixed(q, p, beta));
    }
    if comptime!(measure == Measure::TotalVariation) {
        slope = f32::new(0.0);
        if q > p {
            slope = f32::new(0.5);
        }
        if q < p {
            slope = f32::new(-0.5);
        }
    }
    slope
}

/// `ln(βp + (1−β)q)`; where neither has any mass left, neither counts.
#[cube]
fn log_mixed(q: f32, p: f32, beta: f32) -> f32 {
    max(beta * p + (f32::new(1.0) - beta) * q, f32::new(1.2e-38)).ln()
}

/// One row.
///
/// # Shapes `logits` and `targets` `[rows, V]` in vectors, `found [3, all rows]`: measures, overlaps, ranks; `vocab`,
/// `stride` and `target_stride` in vectors.
#[cube(launch_unchecked, address_type = "dynamic")]
fn compare_row<F: Float, G: Float, N: Size>(
    logits: &mut Tensor<Vector<F, N>>,
    targets: &Tensor<Vector<G, N>>,
    found: &mut Tensor<f32>,
    vocab: usize,
    stride: usize,
    target_stride: usize,
    first: usize,
    all: usize,
    scale: f32,
    beta: f32,
    #[comptime] width: usize,
    #[comptime] measure: Measure,
    #[define(F)] _dtype: ElemType,
    #[define(G)] _target_dtype: ElemType,
) {
    let mut largest = Shared::<[f32]>::new_slice(UNITS);
    let mut sums = Shared::<[f32]>::new_slice(UNITS);
    let mut target_largest = Shared::<[f32]>::new_slice(UNITS);
    let mut target_sums = Shared::<[f32]>::new_slice(UNITS);
    let mut places = Shared::<[u32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    let (from, target_from) = (CUBE_POS as usize * stride, CUBE_POS as usize * target_stride);

    let mut most = f32::new(LEAST);
    let mut sum = f32::new(0.0);
    let mut target_most = f32::new(LEAST);
    let mut target_sum = f32::new(0.0);
    let mut place = 0u32;
    let mut i = unit;
    while i < vocab {
        let (values, others) = (logits[from + i], targets[target_from + i]);
        #[unroll]
        for k in 0..width {
            let (x, t) = (f32::cast_from(values.extract(k)), f32::cast_from(others.extract(k)));
            // What is not a number is no more than anything, and so goes into the sums.
            if x > most {
                sum = sum * (most - x).exp() + f32::new(1.0);
                most = x;
            } else {
                sum += (x - most).exp();
            }
            if t > target_most {
                target_sum = target_sum * (target_most - t).exp() + f32::new(1.0);
                target_most = t;
                place = (i * width + k) as u32;
            } else {
                target_sum += (t - target_most).exp();
            }
        }
        i += UNITS;
    }
    largest[unit] = most;
    sums[unit] = sum;
    target_largest[unit] = target_most;
    target_sums[unit] = target_sum;
    places[unit] = place;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            let (a, b) = (largest[unit], largest[unit + half]);
            let both = max(a, b);
            sums[unit] = sums[unit] * (a - both).exp() + sums[unit + half] * (b - both).exp();
            largest[unit] = both;
            let (a, b) = (target_largest[unit], target_largest[unit + half]);
            let both = max(a, b);
            target_sums[unit] = target_sums[unit] * (a - both).exp() + target_sums[unit + half] * (b - both).exp();
            target_largest[unit] = both;
            let other = places[unit + half];
            if b > a || (b == a && other < places[unit]) {
                places[unit] = other;
            }
        }
        sync_cube();
        half /= 2;
    }
    let (most, target_most) = (largest[0], target_largest[0]);
    let (log_sum, target_log_sum) = (most + sums[0].ln(), target_most + target_sums[0].ln());
    let (per_sum, per_target_sum) = (f32::new(1.0) / sums[0], f32::new(1.0) / target_sums[0]);
    let best = places[0] as usize;
    let own = f32::cast_from(logits[from + best / width].extract_dynamic(best % width));
    // Shared memory is used again, and logits are written from here on.
    sync_cube();

    let mut loss = f32::new(0.0);
    let mut overlap = f32::new(0.0);
    let mut mean = f32::new(0.0);
    let mut above = 0u32;
    let mut i = unit;
    while i < vocab {
        let (values, others) = (logits[from + i], targets[target_from + i]);
        let mut gradient = values;
        #[unroll]
        for k in 0..width {
            let (x, t) = (f32::cast_from(values.extract(k)), f32::cast_from(others.extract(k)));
            let (q, p) = ((x - most).exp() * per_sum, (t - target_most).exp() * per_target_sum);
            let (log_q, log_p) = (x - log_sum, t - target_log_sum);
            loss += share(q, p, log_q, log_p, beta, measure);
            overlap += min(q, p);
            if x > own || (x == own && i * width + k < best) {
                above += 1u32;
            }
            if comptime!(measure.is_difference()) {
                gradient.insert(k, F::cast_from(scale * (q - p)));
            } else {
                mean += q * slope(q, p, log_q, log_p, beta, measure);
            }
        }
        if comptime!(measure.is_difference()) {
            logits[from + i] = gradient;
        }
        i += UNITS;
    }
    largest[unit] = loss;
    sums[unit] = overlap;
    target_sums[unit] = mean;
    places[unit] = above;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            largest[unit] = largest[unit] + largest[unit + half];
            sums[unit] = sums[unit] + sums[unit + half];
            target_sums[unit] = target_sums[unit] + target_sums[unit + half];
            places[unit] = places[unit] + places[unit + half];
        }
        sync_cube();
        half /= 2;
    }
    let row = first + CUBE_POS as usize;
    if unit == 0 {
        found[row] = largest[0];
        found[all + row] = sums[0];
        found[2 * all + row] = f32::cast_from(places[0]);
    }
    if comptime!(!measure.is_difference()) {
        let mean = target_sums[0];
        let mut i = unit;
        while i < vocab {
            let (values, others) = (logits[from + i], targets[target_from + i]);
            let mut gradient = values;
            #[unroll]
            for k in 0..width {
                let (x, t) = (f32::cast_from(values.extract(k)), f32::cast_from(others.extract(k)));
                let (q, p) = ((x - most).exp() * per_sum, (t - target_most).exp() * per_target_sum);
                let of_q = slope(q, p, x - log_sum, t - target_log_sum, beta, measure);
                gradient.insert(k, F::cast_from(scale * q * (of_q - mean)));
            }
            logits[from + i] = gradient;
            i += UNITS;
        }
    }
}

/// What was found about pairs of rows: on the device until all chunks are through.
pub(crate) struct Compared {
    /// `[3, rows]`: measures, overlaps, and how many logits beat that of the target's likeliest token, exact below 2²⁴.
    found: CubeTensor,
    rows: usize,
}

impl Compared {
    pub(crate) fn new(rows: usize, device: &Device) -> Self {
        Self { found: device::floats(&Burn::<1>::zeros([3 * rows], (device, DType::F32))), rows }
    }

    /// The gradients of the measure of the rows from `first` on, times `scale`. `beta` is that of
    /// [`Measure::JensenShannon`].
    pub(crate) fn differentiate(
        &self,
        [logits, targets]: [Burn<2>; 2],
        first: usize,
        (measure, beta): (Measure, f32),
        scale: f32,
    ) -> Burn<2> {
        let [rows, vocab] = logits.dims();
        let (logits, targets) = (device::owned(logits), device::rows(targets));
        let width = device::vector_width(&logits).min(device::vector_width(&targets));
        // SAFETY: both have that many rows of that many logits, `first + rows` is at most the number of rows, and a
        // cube stays within its row.
        unsafe {
            compare_row::launch_unchecked(
                &logits.client,
                CubeCount::Static(rows as u32, 1, 1),
                CubeDim::new_1d(UNITS as u32),
                device::address([&logits, &targets]),
                width,
                device::arg(&logits),
                device::arg(&targets),
                device::arg(&self.found),
                vocab / width,
                logits.meta.strides()[0] / width,
                targets.meta.strides()[0] / width,
                first,
                self.rows,
                scale,
                beta,
                width,
                measure,
                device::elem(&logits),
                device::elem(&targets),
            );
        }
        device::float_tensor(logits)
    }

    /// Measures, overlaps and ranks, in one read.
    pub(crate) fn read(self) -> [Vec<f32>; 3] {
        let mut measures = device::values(self.found);
        let mut overlaps = measures.split_off(self.rows);
        let ranks = overlaps.split_off(self.rows);
        [measures, overlaps, ranks]
    }
}
