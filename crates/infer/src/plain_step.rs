//! The time of a plain step behind a session's text.

use crate::error::DecodeError;
use crate::session::Session;
use crate::verdict::first;
use gorgon_core::accept::AcceptanceRule;
use gorgon_core::accept::random::SeededRandom;
use gorgon_draft::drafter::Drafter;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::ModelError;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::Target;
use std::time::{Duration, Instant};

impl<T: Target, D: Drafter> Session<T, D> {
    /// Time of a plain step behind the text: a pass over one token, and what `rule` reads of it. Nothing is committed.
    ///
    /// # Errors
    /// When nothing was read yet, the context is full, or the logits are not finite.
    pub fn time_plain_step(&mut self, rule: &dyn AcceptanceRule) -> Result<Duration, DecodeError> {
        let (position, root) = (self.len(), *self.text().last().ok_or(ModelError::EmptyPrompt)?);
        let target = self.parts().0;
        let started = Instant::now();
        let output = target.verify(&PassPlan::of_tokens(&[root], &AttentionMask::in_tree(&[0])));
        let picked = output.map(|output| first(target, root, &output.hidden, rule, &mut SeededRandom::new(0)));
        let taken = started.elapsed();
        target.roll_back();
        picked?.map(|_| taken).ok_or(DecodeError::NonFinite { slot: 0, position })
    }
}
