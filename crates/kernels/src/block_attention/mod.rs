//! The attention of block drafters (DFlash) in training, with the rotary embedding and gradients.
//!
//! A block of `B` slots stands at an anchor: slot `i` of the block at anchor `a` has position `a + i`. It sees the
//! context rows `t < a` of its own sequence and the slots of its own block, all of them or those up to itself:
//! `out_i = Σ_{t < a} p_t v_t + Σ_j p_j v'_j` with `p` the softmax of `scale · R(q_i)·R(k)` over both. A sliding window of
//! `w` leaves out what stands before position `a + i - w + 1`. Blocks see nothing of each other, so one pass fits any
//! number of them. On the CPU a block reads the keys before its anchor only.

mod kernel;
mod launch;
pub mod reference;

pub use launch::block_attention;

use crate::segment_attention::Segments;
use std::ops::Range;
use std::sync::Arc;

/// The geometry of blocks over packed sequences.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// The context rows of each sequence. The angles reach `slots` positions beyond the last anchor.
    pub context: Segments,
    /// The anchors of each sequence, increasing. None lies beyond the sequence's context rows: an anchor may be one more
    /// than its last position.
    pub anchors: Arc<[Vec<usize>]>,
    /// Slots of a block, `B`.
    pub slots: usize,
    /// If true, a slot sees itself and the slots before it. If false, it sees all slots of its block.
    pub causal: bool,
    /// A slot sees its own position and the `window - 1` before it.
    pub window: Option<usize>,
}

impl Blocks {
    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.anchors.iter().map(Vec::len).sum()
    }

    /// The first position that a slot sees.
    fn first_seen(&self, anchor: usize, slot: usize) -> usize {
        self.window.map_or(0, |window| (anchor + slot + 1).saturating_sub(window))
    }

    /// The positions that a slot sees: those before the anchor are context, the others slots.
    fn seen(&self, anchor: usize, slot: usize) -> Range<usize> {
        let end = if self.causal { slot + 1 } else { self.slots };
        self.first_seen(anchor, slot)..anchor + end
    }

    /// Context rows, anchors and the first slot's row of each sequence that has anchors.
    fn sequences(&self) -> impl Iterator<Item = (Range<usize>, &[usize], usize)> {
        let mut row = 0;
        self.context.rows.iter().zip(self.anchors.iter()).filter_map(move |(context, anchors)| {
            let first = row;
            row += anchors.len() * self.slots;
            (!anchors.is_empty()).then_some((context.clone(), anchors.as_slice(), first))
        })
    }
}
