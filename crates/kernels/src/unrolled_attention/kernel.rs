//! The CPU kernels: one segment and one key/value head at a time.

use crate::product::{Matrix, product};
use crate::segment_attention::Segments;
use crate::segment_attention::kernel::{Part, gather, rotate_from, scatter, tasks};
use crate::{Isa, isa::per_isa, lanes};
use rayon::prelude::*;
use std::ops::Range;

/// The operands, row-major and before the rotary embedding; those of later steps lie side by side,
/// `[rows, steps · kv_heads · d]`.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a> {
    pub q: &'a [f32],
    pub k: &'a [f32],
    pub v: &'a [f32],
    pub later_k: &'a [f32],
    pub later_v: &'a [f32],
    /// Number of later steps.
    pub steps: usize,
}

/// `[rows, heads · d]`.
pub(super) fn forward(spec: &Segments, of: Operands<'_>) -> Vec<f32> {
    let (d, group) = (spec.head_dim, spec.heads / spec.kv_heads);
    let task = |(rows, kv_head): (Range<usize>, usize)| {
        let block = Block::new(spec, of, &rows, kv_head);
        let mut values = vec![0f32; rows.len() * group * d];
        for member in 0..group {
            block.mix(&block.query(kv_head * group + member), &mut values[member * d..], group * d);
        }
        Part { rows, column: kv_head * group * d, width: group * d, values }
    };
    let parts: Vec<Part> = tasks(spec).into_par_iter().map(task).collect();
    let mut out = vec![0f32; of.q.len()];
    scatter(parts.into_iter(), &mut out, spec.heads * d);
    out
}

/// Gradients of all operands, in their order.
pub(super) fn backward(spec: &Segments, of: Operands<'_>, gradient: &[f32]) -> [Vec<f32>; 5] {
    let (d, group, kv_width) = (spec.head_dim, spec.heads / spec.kv_heads, spec.kv_heads * spec.head_dim);
    let task = |(rows, kv_head): (Range<usize>, usize)| {
        let block = Block::new(spec, of, &rows, kv_head);
        let Slopes { q, k, v, later_k, later_v } = block.backward(gradient, kv_head, group);
        let part = |values, column: usize, width: usize| Part { rows: rows.clone(), column, width, values };
        let side_by_side = |parts: Vec<Vec<f32>>| -> Vec<Part> {
            parts.into_iter().enumerate().map(|(j, values)| part(values, j * kv_width + kv_head * d, d)).collect()
        };
        [
            vec![part(q, kv_head * group * d, group * d)],
            vec![part(k, kv_head * d, d)],
            vec![part(v, kv_head * d, d)],
            side_by_side(later_k),
            side_by_side(later_v),
        ]
    };
    let parts: Vec<[Vec<Part>; 5]> = tasks(spec).into_par_iter().map(task).collect();
    let mut out = [of.q, of.k, of.v, of.later_k, of.later_v].map(|operand| vec![0f32; operand.len()]);
    let widths = [spec.heads * d, kv_width, kv_width, of.steps * kv_width, of.steps * kv_width];
    for all in parts {
        for ((parts, out), width) in all.into_iter().zip(&mut out).zip(widths) {
            scatter(parts.into_iter(), out, width);
        }
    }
    out
}

/// Gradients under one key/value head: of its queries `[n, group · d]`, and of keys and values `[n, d]` each.
struct Slopes {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    later_k: Vec<Vec<f32>>,
    later_v: Vec<Vec<f32>>,
}

/// One segment under one key/value head.
struct Block<'a> {
    spec: &'a Segments,
    of: Operands<'a>,
    rows: &'a Range<usize>,
    /// Rotated keys of step 0, `[n, d]`.
    k: Vec<f32>,
    /// Values of step 0 from the segment's first row on.
    v: &'a [f32],
    /// How they lie.
    kv: Matrix,
    /// Rotated keys and values of later steps, `[n, d]` each.
    later: Vec<(Vec<f32>, Vec<f32>)>,
}

impl<'a> Block<'a> {
    fn new(spec: &'a Segments, of: Operands<'a>, rows: &'a Range<usize>, kv_head: usize) -> Self {
        let (n, d, width) = (rows.len(), spec.head_dim, spec.kv_heads * spec.head_dim);
        let mut k = gather(of.k, rows, width, kv_head * d, d);
        rotate_from(spec, &mut k, 0, 1.0);
        let later = |j: usize| {
            let column = j * width + kv_head * d;
            let mut keys = gather(of.later_k, rows, of.steps * width, column, d);
            rotate_from(spec, &mut keys, j + 1, 1.0);
            (keys, gather(of.later_v, rows, of.steps * width, column, d))
        };
        let (v, later) = (&of.v[rows.start * width + kv_head * d..], (0..of.steps).map(later).collect());
        Self { spec, of, rows, k, v, kv: Matrix::rows(n, d, width), later }
    }

    /// The rotated query of one head, `[n, d]`.
    fn query(&self, head: usize) -> Vec<f32> {
        let d = self.spec.head_dim;
        let mut q = gather(self.of.q, self.rows, self.spec.heads * d, head * d, d);
        rotate_from(self.spec, &mut q, self.of.steps, 1.0);
        q
    }

    /// The rows of step 0 within `[n, n + steps]`.
    fn square(&self) -> Matrix {
        let n = self.rows.len();
        Matrix::rows(n, n, n + self.of.steps)
    }

