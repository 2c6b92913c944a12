//! What everything that is fitted to a frozen backbone's states has in common.

use super::Features;
use crate::error::TrainError;
use crate::trainer::Objective;
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_model::taps::Taps;

/// Conversations, where the backbone's states at their tokens come from, and how much is decoded in an evaluation.
pub struct Conversations {
    /// Where hidden states come from.
    pub features: Features,
    /// Conversations to fit to.
    pub rows: Vec<Row>,
    /// Conversations to measure on.
    pub held_out: Vec<Row>,
    /// Which of them go into which step.
    pub packing: Packing,
    /// Where the backbone is, for the checkpoints' config.
    pub base: String,
    /// Held-out prompts that are decoded in every evaluation.
    pub decoded_prompts: usize,
    /// New tokens of each of them.
    pub decoded_tokens: usize,
}

impl Conversations {
    /// A conversation.
    pub fn row(&self, held_out: bool, index: usize) -> &Row {
        if held_out { &self.held_out[index] } else { &self.rows[index] }
    }

    /// A conversation as an error names it.
    pub(super) fn place(&self, held_out: bool, index: usize) -> String {
        let row = self.row(held_out, index);
        format!("{} row {} ({}, {} line {})", row.shard, row.row, row.id, row.source, row.line)
    }
}

/// An objective over a frozen backbone's states.
pub trait OnBackbone: Objective {
    /// The conversations.
    fn data(&self) -> &Conversations;

    /// The conversations, to be given a cache.
    fn data_mut(&mut self) -> &mut Conversations;

    /// The positions of a conversation whose states are read; none if it has nothing to fit to.
    fn positions(&self, example: &Example) -> Vec<usize>;

    /// The backbone's states that are read beside those after the final norm.
    fn taps(&self) -> Taps {
        Taps::none()
    }

    /// Computes the states of a micro-batch and drops them: to see how long it takes.
    ///
    /// # Errors
    /// When the backbone fails.
    fn read(&self, batch: &Self::Batch) -> Result<(), TrainError>;

    /// What is fitted, in a few words.
    fn title(&self) -> String;

    /// Bytes that a micro-batch of this many tokens has at work beside the weights, roughly.
    fn bytes_at_work(&self, tokens: usize) -> usize;
}
