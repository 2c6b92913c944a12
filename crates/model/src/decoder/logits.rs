//! Logits of a decoder's hidden states.

use super::Decoder;
use crate::hidden_states::{HiddenStates, read};
use crate::linear::Linear;
use crate::lm_head::LmHead;
use burn::tensor::Tensor;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::{Isa, activation};
use std::borrow::Cow;

impl Decoder {
    /// Logits of hidden states, after any final soft cap, where the hidden states are.
    ///
    /// # Shapes
    /// `hidden [1, rows, d]` after the final norm, result `[1, rows, V]`.
    pub fn logits_tensor(&self, hidden: &Tensor<3>) -> Tensor<3> {
        self.capped(self.lm_head.forward_tensor(&self.scaled_tensor(hidden)))
    }

    /// Logits for drafts, otherwise as [`Self::logits_tensor`]. With 8-bit draft weights they come from an LM head in 8 bits,
    /// which is a quarter to half of the reading. A lossless rule verifies drafts, so no output depends on them.
    pub fn draft_logits_tensor(&self, hidden: &Tensor<3>) -> Tensor<3> {
        self.capped(self.draft_head.as_ref().unwrap_or(&self.lm_head).forward_tensor(&self.scaled_tensor(hidden)))
    }

    /// The `counts[i]` tokens with the greatest logits of each row, exactly, without computing all logits; see
    /// [`LmHead::top_tokens`].
    ///
    /// # Shapes
    /// `hidden` after the final norm, `counts [rows]`.
    pub fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.lm_head.top_tokens(&self.scaled(hidden), counts)
    }

    /// The LM head.
    pub fn lm_head(&self) -> &LmHead {
        &self.lm_head
    }

    /// Logits of hidden states as rows on the host: a step's one read from a device.
    ///
    /// # Shapes
    /// Result `[rows, V]`, row-major.
    pub fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        self.logits_by(&self.lm_head, hidden)
    }

    /// Logits for drafts ([`Self::draft_logits_tensor`]) as rows on the host.
    ///
    /// # Shapes
    /// `states` as the LM head reads them, result `[rows, V]`, row-major.
    pub fn draft_logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.logits_by(self.draft_head.as_ref().unwrap_or(&self.lm_head), states)
    }

    fn logits_by(&self, lm_head: &Linear, states: &HiddenStates) -> PooledVec<f32> {
        match lm_head.forward(&self.scaled(states)) {
            HiddenStates::Host { values: mut logits, .. } => {
                if let Some(cap) = self.config.final_soft_cap {
                    activation::soft_cap_rows(Isa::detect(), &mut logits, cap);
                }
                logits
            }
            HiddenStates::Device(logits) => read(self.capped(*logits)).into(),
        }
    }

    fn capped(&self, logits: Tensor<3>) -> Tensor<3> {
        match self.config.final_soft_cap {
            Some(cap) => activation::soft_cap(logits, cap),
            None => logits,
        }
    }

    fn scaled_tensor<'a>(&self, states: &'a Tensor<3>) -> Cow<'a, Tensor<3>> {
        match self.config.head_scale {
            1.0 => Cow::Borrowed(states),
            scale => Cow::Owned(states.clone() * scale),
        }
    }

    /// Hidden states as the LM head reads them.
    fn scaled<'a>(&self, states: &'a HiddenStates) -> Cow<'a, HiddenStates> {
        let scale = self.config.head_scale;
        if scale == 1.0 {
            return Cow::Borrowed(states);
        }
        Cow::Owned(match states {
            HiddenStates::Host { values, width } => {
                HiddenStates::Host { values: values.iter().map(|value| value * scale).collect(), width: *width }
            }
            HiddenStates::Device(states) => HiddenStates::on_device(states.as_ref().clone() * scale),
        })
    }
}
