//! The CPU kernel: the cache is read in place, blocks of keys are shared by the rows and heads that see them.

use super::host_kv::{HostKv, SLOTS};
use super::{AttentionSpec, PassRows, PositionBias};
use crate::isa::per_isa;
use crate::{Isa, lanes};
use std::cell::RefCell;

/// Rows handled together, so that they share the keys they read.
const ROW_BLOCK: usize = 8;
/// Cost of a slot's dimension, in multiply-adds of a matmul whose weights are read once.
const WEIGHT: usize = 6;
/// Keys per block: 64 keys of 64 dimensions fill a third of a first-level cache.
const KEY_BLOCK: usize = 64;

/// Attention of the rows of a pass. Keys and values of all uncommitted rows already lie in the slots after the prefix.
///
/// # Shapes
/// `q [rows, heads · head_dim]`, `out` the same.
///
/// # Panics
/// If a length does not fit.
pub fn attend(isa: Isa, spec: &AttentionSpec, q: &[f32], kv: &HostKv, pass: &PassRows<'_>, out: &mut [f32]) {
    attend_biased(isa, (spec, None), q, kv, pass, out);
}

/// [`attend`] with a term of the scores by distance, added before any soft cap.
///
/// # Shapes
/// As of [`attend`].
///
/// # Panics
/// If a length does not fit.
pub fn attend_biased(
    isa: Isa,
    (spec, bias): (&AttentionSpec, Option<&PositionBias>),
    q: &[f32],
    kv: &HostKv,
    pass: &PassRows<'_>,
    out: &mut [f32],
) {
    let rows = pass.mask.rows();
    let width = spec.heads * spec.head_dim;
    assert!(q.len() == rows * width && out.len() == q.len() && pass.slots() <= kv.capacity(), "attention shapes");
    let blocks = rows.div_ceil(ROW_BLOCK);
    let out = Heads { out: out.as_mut_ptr() };
    let task = |index: usize| {
        let (kv_head, block) = (index / blocks, index % blocks);
        let range = block * ROW_BLOCK..((block + 1) * ROW_BLOCK).min(rows);
        let part = Part { isa, spec, bias, q, kv, kv_head, pass };
        SCRATCH.with_borrow_mut(|scratch| {
            attend_part(isa, &part, range.clone(), scratch);
            let span = spec.heads / spec.kv_heads * spec.head_dim;
            for (row, result) in range.zip(scratch.out.chunks_exact(span)) {
                // SAFETY: the heads that this key/value head serves, in the rows of this block, belong to this task
                // alone.
                unsafe {
                    out.write(row * width + kv_head * span, result);
                }
            }
        });
    };
    let tasks = spec.kv_heads * blocks;
    // A score costs its share of a softmax beside two multiply-adds per dimension.
    crate::team::run(tasks, WEIGHT * rows * width * pass.slots(), task);
}

/// The output, written by one task per (key/value head, block of rows).
struct Heads {
    out: *mut f32,
}
// SAFETY: tasks write disjoint parts.
unsafe impl Sync for Heads {}

impl Heads {
    /// # Safety
    /// `at..at + values.len()` lies within the output and is written by no other task.
    unsafe fn write(&self, at: usize, values: &[f32]) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.out.add(at), values.len()) }
    }
}

/// Inputs of one task.
struct Part<'a> {
    isa: Isa,
    spec: &'a AttentionSpec,
    bias: Option<&'a PositionBias>,
    q: &'a [f32],
    kv: &'a HostKv,
    kv_head: usize,
    pass: &'a PassRows<'a>,
}

impl Part<'_> {
    /// Room for the weights of one (row, head).
    fn stride(&self) -> usize {
        self.pass.slots()
    }

    /// Rows visible to `row`, in the order of positions.
    #[inline(always)]
    fn view(&self, row: usize) -> View {
        let seen = self.pass.view(row, self.spec.window);
        let in_prefix = self.pass.prefix - seen.first;
        let length = in_prefix + self.pass.mask.count(row) - seen.skip;
        View { first: seen.first, in_prefix, skip: seen.skip, length }
    }
}

/// The slots that a row sees: prefix slots `first..prefix`, then the mask's entries from the `skip`-th on.
struct View {
    first: usize,
    /// Number of prefix slots that are seen.
    in_prefix: usize,
    /// Number of the mask's entries that are out of the window.
    skip: usize,
    /// Number of slots that are seen in all.
    length: usize,
}

