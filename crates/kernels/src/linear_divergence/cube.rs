//! Two rows of logits are compared on a GPU, and the first becomes the gradient in place.

use crate::collective::{LEAST, join_softmax, sum_units, with_entry};
use crate::device;
use burn::tensor::{DType, Device, Tensor as Burn};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units that share a row.
const UNITS: usize = 256;

/// Divergence between `q = softmax(logits)` and `p = softmax(targets)`.
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

/// Memory that the units of a row share. In the second half of the work it holds the units' measures (in `largest`),
/// overlaps (`sums`), mean slopes (`target_sums`) and counts of entries above that of the best target (`places`).
#[derive(CubeType)]
struct Memory {
    largest: Shared<[f32]>,
    sums: Shared<[f32]>,
    target_largest: Shared<[f32]>,
    target_sums: Shared<[f32]>,
    places: Shared<[u32]>,
}

#[cube]
fn new_memory() -> Memory {
    Memory {
        largest: Shared::new_slice(UNITS),
        sums: Shared::new_slice(UNITS),
        target_largest: Shared::new_slice(UNITS),
        target_sums: Shared::new_slice(UNITS),
        places: Shared::new_slice(UNITS),
    }
}

/// `exp(x − most) / Σ`, and its logarithm `x − log_sum`.
#[derive(CubeType)]
struct Softmax {
    most: f32,
    log_sum: f32,
    per_sum: f32,
}

#[cube]
fn softmax(most: f32, sum: f32) -> Softmax {
    Softmax { most, log_sum: most + sum.ln(), per_sum: f32::new(1.0) / sum }
}

/// Probability and log-probability of an entry.
#[cube]
fn probability(x: f32, of: &Softmax) -> (f32, f32) {
    ((x - of.most).exp() * of.per_sum, x - of.log_sum)
}

/// The largest entries of both rows with their sums of exponentials, and the place of the target's, each in the first
/// place.
#[cube]
fn scan_rows<F: Float, G: Float, N: Size>(
    logits: &mut Tensor<Vector<F, N>>,
    targets: &Tensor<Vector<G, N>>,
    from: usize,
    target_from: usize,
    vocab: usize,
    memory: &mut Memory,
    #[comptime] width: usize,
) {
    let unit = UNIT_POS as usize;
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
            let (now, total) = with_entry(f32::cast_from(values.extract(k)), most, sum);
            most = now;
            sum = total;
            let t = f32::cast_from(others.extract(k));
            if t > target_most {
                place = (i * width + k) as u32;
            }
            let (now, total) = with_entry(t, target_most, target_sum);
            target_most = now;
            target_sum = total;
        }
        i += UNITS;
    }
    memory.largest[unit] = most;
    memory.sums[unit] = sum;
    memory.target_largest[unit] = target_most;
    memory.target_sums[unit] = target_sum;
    memory.places[unit] = place;
    join_units(memory);
}

/// Joins the softmaxes of the units; of equal target entries the first counts.
#[cube]
fn join_units(memory: &mut Memory) {
    let unit = UNIT_POS as usize;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            join_softmax(&mut memory.largest, &mut memory.sums, unit, unit + half);
            let (a, b) = (memory.target_largest[unit], memory.target_largest[unit + half]);
            join_softmax(&mut memory.target_largest, &mut memory.target_sums, unit, unit + half);
            let other = memory.places[unit + half];
            if b > a || (b == a && other < memory.places[unit]) {
                memory.places[unit] = other;
            }
        }
        sync_cube();
        half /= 2;
    }
}

/// Some entries' gradients where those need no mean (else the entries), and their sums: measure, overlap, mean slope,
/// number of entries above that of the best target.
#[cube]
fn measure_entries<F: Float, G: Float, N: Size>(
    values: Vector<F, N>,
    others: Vector<G, N>,
    guessed: &Softmax,
    target: &Softmax,
    at: usize,
    best: usize,
    own: f32,
    scale: f32,
    beta: f32,
    #[comptime] width: usize,
    #[comptime] measure: Measure,
) -> (Vector<F, N>, f32, f32, f32, u32) {
    let mut gradient = values;
    let mut loss = f32::new(0.0);
    let mut overlap = f32::new(0.0);
    let mut mean = f32::new(0.0);
    let mut above = 0u32;
    #[unroll]
    for k in 0..width {
        let (x, t) = (f32::cast_from(values.extract(k)), f32::cast_from(others.extract(k)));
        let (q, log_q) = probability(x, guessed);
        let (p, log_p) = probability(t, target);
        loss += share(q, p, log_q, log_p, beta, measure);
        overlap += min(q, p);
        if x > own || (x == own && at * width + k < best) {
            above += 1u32;
        }
        if comptime!(measure.is_difference()) {
            gradient.insert(k, F::cast_from(scale * (q - p)));
        } else {
            mean += q * slope(q, p, log_q, log_p, beta, measure);
        }
    }
    (gradient, loss, overlap, mean, above)
}