    /// `[n, n + steps]`: rows of step 0, zero above the diagonal, then the row's own in each later step.
    fn probabilities(&self, q: &[f32]) -> Vec<f32> {
        let (n, d) = (self.rows.len(), self.spec.head_dim);
        let width = n + self.of.steps;
        let mut scores = vec![0f32; n * width];
        let tall = Matrix::dense(n, d);
        product(&mut scores, self.square(), q, tall, &self.k, tall.transposed(), false);
        for (j, (keys, _)) in self.later.iter().enumerate() {
            for (row, (q, k)) in scores.chunks_exact_mut(width).zip(q.chunks_exact(d).zip(keys.chunks_exact(d))) {
                row[n + j] = lanes::dot(q, k);
            }
        }
        softmax(Isa::detect(), &mut scores, n, width, self.spec.scale());
        scores
    }

    /// Weighted sum of the values, into rows of `out` that are `stride` apart.
    fn mix(&self, q: &[f32], out: &mut [f32], stride: usize) {
        let (n, d) = (self.rows.len(), self.spec.head_dim);
        let p = self.probabilities(q);
        product(out, Matrix::rows(n, d, stride), &p, self.square(), self.v, self.kv, false);
        for (j, (_, values)) in self.later.iter().enumerate() {
            for ((out, p), v) in
                out.chunks_mut(stride).zip(p.chunks_exact(n + self.of.steps)).zip(values.chunks_exact(d))
            {
                add(&mut out[..d], v, p[n + j]);
            }
        }
    }

    /// With `P` the probabilities and `G` the output's gradient: `∂V = PᵀG`,
    /// `∂S = scale · P ∘ (G Vᵀ - rowsum(P ∘ G Vᵀ))`, `∂Q = ∂S K`, `∂K = ∂Sᵀ Q`, where a later step's part of `P` is a
    /// column for each row alone.
    fn backward(&self, gradient: &[f32], kv_head: usize, group: usize) -> Slopes {
        let (n, d, steps) = (self.rows.len(), self.spec.head_dim, self.of.steps);
        let zeros = || vec![0f32; n * d];
        let mut slopes = Slopes {
            q: vec![0f32; n * group * d],
            k: zeros(),
            v: zeros(),
            later_k: vec![zeros(); steps],
            later_v: vec![zeros(); steps],
        };
        for member in 0..group {
            let head = kv_head * group + member;
            let g = gather(gradient, self.rows, self.spec.heads * d, head * d, d);
            let mut one = self.backward_of_head(&self.query(head), &g, &mut slopes, member > 0);
            rotate_from(self.spec, &mut one, steps, -1.0);
            for (to, from) in slopes.q.chunks_exact_mut(group * d).zip(one.chunks_exact(d)) {
                to[member * d..][..d].copy_from_slice(from);
            }
        }
        rotate_from(self.spec, &mut slopes.k, 0, -1.0);
        for (j, keys) in slopes.later_k.iter_mut().enumerate() {
            rotate_from(self.spec, keys, j + 1, -1.0);
        }
        slopes
    }

    /// The gradient of one head's rotated query; those of keys and values are added to `slopes`, or put there first.
    fn backward_of_head(&self, q: &[f32], g: &[f32], slopes: &mut Slopes, accumulate: bool) -> Vec<f32> {
        let (n, d) = (self.rows.len(), self.spec.head_dim);
        let width = n + self.of.steps;
        let (square, tall) = (self.square(), Matrix::dense(n, d));
        let p = self.probabilities(q);
        let mut ds = vec![0f32; n * width];
        product(&mut slopes.v, tall, &p, square.transposed(), g, tall, accumulate);
        product(&mut ds, square, g, tall, self.v, self.kv.transposed(), false);
        for (j, (_, values)) in self.later.iter().enumerate() {
            for t in 0..n {
                let (at, g) = (t * d, &g[t * d..][..d]);
                add(&mut slopes.later_v[j][at..at + d], g, p[t * width + n + j]);
                ds[t * width + n + j] = lanes::dot(g, &values[at..at + d]);
            }
        }
        softmax_backward(Isa::detect(), &mut ds, &p, width, self.spec.scale());
        product(&mut slopes.k, tall, &ds, square.transposed(), q, tall, accumulate);
        let mut of_q = vec![0f32; n * d];
        product(&mut of_q, tall, &ds, square, &self.k, tall, false);
        for (j, (keys, _)) in self.later.iter().enumerate() {
            for t in 0..n {
                let (at, slope) = (t * d, ds[t * width + n + j]);
                add(&mut slopes.later_k[j][at..at + d], &q[at..at + d], slope);
                add(&mut of_q[at..at + d], &keys[at..at + d], slope);
            }
        }
        of_q
    }
}

/// `to += by · from`.
fn add(to: &mut [f32], from: &[f32], by: f32) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += by * from);
}

per_isa! {
    /// Softmax of `scale · scores` over columns up to the row's own and those from `n` on; zero between.
    fn softmax(scores: &mut [f32], n: usize, width: usize, scale: f32) {
        for (i, row) in scores.chunks_exact_mut(width).enumerate() {
            let (square, later) = row.split_at_mut(n);
            let (seen, hidden) = square.split_at_mut(i + 1);
            let max = seen.iter().chain(later.iter()).copied().fold(f32::NEG_INFINITY, f32::max);
            for x in seen.iter_mut().chain(later.iter_mut()) {
                *x = lanes::exp((*x - max) * scale);
            }
            let factor = 1.0 / (lanes::sum(seen) + lanes::sum(later));
            for x in seen.iter_mut().chain(later.iter_mut()) {
                *x *= factor;
            }
            hidden.fill(0.0);
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