/// Memory of a task; kept by its thread, so that steps after the first allocate nothing.
#[derive(Default)]
struct Scratch {
    views: Vec<View>,
    /// Scores of whole blocks of slots, by (row, head).
    scores: Vec<f32>,
    /// Softmax weights of what each (row, head) sees, in the order of positions.
    weights: Vec<f32>,
    /// The result, `[rows, group · head_dim]`.
    out: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

per_isa! {
    /// The attended values of the heads that one key/value head serves.
    fn attend_part(part: &Part<'_>, rows: std::ops::Range<usize>, scratch: &mut Scratch) {
        let group = part.spec.heads / part.spec.kv_heads;
        let Scratch { views, scores, weights, out } = scratch;
        views.clear();
        views.extend(rows.clone().map(|row| part.view(row)));
        weights.resize(views.len() * group * part.stride(), 0.0);
        out.clear();
        out.resize(views.len() * group * part.spec.head_dim, 0.0);
        score(part, rows.start, views, scores);
        weigh(part, rows.start, views, scores, weights);
        gather(part, rows.start, views, weights, out);
    }
}

/// The first slot of the blocks that some row sees, and how many slots they hold.
#[inline(always)]
fn blocks(part: &Part<'_>, views: &[View]) -> (usize, usize) {
    let first = views.iter().map(|view| view.first).min().unwrap_or(0) / SLOTS * SLOTS;
    (first, part.stride().next_multiple_of(SLOTS) - first)
}

/// The scores of all slots in all blocks that any row sees; slots that hold nothing yet get scores that nobody reads.
#[inline(always)]
fn score(part: &Part<'_>, first_row: usize, views: &[View], scores: &mut Vec<f32>) {
    let (d, group) = (part.spec.head_dim, part.spec.heads / part.spec.kv_heads);
    let (first, slots) = blocks(part, views);
    scores.resize(views.len() * group * slots, 0.0);
    let keys = &part.kv.keys_of(part.kv_head)[first * d..(first + slots) * d];
    let query = |index: usize| head_slice(part, first_row + index / group, index % group);
    let (mut index, queries) = (0, views.len() * group);
    // Several sums at a time, so that few wait for another.
    while index + 4 <= queries {
        let scores = &mut scores[index * slots..(index + 4) * slots];
        score_tiles::<4, 2>(part.isa, [0, 1, 2, 3].map(|i| query(index + i)), keys, scores);
        index += 4;
    }
    while index < queries {
        score_tiles::<1, 4>(part.isa, [query(index)], keys, &mut scores[index * slots..(index + 1) * slots]);
        index += 1;
    }
}

/// `Q` queries against all key blocks, `B` blocks at a time. `scores [Q][slots]`.
#[inline(always)]
fn score_tiles<const Q: usize, const B: usize>(isa: Isa, queries: [&[f32]; Q], keys: &[f32], scores: &mut [f32]) {
    let d = queries[0].len();
    let slots = scores.len() / Q;
    let mut slot = 0;
    while slot + B * SLOTS <= slots {
        score_tile::<Q, B>(isa, &queries, &keys[slot * d..(slot + B * SLOTS) * d], &mut scores[slot..], slots);
        slot += B * SLOTS;
    }
    while slot < slots {
        score_tile::<Q, 1>(isa, &queries, &keys[slot * d..(slot + SLOTS) * d], &mut scores[slot..], slots);
        slot += SLOTS;
    }
}

/// Each score is one chain of fused multiply-adds over the dimensions, whatever it is computed with.
#[inline(always)]
fn score_tile<const Q: usize, const B: usize>(
    isa: Isa,
    queries: &[&[f32]; Q],
    keys: &[f32],
    scores: &mut [f32],
    stride: usize,
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: an `Isa` comes from `Isa::available`, which detected the features.
    unsafe {
        match isa.kind() {
            crate::isa::Kind::Avx512 => return x86::avx512::score_tile::<Q, B>(queries, keys, scores, stride),
            crate::isa::Kind::Avx2 => return x86::avx2::score_tile::<Q, B>(queries, keys, scores, stride),
            crate::isa::Kind::Portable => {}
        }
    }
    let _ = isa;
    for (q, query) in queries.iter().enumerate() {
        for (b, block) in keys.chunks_exact(query.len() * SLOTS).enumerate() {
            let mut sums = [0f32; SLOTS];
            for (&value, block) in query.iter().zip(block.chunks_exact(SLOTS)) {
                for (sum, key) in sums.iter_mut().zip(block) {
                    *sum = value.mul_add(*key, *sum);
                }
            }
            scores[q * stride + b * SLOTS..][..SLOTS].copy_from_slice(&sums);
        }
    }
}

/// The softmax weights of everything that each (row, head) sees.
#[inline(always)]
fn weigh(part: &Part<'_>, first_row: usize, views: &[View], scores: &[f32], weights: &mut [f32]) {
    let (group, stride) = (part.spec.heads / part.spec.kv_heads, part.stride());
    let (first, slots) = blocks(part, views);
    for (i, view) in views.iter().enumerate() {
        for head in 0..group {
            let scores = &scores[(i * group + head) * slots..][..slots];
            let weights = &mut weights[(i * group + head) * stride..][..view.length];
            let (prefix, uncommitted) = weights.split_at_mut(view.in_prefix);
            prefix.copy_from_slice(&scores[view.first - first..part.pass.prefix - first]);
            for (index, weight) in uncommitted.iter_mut().enumerate() {
                *weight = scores[part.pass.prefix - first + part.pass.mask.nth(first_row + i, index + view.skip)];
            }
            scale(weights, part.spec);
            if let Some(bias) = part.bias {
                add_bias(part, bias, first_row + i, view, head, weights);
            }
            softmax(weights, part.spec);
        }
    }
}

/// Adds the terms of everything that a (row, head) sees.
#[inline(always)]
fn add_bias(part: &Part<'_>, bias: &PositionBias, row: usize, view: &View, head: usize, scores: &mut [f32]) {
    let head = part.kv_head * (part.spec.heads / part.spec.kv_heads) + head;
    let query = part.pass.position(row);
    let (prefix, uncommitted) = scores.split_at_mut(view.in_prefix);
    for (slot, score) in prefix.iter_mut().enumerate() {
        *score += bias.at(head, query, view.first + slot);
    }
    for (index, score) in uncommitted.iter_mut().enumerate() {
        *score += bias.at(head, query, part.pass.seen_position(row, index + view.skip));
    }
}

/// Scores times the factor.
#[inline(always)]
fn scale(s: &mut [f32], spec: &AttentionSpec) {
    for v in s.iter_mut() {
        *v *= spec.scale;
    }
}

/// The weighted values: one chain of additions per output element, in the order of positions.
#[inline(always)]
fn gather(part: &Part<'_>, first_row: usize, views: &[View], weights: &[f32], out: &mut [f32]) {
    let (d, group, stride) = (part.spec.head_dim, part.spec.heads / part.spec.kv_heads, part.stride());
    let values = part.kv.values_of(part.kv_head);
    for block in (0..part.pass.prefix).step_by(KEY_BLOCK) {
        let end = (block + KEY_BLOCK).min(part.pass.prefix);
        for (i, view) in views.iter().enumerate() {
            let from = block.max(view.first);
            if from >= end {
                continue;
            }
            for head in 0..group {
                let weights = &weights[(i * group + head) * stride..][from - view.first..end - view.first];
                add_run(weights, &values[from * d..end * d], &mut out[(i * group + head) * d..][..d]);
            }
        }
    }
    for (i, view) in views.iter().enumerate() {
        for head in 0..group {
            let weights = &weights[(i * group + head) * stride..][..view.length];
            let out = &mut out[(i * group + head) * d..][..d];
            for (index, weight) in weights[view.in_prefix..].iter().enumerate() {
                let slot = part.pass.prefix + part.pass.mask.nth(first_row + i, index + view.skip);
                add_run(std::slice::from_ref(weight), &values[slot * d..(slot + 1) * d], out);
            }
        }
    }
}

/// The query of the `head`-th head that the part's key/value head serves.
#[inline(always)]
fn head_slice<'a>(part: &Part<'a>, row: usize, head: usize) -> &'a [f32] {
    let (d, group) = (part.spec.head_dim, part.spec.heads / part.spec.kv_heads);
    let start = (row * part.spec.heads + part.kv_head * group + head) * d;
    &part.q[start..start + d]
}

