//! The CPU kernels: one sequence and one key/value head at a time.

use super::Blocks;
use crate::product::{Matrix, product};
use crate::segment_attention::kernel::{Part, gather, rotate_from, scatter};
use crate::{Isa, isa::per_isa, lanes};
use rayon::prelude::*;
use std::ops::Range;

/// The operands, row-major and before the rotary embedding.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub q: &'a [f32],
    /// Of the context.
    pub k: &'a [f32],
    pub v: &'a [f32],
    /// Of the slots.
    pub own_k: &'a [f32],
    pub own_v: &'a [f32],
}

/// Every (sequence, key/value head), most blocks first so that threads end together.
fn tasks(spec: &Blocks) -> Vec<(Range<usize>, &[usize], usize, usize)> {
    let mut all: Vec<_> = spec.sequences().collect();
    all.sort_by_key(|(_, anchors, _)| std::cmp::Reverse(anchors.len()));
    let of_heads = |(rows, anchors, first): (Range<usize>, _, _)| {
        (0..spec.context.kv_heads).map(move |head| (rows.clone(), anchors, first, head))
    };
    all.into_iter().flat_map(of_heads).collect()
}

/// `[slots, heads · d]`.
pub(super) fn forward(spec: &Blocks, of: Operands<'_>) -> Vec<f32> {
    let (d, width) = (spec.context.head_dim, spec.context.heads / spec.context.kv_heads * spec.context.head_dim);
    let part = |(rows, anchors, first, kv_head)| {
        let sequence = Sequence::new(spec, of, rows, anchors, first, kv_head);
        let values = sequence.forward();
        Part { rows: sequence.slots(), column: kv_head * width, width, values }
    };
    let parts: Vec<Part> = tasks(spec).into_par_iter().map(part).collect();
    let mut out = vec![0f32; of.q.len()];
    scatter(parts.into_iter(), &mut out, spec.context.heads * d);
    out
}

/// Gradients of the operands, in their order.
pub(super) fn backward(spec: &Blocks, of: Operands<'_>, gradient: &[f32]) -> [Vec<f32>; 5] {
    let s = &spec.context;
    let (d, group) = (s.head_dim, s.heads / s.kv_heads);
    let part = |(rows, anchors, first, kv_head): (Range<usize>, _, _, usize)| {
        let sequence = Sequence::new(spec, of, rows, anchors, first, kv_head);
        let [dq, dk, dv, d_own_k, d_own_v] = sequence.backward(gradient);
        let (context, slots) = (sequence.context.start..sequence.context.start + sequence.read, sequence.slots());
        let part = |rows: &Range<usize>, heads: usize, values| Part {
            rows: rows.clone(),
            column: kv_head * heads * d,
            width: heads * d,
            values,
        };
        let of_context = [part(&context, 1, dk), part(&context, 1, dv)];
        let [dk, dv] = of_context;
        [part(&slots, group, dq), dk, dv, part(&slots, 1, d_own_k), part(&slots, 1, d_own_v)]
    };
    let parts: Vec<[Part; 5]> = tasks(spec).into_par_iter().map(part).collect();
    let mut out = [of.q, of.k, of.v, of.own_k, of.own_v].map(|operand| vec![0f32; operand.len()]);
    let widths = [s.heads, s.kv_heads, s.kv_heads, s.kv_heads, s.kv_heads].map(|heads| heads * d);
    for parts in parts {
        for ((part, out), width) in parts.into_iter().zip(&mut out).zip(widths) {
            scatter(std::iter::once(part), out, width);
        }
    }
    out
}

/// The blocks of one sequence under one key/value head.
struct Sequence<'a> {
    spec: &'a Blocks,
    of: Operands<'a>,
    context: Range<usize>,
    /// Context rows that some block reads.
    read: usize,
    anchors: &'a [usize],
    /// Row of the first slot.
    first: usize,
    kv_head: usize,
    /// Rotated keys of the context, `[read, d]`.
    k: Vec<f32>,
    /// Rotated keys of the slots, `[blocks · B, d]`.
    own_k: Vec<f32>,
}

/// A block, and the context that it reads.
struct Block {
    number: usize,
    anchor: usize,
    /// The first context row that it reads.
    from: usize,
    /// Number of context rows that it reads.
    seen: usize,
}