/// Sums the measures of all units into the first place.
#[cube]
fn sum_measures(memory: &mut Memory, loss: f32, overlap: f32, mean: f32, above: u32) {
    let unit = UNIT_POS as usize;
    memory.largest[unit] = loss;
    memory.sums[unit] = overlap;
    memory.target_sums[unit] = mean;
    memory.places[unit] = above;
    sum_units::<f32>(&mut memory.largest);
    sum_units::<f32>(&mut memory.sums);
    sum_units::<f32>(&mut memory.target_sums);
    sum_units::<u32>(&mut memory.places);
}

#[cube]
fn write_measures(memory: &Memory, found: &mut Tensor<f32>, row: usize, all: usize) {
    if UNIT_POS == 0 {
        found[row] = memory.largest[0];
        found[all + row] = memory.sums[0];
        found[2 * all + row] = f32::cast_from(memory.places[0]);
    }
}

/// The gradients of some entries: `scale · q (slope − mean)`.
#[cube]
fn centred<F: Float, G: Float, N: Size>(
    values: Vector<F, N>,
    others: Vector<G, N>,
    guessed: &Softmax,
    target: &Softmax,
    mean: f32,
    scale: f32,
    beta: f32,
    #[comptime] width: usize,
    #[comptime] measure: Measure,
) -> Vector<F, N> {
    let mut gradient = values;
    #[unroll]
    for k in 0..width {
        let (q, log_q) = probability(f32::cast_from(values.extract(k)), guessed);
        let (p, log_p) = probability(f32::cast_from(others.extract(k)), target);
        let of_q = slope(q, p, log_q, log_p, beta, measure);
        gradient.insert(k, F::cast_from(scale * q * (of_q - mean)));
    }
    gradient
}

/// One row.
///
/// # Shapes
/// `logits` and `targets` `[rows, V]` in vectors, `found [3, all rows]`: measures, overlaps, ranks; `vocab`,
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
    let mut memory = new_memory();
    let (from, target_from) = (CUBE_POS as usize * stride, CUBE_POS as usize * target_stride);
    scan_rows::<F, G, N>(logits, targets, from, target_from, vocab, &mut memory, width);
    let guessed = softmax(memory.largest[0], memory.sums[0]);
    let target = softmax(memory.target_largest[0], memory.target_sums[0]);
    let best = memory.places[0] as usize;
    let own = f32::cast_from(logits[from + best / width].extract_dynamic(best % width));
    // Shared memory is used again, and logits are written from here on.
    sync_cube();
    let unit = UNIT_POS as usize;
    let mut loss = f32::new(0.0);
    let mut overlap = f32::new(0.0);
    let mut mean = f32::new(0.0);
    let mut above = 0u32;
    let mut i = unit;
    while i < vocab {
        let (values, others) = (logits[from + i], targets[target_from + i]);
        let (gradient, more_loss, more_overlap, more_mean, more_above) =
            measure_entries::<F, G, N>(values, others, &guessed, &target, i, best, own, scale, beta, width, measure);
        loss += more_loss;
        overlap += more_overlap;
        mean += more_mean;
        above += more_above;
        if comptime!(measure.is_difference()) {
            logits[from + i] = gradient;
        }
        i += UNITS;
    }
    sum_measures(&mut memory, loss, overlap, mean, above);
    write_measures(&memory, found, first + CUBE_POS as usize, all);
    if comptime!(!measure.is_difference()) {
        let mean = memory.target_sums[0];
        let mut i = unit;
        while i < vocab {
            let (values, others) = (logits[from + i], targets[target_from + i]);
            logits[from + i] = centred::<F, G, N>(values, others, &guessed, &target, mean, scale, beta, width, measure);
            i += UNITS;
        }
    }
}

/// Results for pairs of rows: on the device until all chunks are through.
pub(crate) struct Compared {
    /// `[3, rows]`: measures, overlaps, and how many logits beat that of the target's argmax, exact below 2²⁴.
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
