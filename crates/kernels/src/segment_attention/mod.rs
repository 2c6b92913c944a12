//! Causal attention within the segments of packed sequences, with the rotary embedding and gradients: for training.
//!
//! Rows are tokens of several dialogues one after another. A token sees the tokens of its own segment up to itself, and
//! its position counts from the start of the segment, so that packing changes nothing about a dialogue:
//! `out_i = Σ_{j ≤ i, same segment} softmax_j(scale · R(q_i)·R(k_j)) v_j`. On the CPU each segment is a block of its
//! own, so no work is spent on pairs that the mask would hide.

pub(crate) mod kernel;
mod launch;
pub mod reference;

pub use launch::segment_attention;

use std::ops::Range;
use std::sync::Arc;

/// The geometry of one packed batch.
#[derive(Clone, Debug)]
pub struct Segments {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads, a divisor of the query heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Cosines and sines of every position, `[longest, head_dim / 2]` each.
    pub angles: Arc<(Vec<f32>, Vec<f32>)>,
    /// Rows of each segment, in order and without gaps.
    pub rows: Arc<[Range<usize>]>,
}

impl Segments {
    /// `1 / √head_dim`.
    pub fn scale(&self) -> f32 {
        (self.head_dim as f32).powf(-0.5)
    }

    /// Cosines and sines of positions below `longest` for a rotary base.
    pub fn angles(longest: usize, head_dim: usize, theta: f64) -> Arc<(Vec<f32>, Vec<f32>)> {
        let half = head_dim / 2;
        let angle = |i: usize| (i / half) as f64 * theta.powf(-((i % half) as f64) / half as f64);
        let table = |f: fn(f64) -> f64| (0..longest * half).map(|i| f(angle(i)) as f32).collect();
        Arc::new((table(f64::cos), table(f64::sin)))
    }
}