impl<'a> Sequence<'a> {
    fn new(
        spec: &'a Blocks,
        of: Operands<'a>,
        context: Range<usize>,
        anchors: &'a [usize],
        first: usize,
        kv_head: usize,
    ) -> Self {
        let (d, width) = (spec.context.head_dim, spec.context.kv_heads * spec.context.head_dim);
        let read = anchors.last().copied().unwrap_or(0);
        let mut k = gather(of.k, &(context.start..context.start + read), width, kv_head * d, d);
        rotate_from(&spec.context, &mut k, 0, 1.0);
        let mut own_k = gather(of.own_k, &(first..first + anchors.len() * spec.slots), width, kv_head * d, d);
        for (keys, &anchor) in own_k.chunks_exact_mut(spec.slots * d).zip(anchors) {
            rotate_from(&spec.context, keys, anchor, 1.0);
        }
        Self { spec, of, context, read, anchors, first, kv_head, k, own_k }
    }

    /// Rows of all slots.
    fn slots(&self) -> Range<usize> {
        self.first..self.first + self.anchors.len() * self.spec.slots
    }

    fn blocks(&self) -> impl Iterator<Item = Block> {
        self.anchors.iter().enumerate().map(|(number, &anchor)| {
            let from = self.spec.first_seen(anchor, 0).min(anchor);
            Block { number, anchor, from, seen: anchor - from }
        })
    }

    /// Values of context and slots from a block's first row on, and how rows lie.
    fn values(&self, block: &Block) -> [&'a [f32]; 2] {
        let (d, width) = (self.spec.context.head_dim, self.spec.context.kv_heads * self.spec.context.head_dim);
        let column = self.kv_head * d;
        let context = (self.context.start + block.from) * width + column;
        let own = (self.first + block.number * self.spec.slots) * width + column;
        [self.of.v.get(context..).unwrap_or(&[]), &self.of.own_v[own..]]
    }

    /// The rotated queries of a block under one head, `[B, d]`.
    fn query(&self, block: &Block, head: usize) -> Vec<f32> {
        let (s, slots) = (&self.spec.context, self.spec.slots);
        let first = self.first + block.number * slots;
        let mut q = gather(self.of.q, &(first..first + slots), s.heads * s.head_dim, head * s.head_dim, s.head_dim);
        rotate_from(s, &mut q, block.anchor, 1.0);
        q
    }

    /// `[B, seen + B]`, zero where a slot does not see.
    fn probabilities(&self, block: &Block, q: &[f32]) -> Vec<f32> {
        let (slots, d) = (self.spec.slots, self.spec.context.head_dim);
        let width = block.seen + slots;
        let (rows, keys) = (Matrix::dense(slots, d), |n| Matrix::dense(n, d).transposed());
        let mut scores = vec![0f32; slots * width];
        if block.seen > 0 {
            let lies = Matrix::rows(slots, block.seen, width);
            product(&mut scores, lies, q, rows, &self.k[block.from * d..], keys(block.seen), false);
        }
        let own = &self.own_k[block.number * slots * d..];
        let lies = Matrix::rows(slots, slots, width);
        product(&mut scores[block.seen..], lies, q, rows, own, keys(slots), false);
        let seen = (0..slots).map(|slot| {
            let seen = self.spec.seen(block.anchor, slot);
            (seen.start - block.from, seen.end - block.from)
        });
        masked_softmax(Isa::detect(), &mut scores, width, &seen.collect::<Vec<_>>(), self.spec.context.scale());
        scores
    }

    /// `[blocks · B, group · d]`.
    fn forward(&self) -> Vec<f32> {
        let s = &self.spec.context;
        let (slots, d, group) = (self.spec.slots, s.head_dim, s.heads / s.kv_heads);
        let (wide, kv_width) = (group * d, s.kv_heads * d);
        let mut out = vec![0f32; self.anchors.len() * slots * wide];
        for block in self.blocks() {
            let ([v, own_v], width) = (self.values(&block), block.seen + slots);
            for member in 0..group {
                let p = self.probabilities(&block, &self.query(&block, self.kv_head * group + member));
                let (to, lies) = (&mut out[block.number * slots * wide + member * d..], Matrix::rows(slots, d, wide));
                let of_own = Matrix::rows(slots, slots, width);
                product(to, lies, &p[block.seen..], of_own, own_v, Matrix::rows(slots, d, kv_width), false);
                if block.seen > 0 {
                    let of_context = Matrix::rows(slots, block.seen, width);
                    product(to, lies, &p, of_context, v, Matrix::rows(block.seen, d, kv_width), true);
                }
            }
        }
        out
    }

