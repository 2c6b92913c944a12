//! Pieces that several GPU kernels share.

use cubecl::prelude::*;

/// Below any logit that counts.
pub(crate) const LEAST: f32 = -3.0e38;

/// Sums the units' values into the first of them. Every unit calls it once its own value is written.
#[cube]
pub(crate) fn sum_units<N: Numeric>(values: &mut Shared<[N]>) {
    let unit = UNIT_POS as usize;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            values[unit] = values[unit] + values[unit + half];
        }
        sync_cube();
        half /= 2;
    }
}

/// A running softmax with one more entry: the largest entry `m`, and `Σ exp(x − m)`. NaN is not above anything, so it
/// reaches the sum.
#[cube]
pub(crate) fn with_entry(x: f32, largest: f32, sum: f32) -> (f32, f32) {
    let mut now = largest;
    let mut total = sum;
    if x > largest {
        total = sum * (largest - x).exp() + f32::new(1.0);
        now = x;
    } else {
        total += (x - largest).exp();
    }
    (now, total)
}

/// Joins the running softmax of place `other` into that of place `unit`.
#[cube]
pub(crate) fn join_softmax(largest: &mut Shared<[f32]>, sums: &mut Shared<[f32]>, unit: usize, other: usize) {
    let (a, b) = (largest[unit], largest[other]);
    let both = max(a, b);
    sums[unit] = sums[unit] * (a - both).exp() + sums[other] * (b - both).exp();
    largest[unit] = both;
}

/// The first position of the prefix that a row at `position` sees; a `window` of zero stands for none.
#[cube]
pub(crate) fn window_start(position: i32, window: usize, prefix: i32) -> i32 {
    let mut start = 0i32;
    if window > 0 {
        start = min(max(0i32, position + 1i32 - i32::cast_from(window as u32)), prefix);
    }
    start
}
