//! The top tokens of rows of logits with their probabilities, on a GPU: segments of a row side by side, then
//! joined.

use super::GrowingTree;
use super::reference::{DEEPEST, NEVER};
use crate::collective::{LEAST, sum_units};
use crate::device;
use crate::greedy_step::greatest::{UNITS, new_greatest, next_greatest};
use burn::tensor::{DType, Int, Tensor as Burn};
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

/// One row: its segments' tokens become candidates.
///
/// # Shapes
/// As [`scan_segment`] writes them; `named [V]`, read if `mapped`; `frontier [width]`, `values [C]`, `pool [2 · C]`.
#[cube(launch_unchecked)]
fn join_segments(
    found: &Tensor<f32>,
    places: &Tensor<i32>,
    frontier: &Tensor<i32>,
    named: &Tensor<i32>,
    values: &mut Tensor<f32>,
    pool: &mut Tensor<i32>,
    parts: usize,
    first: usize,
    candidates: usize,
    #[comptime] width: usize,
    #[comptime] below_root: bool,
    #[comptime] mapped: bool,
) {
    let mut logs = Shared::<[f32]>::new_slice(width);
    let mut tokens = Shared::<[i32]>::new_slice(width);
    let (row, unit) = (CUBE_POS as usize, UNIT_POS as usize);
    let of_row = row * parts;
    let total = parts * width;

    let (largest, sum, finite) = joined_softmax(found, of_row, parts, width);
    let mut c = unit;
    while c < total {
        let value = found[(of_row + c / width) * (width + 2) + c % width];
        let place = places[of_row * width + c];
        let rank = rank_in_row(found, places, of_row, total, value, place, width);
        if rank < width {
            logs[rank] = log_probability(value, largest, sum, finite);
            tokens[rank] = place;
            if comptime!(mapped) {
                tokens[rank] = named[usize::cast_from(place)];
            }
        }
        c += UNITS;
    }
    sync_cube();
    let mut node = 0i32;
    let mut value = f32::new(0.0);
    if comptime!(!below_root) {
        node = frontier[row] + 1i32;
        value = values[usize::cast_from(frontier[row])];
    }
    // Tokens that are equally likely go by their numbers, so those that are not likely at all do.
    let mut c = unit;
    while c < width {
        let (log, token) = (logs[c], tokens[c]);
        let rank = rank_of_tokens(&logs, &tokens, log, token, width);
        let at = first + row * width + rank;
        values[at] = summed(value, log);
        pool[at] = token;
        pool[candidates + at] = node;
        c += UNITS;
    }
}

/// `x − largest − ln Σ`, at most 0, where the row is finite and the token likely enough to count.
#[cube]
fn log_probability(x: f32, largest: f32, sum: f32, finite: bool) -> f32 {
    let mut log = f32::new(NEVER);
    if finite && x - largest >= f32::new(DEEPEST) {
        log = min(x - largest - sum.ln(), f32::new(0.0));
    }
    log
}

/// The log-probability of a path with one token more.
#[cube]
fn summed(value: f32, log: f32) -> f32 {
    let mut sum = f32::new(NEVER);
    if log > f32::new(NEVER) && value > f32::new(NEVER) {
        sum = value + log;
    }
    sum
}

/// The softmax of a row's segments: the largest entry, `Σ exp(x − largest)`, and whether all entries are finite.
#[cube]
fn joined_softmax(found: &Tensor<f32>, of_row: usize, parts: usize, #[comptime] width: usize) -> (f32, f32, bool) {
    let mut largest = f32::new(LEAST);
    for part in 0..parts {
        largest = max(largest, found[(of_row + part) * (width + 2) + width]);
    }
    let mut sum = f32::new(0.0);
    let mut finite = largest > f32::new(LEAST);
    for part in 0..parts {
        let at = (of_row + part) * (width + 2) + width;
        let share = found[at + 1];
        if share < f32::new(0.0) {
            finite = false;
        }
        // A segment without a finite entry adds nothing.
        if found[at] > f32::new(LEAST) {
            sum += share * (found[at] - largest).exp();
        }
    }
    (largest, sum, finite)
}

/// How many of a row's tokens come before the one at `place`: by value, then by place.
#[cube]
fn rank_in_row(
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

/// How many of the chosen tokens come before one: by log-probability, then by number.
#[cube]
fn rank_of_tokens(
    logs: &Shared<[f32]>,
    tokens: &Shared<[i32]>,
    log: f32,
    token: i32,
    #[comptime] width: usize,
) -> usize {
    let mut rank = 0usize;
    for other in 0..width {
        if logs[other] > log || (logs[other] == log && tokens[other] < token) {
            rank += 1;
        }
    }
    rank
}

/// Tokens of a segment, and segments of a row.
fn segments(vocab: usize) -> (usize, usize) {
    let segment = vocab.div_ceil(SEGMENTS).max(SEGMENT).next_multiple_of(UNITS);
    (segment, vocab.div_ceil(segment))
}

/// The greatest logits of each segment of `rows` rows: what [`scan_segment`] finds, and their places.
fn scan(logits: &CubeTensor, vocab: usize, rows: usize, width: usize) -> (CubeTensor, CubeTensor) {
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

/// See [`super::expand`].
pub(super) fn expand(growing: &GrowingTree, level: usize, logits: &Burn<3>, tokens: Option<&Burn<1, Int>>) {
    let growth = growing.growth;
    let vocab = logits.dims()[2];
    let rows = if level == 0 { 1 } else { growth.top_k };
    assert!(logits.dims()[1] >= rows && vocab >= growth.top_k, "a row for each node, with enough tokens");
    let logits = device::floats(logits);
    let (found, places) = scan(&logits, vocab, rows, growth.top_k);
    let frontier = device::ints(&growing.frontier);
    let named = tokens.map_or_else(|| frontier.clone(), device::ints);
    let (values, pool) = (device::floats(&growing.values), device::ints(&growing.pool));
    // SAFETY: cubes write candidates of this level, of which there are that many.
    unsafe {
        join_segments::launch_unchecked(
            &logits.client,
            CubeCount::Static(rows as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::arg(&found),
            device::arg(&places),
            device::arg(&frontier),
            device::arg(&named),
            device::arg(&values),
            device::arg(&pool),
            segments(vocab).1,
            growth.first(level),
            growth.candidates(),
            growth.top_k,
            level == 0,
            tokens.is_some(),
        );
    }
}
