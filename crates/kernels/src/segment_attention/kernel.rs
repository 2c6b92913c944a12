//! The CPU kernels: one segment and one key/value head at a time.

use super::Segments;
use crate::product::{Matrix, product};
use crate::{Isa, isa::per_isa, lanes, rope};
use rayon::prelude::*;
use std::ops::Range;

/// The operands, row-major and before the rotary embedding.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub q: &'a [f32],
    pub k: &'a [f32],
    pub v: &'a [f32],
}

/// One task's part of a result: rows of a segment, some heads wide.
pub(crate) struct Part {
    pub rows: Range<usize>,
    pub column: usize,
    pub width: usize,
    pub values: Vec<f32>,
}

pub(crate) fn scatter(parts: impl Iterator<Item = Part>, out: &mut [f32], out_width: usize) {
    for part in parts {
        for (row, values) in part.rows.zip(part.values.chunks_exact(part.width)) {
            out[row * out_width + part.column..][..part.width].copy_from_slice(values);
        }
    }
}

/// Every (segment, key/value head), longest segments first so that threads end together.
pub(crate) fn tasks(spec: &Segments) -> Vec<(Range<usize>, usize)> {
    let mut rows: Vec<_> = spec.rows.iter().filter(|rows| !rows.is_empty()).cloned().collect();
    rows.sort_by_key(|rows| std::cmp::Reverse(rows.len()));
    rows.into_iter().flat_map(|rows| (0..spec.kv_heads).map(move |head| (rows.clone(), head))).collect()
}

/// `[rows, heads · d]`.
pub(super) fn forward(spec: &Segments, of: Operands<'_>) -> Vec<f32> {
    let (d, group) = (spec.head_dim, spec.heads / spec.kv_heads);
    let parts: Vec<Part> = tasks(spec)
        .into_par_iter()
        .map(|(rows, kv_head)| {
            let block = Block::new(spec, of, &rows, kv_head);
            let n = rows.len();
            let mut values = vec![0f32; n * group * d];
            for member in 0..group {
                let probabilities = block.probabilities(&block.query(kv_head * group + member));
                let out = Matrix::rows(n, d, group * d);
                product(&mut values[member * d..], out, &probabilities, Matrix::dense(n, n), block.v, block.kv, false);
            }
            Part { rows, column: kv_head * group * d, width: group * d, values }
        })
        .collect();
    let mut out = vec![0f32; of.q.len()];
    scatter(parts.into_iter(), &mut out, spec.heads * d);
    out
}

/// Gradients of q, k and v.
pub(super) fn backward(spec: &Segments, of: Operands<'_>, gradient: &[f32]) -> [Vec<f32>; 3] {
    let (d, group) = (spec.head_dim, spec.heads / spec.kv_heads);
    let parts: Vec<[Part; 3]> = tasks(spec)
        .into_par_iter()
        .map(|(rows, kv_head)| {
            let block = Block::new(spec, of, &rows, kv_head);
            let [dq, dk, dv] = block.backward(gradient, kv_head, group);
            let part = |values, heads: usize| Part {
                rows: rows.clone(),
                column: kv_head * heads * d,
                width: heads * d,
                values,
            };
            [part(dq, group), part(dk, 1), part(dv, 1)]
        })
        .collect();
    let mut out = [vec![0f32; of.q.len()], vec![0f32; of.k.len()], vec![0f32; of.v.len()]];
    let widths = [spec.heads * d, spec.kv_heads * d, spec.kv_heads * d];
    for [q, k, v] in parts {
        for ((part, out), width) in [q, k, v].into_iter().zip(&mut out).zip(widths) {
            scatter(std::iter::once(part), out, width);
        }
    }
    out
}

/// One segment under one key/value head.
struct Block<'a> {
    spec: &'a Segments,
    of: Operands<'a>,
    rows: &'a Range<usize>,
    /// Rotated keys, `[n, d]`.
    k: Vec<f32>,
    /// Values from the segment's first row on.
    v: &'a [f32],
    /// How they lie.
    kv: Matrix,
}

impl<'a> Block<'a> {
    fn new(spec: &'a Segments, of: Operands<'a>, rows: &'a Range<usize>, kv_head: usize) -> Self {
        let (n, d, width) = (rows.len(), spec.head_dim, spec.kv_heads * spec.head_dim);
        let mut k = gather(of.k, rows, width, kv_head * d, d);
        rotate(spec, &mut k, 1.0);
        Self { spec, of, rows, k, v: &of.v[rows.start * width + kv_head * d..], kv: Matrix::rows(n, d, width) }
    }

    /// The rotated query of one head, `[n, d]`.
    fn query(&self, head: usize) -> Vec<f32> {
        let d = self.spec.head_dim;
        let mut q = gather(self.of.q, self.rows, self.spec.heads * d, head * d, d);
        rotate(self.spec, &mut q, 1.0);
        q
    }