/// Caps scaled scores and turns them into weights that sum to one.
#[inline(always)]
fn softmax(s: &mut [f32], spec: &AttentionSpec) {
    if let Some(cap) = spec.soft_cap {
        for v in s.iter_mut() {
            *v = cap * lanes::tanh(*v / cap);
        }
    }
    let max = lanes::max(s);
    for v in s.iter_mut() {
        *v = lanes::exp(*v - max);
    }
    let scale = 1.0 / lanes::sum(s);
    for v in s.iter_mut() {
        *v *= scale;
    }
}

/// `out += Σ_j weights[j] · rows[j]`, in order.
#[inline(always)]
fn add_run(weights: &[f32], rows: &[f32], out: &mut [f32]) {
    let d = out.len();
    let mut start = 0;
    while start + 64 <= d {
        add_columns::<64>(weights, rows, out, start);
        start += 64;
    }
    while start + 16 <= d {
        add_columns::<16>(weights, rows, out, start);
        start += 16;
    }
    while start + 8 <= d {
        add_columns::<8>(weights, rows, out, start);
        start += 8;
    }
    for (&w, row) in weights.iter().zip(rows.chunks_exact(d)) {
        for i in start..d {
            out[i] = w.mul_add(row[i], out[i]);
        }
    }
}

/// [`add_run`] for `W` columns, whose sums stay in registers.
#[inline(always)]
fn add_columns<const W: usize>(weights: &[f32], rows: &[f32], out: &mut [f32], start: usize) {
    let d = out.len();
    let mut sums = [0f32; W];
    sums.copy_from_slice(&out[start..start + W]);
    for (&w, row) in weights.iter().zip(rows.chunks_exact(d)) {
        let row = &row[start..start + W];
        for i in 0..W {
            sums[i] = w.mul_add(row[i], sums[i]);
        }
    }
    out[start..start + W].copy_from_slice(&sums);
}

#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
pub(crate) mod tests;
