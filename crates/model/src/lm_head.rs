//! LM heads: a linear layer of which the greatest outputs may be enough.

use crate::config::ModelConfig;
use crate::device::{Compute, Weights};
use crate::hidden_states::HiddenStates;
use crate::linear::{Linear, Weight};
use crate::prefilter_budget::Int8PrefilterBudget;
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::Isa;
use gorgon_kernels::few_row_matmul::Int8Prefilter;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Bytes of the int8 prefilter of an LM head without a bias, which is made when its top tokens are first requested and
/// the budget allows it ([`Compute::prefilter_budget`]); 0 where none is made ([`LmHead::has_prefilter`]).
pub fn prefilter_bytes(d_in: usize, d_out: usize, compute: &Compute) -> u64 {
    let made =
        compute.is_host() && compute.integers().weights == Weights::Stored && Int8Prefilter::helps_shape(d_in, d_out);
    if made { Int8Prefilter::bytes_for(d_in, d_out) as u64 } else { 0 }
}

/// Bytes of the int8 prefilter of a model's LM head, as [`prefilter_bytes`].
pub fn prefilter_bytes_of(model: &ModelConfig, compute: &Compute) -> u64 {
    if model.final_soft_cap.is_some() { 0 } else { prefilter_bytes(model.hidden_size, model.vocab_size, compute) }
}

/// A linear layer over a vocabulary.
#[derive(Clone, Debug)]
pub struct LmHead {
    linear: Linear,
    budget: Arc<Int8PrefilterBudget>,
    /// On the CPU a copy in 8 bits that finds the greatest outputs, exactly; made when it is first needed.
    prefilter: Arc<OnceLock<Option<Int8Prefilter>>>,
}

impl LmHead {
    /// An LM head with these weights, whose prefilter takes its memory from the budget of `compute`.
    pub fn new(linear: Linear, compute: &Compute) -> Self {
        Self { linear, budget: compute.prefilter_budget().clone(), prefilter: Arc::default() }
    }

    /// An LM head without a prefilter: all logits are computed always.
    pub(crate) fn unfiltered(linear: Linear, compute: &Compute) -> Self {
        Self { prefilter: Arc::new(OnceLock::from(None)), ..Self::new(linear, compute) }
    }

    /// The `counts[i]` tokens with the greatest logits of each row, with their logits, one row after the other. Greater
    /// logits come first, and of equal ones the lower token: the order of a sort of all logits. `None` where all have to
    /// be computed: where [`Self::has_prefilter`] is false, and for rows that the prefilter cannot decide (not finite,
    /// or too many logits close to the greatest).
    ///
    /// # Shapes
    /// `counts [rows]`.
    pub fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        let mut found = PooledVec::new();
        self.top_tokens_of(hidden.on_host()?, counts, &mut found).then_some(found)
    }

    /// The top tokens of rows on the CPU, in `found`; false where all logits have to be computed.
    ///
    /// # Shapes
    /// `hidden [rows, d]`, `counts [rows]`.
    pub fn top_tokens_of(&self, hidden: &[f32], counts: &[usize], found: &mut Vec<(Token, f32)>) -> bool {
        self.prefilter().is_some_and(|prefilter| prefilter.greatest(Isa::detect(), hidden, counts, found))
    }

    /// Whether there is a prefilter; it is made if there is none yet. There never is one elsewhere than on the CPU, on a
    /// processor without matmuls of bytes (AVX-512 VNNI), of weights in integers, with a bias or a soft cap, of few
    /// weights, and beyond the budget ([`Compute::prefilter_budget`]).
    pub fn has_prefilter(&self) -> bool {
        self.prefilter().is_some()
    }

    /// Bytes that are read where only top tokens are needed; the prefilter is made for it.
    pub fn bytes_for_top_tokens(&self) -> usize {
        self.prefilter().map_or_else(|| self.linear.bytes(), Int8Prefilter::bytes)
    }

    fn prefilter(&self) -> Option<&Int8Prefilter> {
        let Weight::Packed(weight) = self.linear.weight() else { return None };
        let made = || {
            let bytes = Int8Prefilter::bytes_for(weight.d_in(), weight.d_out()) as u64;
            if self.linear.bias().is_some() || !Int8Prefilter::helps(weight) || !self.budget.take(bytes) {
                return None;
            }
            // Without memory for it all logits are computed, as on processors that cannot use it.
            Int8Prefilter::of(weight).ok().flatten()
        };
        self.prefilter.get_or_init(made).as_ref()
    }
}

impl Deref for LmHead {
    type Target = Linear;

    fn deref(&self) -> &Linear {
        &self.linear
    }
}