    /// `[n, n]`, zero above the diagonal.
    fn probabilities(&self, q: &[f32]) -> Vec<f32> {
        let (n, d) = (self.rows.len(), self.spec.head_dim);
        let mut scores = vec![0f32; n * n];
        product(
            &mut scores,
            Matrix::dense(n, n),
            q,
            Matrix::dense(n, d),
            &self.k,
            Matrix::dense(n, d).transposed(),
            false,
        );
        causal_softmax(Isa::detect(), &mut scores, n, self.spec.scale());
        scores
    }

    /// With `P` the probabilities and `G` the output's gradient: `∂V = PᵀG`,
    /// `∂S = scale · P ∘ (G Vᵀ - rowsum(P ∘ G Vᵀ))`, `∂Q = ∂S K`, `∂K = ∂Sᵀ Q`.
    fn backward(&self, gradient: &[f32], kv_head: usize, group: usize) -> [Vec<f32>; 3] {
        let (n, d) = (self.rows.len(), self.spec.head_dim);
        let q_width = self.spec.heads * d;
        let (square, tall) = (Matrix::dense(n, n), Matrix::dense(n, d));
        let (mut dq, mut dk, mut dv) = (vec![0f32; n * group * d], vec![0f32; n * d], vec![0f32; n * d]);
        let mut ds = vec![0f32; n * n];
        for member in 0..group {
            let head = kv_head * group + member;
            let q = self.query(head);
            let p = self.probabilities(&q);
            let (g, lies) = (&gradient[self.rows.start * q_width + head * d..], Matrix::rows(n, d, q_width));
            product(&mut dv, tall, &p, square.transposed(), g, lies, member > 0);
            product(&mut ds, square, g, lies, self.v, self.kv.transposed(), false);
            softmax_backward(Isa::detect(), &mut ds, &p, n, self.spec.scale());
            product(&mut dk, tall, &ds, square.transposed(), &q, tall, member > 0);
            let mut one = vec![0f32; n * d];
            product(&mut one, tall, &ds, square, &self.k, tall, false);
            rotate(self.spec, &mut one, -1.0);
            for (to, from) in dq.chunks_exact_mut(group * d).zip(one.chunks_exact(d)) {
                to[member * d..][..d].copy_from_slice(from);
            }
        }
        rotate(self.spec, &mut dk, -1.0);
        [dq, dk, dv]
    }
}

pub(crate) fn gather(from: &[f32], rows: &Range<usize>, width: usize, column: usize, d: usize) -> Vec<f32> {
    rows.clone().flat_map(|row| &from[row * width + column..][..d]).copied().collect()
}

/// Rotates row `i` to position `i`, or back with `sign = -1`: the rotation's transpose is its inverse.
fn rotate(spec: &Segments, heads: &mut [f32], sign: f32) {
    rotate_from(spec, heads, 0, sign);
}

/// Rotates to position `first + i`.
pub(crate) fn rotate_from(spec: &Segments, heads: &mut [f32], first: usize, sign: f32) {
    let half = spec.head_dim / 2;
    let (cos, sin) = &*spec.angles;
    let mut turned = vec![0f32; half];
    for (position, head) in heads.chunks_exact_mut(spec.head_dim).enumerate() {
        let at = (first + position) * half;
        turned.iter_mut().zip(&sin[at..at + half]).for_each(|(t, s)| *t = sign * s);
        rope::rotate_heads(Isa::detect(), head, spec.head_dim, &cos[at..at + half], &turned);
    }
}

per_isa! {
    /// Softmax of `scale · scores` over columns up to the row's own; zero beyond.
    fn causal_softmax(scores: &mut [f32], n: usize, scale: f32) {
        for (i, row) in scores.chunks_exact_mut(n).enumerate() {
            let (seen, hidden) = row.split_at_mut(i + 1);
            let max = seen.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for x in seen.iter_mut() {
                *x = lanes::exp((*x - max) * scale);
            }
            let factor = 1.0 / lanes::sum(seen);
            for x in seen.iter_mut() {
                *x *= factor;
            }
            hidden.fill(0.0);
        }
    }
}

per_isa! {
    /// `ds ← scale · p ∘ (ds - rowsum(p ∘ ds))`.
    fn softmax_backward(ds: &mut [f32], p: &[f32], n: usize, scale: f32) {
        for (i, (ds, p)) in ds.chunks_exact_mut(n).zip(p.chunks_exact(n)).enumerate() {
            let mean = lanes::dot(&ds[..=i], &p[..=i]);
            for (ds, p) in ds.iter_mut().zip(p) {
                *ds = scale * p * (*ds - mean);
            }
        }
    }
}