    /// With `P` the probabilities and `G` the output's gradient: `∂V = PᵀG`,
    /// `∂S = scale · P ∘ (G Vᵀ - rowsum(P ∘ G Vᵀ))`, `∂Q = ∂S K`, `∂K = ∂Sᵀ Q`, for context and slots side by side.
    fn backward(&self, gradient: &[f32]) -> [Vec<f32>; 5] {
        let s = &self.spec.context;
        let (slots, d, group) = (self.spec.slots, s.head_dim, s.heads / s.kv_heads);
        let all = self.anchors.len() * slots;
        let mut found = [group * all * d, self.read * d, self.read * d, all * d, all * d].map(|n| vec![0f32; n]);
        for block in self.blocks() {
            for member in 0..group {
                self.add_block(&block, member, gradient, &mut found);
            }
        }
        let [_, dk, _, d_own_k, _] = &mut found;
        rotate_from(s, dk, 0, -1.0);
        for (keys, &anchor) in d_own_k.chunks_exact_mut(slots * d).zip(self.anchors) {
            rotate_from(s, keys, anchor, -1.0);
        }
        found
    }

    /// Adds a block's gradients under one head; those of keys are still rotated.
    fn add_block(&self, block: &Block, member: usize, gradient: &[f32], found: &mut [Vec<f32>; 5]) {
        let s = &self.spec.context;
        let (slots, d, group, kv_width) = (self.spec.slots, s.head_dim, s.heads / s.kv_heads, s.kv_heads * s.head_dim);
        let (head, width, row) = (self.kv_head * group + member, block.seen + slots, block.number * slots);
        let q = self.query(block, head);
        let p = self.probabilities(block, &q);
        let g = (&gradient[(self.first + row) * s.heads * d + head * d..], Matrix::rows(slots, d, s.heads * d));
        let [dq, dk, dv, d_own_k, d_own_v] = found;
        let [v, own_v] = self.values(block);
        // Keys, values and their gradients of context and slots: where their columns begin, and how many there are.
        let keys = [&self.k[block.from * d..], &self.own_k[row * d..]];
        let to = [
            (&mut dk[block.from * d..], &mut dv[block.from * d..]),
            (&mut d_own_k[row * d..], &mut d_own_v[row * d..]),
        ];
        let sides = [(0, block.seen, v), (block.seen, slots, own_v)];
        let mut ds = vec![0f32; slots * width];
        for &(column, n, values) in sides.iter().filter(|side| side.1 > 0) {
            let lies = Matrix::rows(n, d, kv_width).transposed();
            product(&mut ds[column..], Matrix::rows(slots, n, width), g.0, g.1, values, lies, false);
        }
        softmax_backward(Isa::detect(), &mut ds, &p, width, s.scale());
        let mut one = vec![0f32; slots * d];
        let (rows, mut added) = (Matrix::dense(slots, d), false);
        for (((column, n, _), keys), (dk, dv)) in
            sides.into_iter().zip(keys).zip(to).filter(|((side, _), _)| side.1 > 0)
        {
            let (part, tall) = (Matrix::rows(slots, n, width), Matrix::dense(n, d));
            product(dv, tall, &p[column..], part.transposed(), g.0, g.1, true);
            product(dk, tall, &ds[column..], part.transposed(), &q, rows, true);
            product(&mut one, rows, &ds[column..], part, keys, tall, added);
            added = true;
        }
        rotate_from(s, &mut one, block.anchor, -1.0);
        for (to, from) in dq[row * group * d..].chunks_exact_mut(group * d).zip(one.chunks_exact(d)) {
            to[member * d..][..d].copy_from_slice(from);
        }
    }
}

per_isa! {
    /// Softmax of `scale · scores` over the columns that each row sees; zero in the others.
    fn masked_softmax(scores: &mut [f32], width: usize, seen: &[(usize, usize)], scale: f32) {
        for (row, &(from, to)) in scores.chunks_exact_mut(width).zip(seen) {
            row[..from].fill(0.0);
            row[to..].fill(0.0);
            let row = &mut row[from..to];
            let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for x in row.iter_mut() {
                *x = lanes::exp((*x - max) * scale);
            }
            let factor = 1.0 / lanes::sum(row);
            for x in row.iter_mut() {
                *x *= factor;
            }
        }
    }
}

per_isa! {
    /// `ds ← scale · p ∘ (ds - rowsum(p ∘ ds))`.
    fn softmax_backward(ds: &mut [f32], p: &[f32], width: usize, scale: f32) {
        for (ds, p) in ds.chunks_exact_mut(width).zip(p.chunks_exact(width)) {
            let mean = lanes::dot(ds, p);
            for (ds, p) in ds.iter_mut().zip(p) {
                *ds = scale * p * (*ds - mean);
            }
        }
    }
}
