//! The greatest entries of rows on a GPU: segments of a row side by side, then joined. A segment stays in the first
//! cache, so its rounds read memory once.

use super::greatest::{UNITS, new_greatest, next_greatest};
use crate::collective::{LEAST, sum_units};
use crate::device;
use burn::tensor::{DType, Tensor as Burn};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// The least tokens of a segment.
const SEGMENT: usize = 2048;
/// The most segments of a row.
const SEGMENTS: usize = 32;

/// One segment of one row: its greatest logits in their order, the greatest of them, and the sum of exponentials below
/// it, which is below zero where an entry is NaN or positive infinity.
///
/// # Shapes
/// `logits [rows.., V]`, `found [rows, segments, width + 2]`, `places [rows, segments, width]`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn scan_segment<F: Float>(
    logits: &Tensor<F>,
    found: &mut Tensor<f32>,
    places: &mut Tensor<i32>,
    vocab: usize,
    segment: usize,
    width: usize,
    #[define(F)] _dtype: ElemType,
) {
    let mut memory = new_greatest();
    let mut sums = Shared::<[f32]>::new_slice(UNITS);
    let (part, row, unit) = (CUBE_POS_X as usize, CUBE_POS_Y as usize, UNIT_POS as usize);
    let base = row * vocab;
    let from = part * segment;
    let mut end = from + segment;
    if end > vocab {
        end = vocab;
    }
    let at = row * CUBE_COUNT_X as usize + part;
    let none = vocab as u32;
    let mut last_value = f32::new(0.0);
    let mut last_place = none;
    for round in 0..width {
        if round < end - from {
            next_greatest::<F>(logits, base, from, end, none, last_value, last_place, &mut memory);
            last_value = memory.values[0];
            last_place = memory.places[0];
        } else {
            // Short segments have fewer tokens than are wanted.
            last_value = f32::new(LEAST);
            last_place = none;
        }
        if unit == 0 {
            found[at * (width + 2) + round] = last_value;
            places[at * width + round] = i32::cast_from(last_place);
        }
        if round == 0 {
            sum_exponentials::<F>(logits, base + from, base + end, last_value, &mut sums);
            if unit == 0 {
                let mut sum = sums[0];
                if memory.damaged[0] == 1u32 {
                    sum = f32::new(-1.0);
                }
                found[at * (width + 2) + width] = last_value;
                found[at * (width + 2) + width + 1] = sum;
            }
        }
    }
}

/// `Σ exp(x − largest)` over `logits[from..end]`, into the first place.
#[cube]
fn sum_exponentials<F: Float>(logits: &Tensor<F>, from: usize, end: usize, largest: f32, sums: &mut Shared<[f32]>) {
    let unit = UNIT_POS as usize;
    let mut sum = f32::new(0.0);
    let mut i = from + unit;
    while i < end {
        sum += (f32::cast_from(logits[i]) - largest).exp();
        i += UNITS;
    }
    sums[unit] = sum;
    sum_units::<f32>(sums);
}

/// How many of a row's tokens come before the one at `place`: by value, then by place.
#[cube]
pub(crate) fn rank_in_row(
    found: &Tensor<f32>,
    places: &Tensor<i32>,
    of_row: usize,
    total: usize,
    value: f32,
    place: i32,
    #[comptime] width: usize,
) -> usize {
    let mut rank = 0usize;
    for other in 0..total {
        let theirs = found[(of_row + other / width) * (width + 2) + other % width];
        if theirs > value || (theirs == value && places[of_row * width + other] < place) {
            rank += 1;
        }
    }
    rank
}

/// Tokens of a segment, and segments of a row.
pub(crate) fn segments(vocab: usize) -> (usize, usize) {
    let segment = vocab.div_ceil(SEGMENTS).max(SEGMENT).next_multiple_of(UNITS);
    (segment, vocab.div_ceil(segment))
}

/// The greatest logits of each segment of `rows` rows: what [`scan_segment`] finds, and their places.
pub(crate) fn scan(logits: &CubeTensor, vocab: usize, rows: usize, width: usize) -> (CubeTensor, CubeTensor) {
    let (segment, parts) = segments(vocab);
    let found = device::empty(logits, [rows, parts, width + 2], DType::F32);
    let places = device::empty(logits, [rows, parts, width], DType::I32);
    // SAFETY: cubes stay within their segments of the logits.
    unsafe {
        scan_segment::launch_unchecked(
            &logits.client,
            CubeCount::Static(parts as u32, rows as u32, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([logits]),
            device::arg(logits),
            device::arg(&found),
            device::arg(&places),
            vocab,
            segment,
            width,
            device::elem(logits),
        );
    }
    (found, places)
}

/// One row: the greatest entries of its segments, in their order; with `checked` -1 instead of them where the row holds
/// NaN or positive infinity, and for those that are not finite.
///
/// # Shapes
/// As [`scan_segment`] writes them; `out [rows, width]`.
#[cube(launch_unchecked)]
fn join_greatest(
    found: &Tensor<f32>,
    places: &Tensor<i32>,
    out: &mut Tensor<i32>,
    parts: usize,
    #[comptime] width: usize,
    #[comptime] checked: bool,
) {
    let row = CUBE_POS as usize;
    let of_row = row * parts;
    let total = parts * width;
    let mut c = UNIT_POS as usize;
    while c < total {
        let value = found[(of_row + c / width) * (width + 2) + c % width];
        let place = places[of_row * width + c];
        let rank = rank_in_row(found, places, of_row, total, value, place, width);
        if rank < width {
            let mut token = place;
            if comptime!(checked) {
                if value <= f32::new(LEAST) {
                    token = -1i32;
                }
                for part in 0..parts {
                    if found[(of_row + part) * (width + 2) + width + 1] < f32::new(0.0) {
                        token = -1i32;
                    }
                }
            }
            out[row * width + rank] = token;
        }
        c += UNITS;
    }
}

/// The `width` greatest entries of each row, `[rows, width]`: two launches, and logits are read from memory once.
pub(super) fn select_greatest(logits: &Burn<3>, width: usize, checked: bool) -> CubeTensor {
    let [batch, rows, vocab] = logits.dims();
    let logits = device::floats(logits);
    let rows = batch * rows;
    let (found, places) = scan(&logits, vocab, rows, width);
    let out = device::empty(&logits, [rows, width], DType::I32);
    // SAFETY: a row is at least as long as its result, so as many candidates have a place there.
    unsafe {
        join_greatest::launch_unchecked(
            &logits.client,
            CubeCount::Static(rows as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::arg(&found),
            device::arg(&places),
            device::arg(&out),
            segments(vocab).1,
            width,
            checked,
        );
    }
    out
}
