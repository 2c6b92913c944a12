//! The top tokens of rows of logits with their probabilities, on a GPU: those of segments are joined.

use super::GrowingTree;
use super::reference::{DEEPEST, NEVER};
use crate::collective::LEAST;
use crate::device;
use crate::recorded_step::greatest::UNITS;
use crate::recorded_step::segments::{rank_in_row, scan, segments};
use burn::tensor::{Int, Tensor as Burn};
use cubecl::prelude::*;

/// One row: its segments' tokens become candidates.
///
/// # Shapes
/// As [`scan`] gives them; `named [V]`, read if `mapped`; `frontier [width]`, `values [C]`, `pool [2 · C]`.
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
