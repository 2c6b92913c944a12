//! LM heads: a linear layer whose greatest outputs may be all that is wanted.

use crate::config::ModelConfig;
use crate::device::{Compute, Int8};
use crate::hidden_states::HiddenStates;
use crate::linear::{Linear, Weight};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::Isa;
use gorgon_kernels::few_row_matmul::Int8Prefilter;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that copies may still take in this process.
static ROOM: AtomicU64 = AtomicU64::new(u64::MAX);

/// Says how many bytes copies of LM heads may take from now on. Where there is no room for one, all logits are
/// computed.
pub fn allow_copies(bytes: u64) {
    ROOM.store(bytes, Ordering::Relaxed);
}

/// Bytes of the copy that is made of an LM head without a bias, where likeliest tokens are asked for and there is room
/// ([`allow_copies`]); 0 where none is made ([`LmHead::has_copy`]).
pub fn copy_bytes(d_in: usize, d_out: usize, compute: &Compute) -> u64 {
    let made = compute.is_host() && compute.int8() != Int8::All && Int8Prefilter::helps_shape(d_in, d_out);
    if made { Int8Prefilter::bytes_for(d_in, d_out) as u64 } else { 0 }
}

/// The same of a model's LM head.
pub fn copy_bytes_of(model: &ModelConfig, compute: &Compute) -> u64 {
    if model.final_soft_cap.is_some() { 0 } else { copy_bytes(model.hidden_size, model.vocab_size, compute) }
}

/// A linear layer over a vocabulary.
#[derive(Clone, Debug)]
pub struct LmHead {
    linear: Linear,
    /// On the CPU a copy in 8 bits that finds the greatest outputs, exactly; made when it is first asked for.
    prefilter: Arc<OnceLock<Option<Int8Prefilter>>>,
}

impl LmHead {
    /// An LM head with these weights.
    pub fn new(linear: Linear) -> Self {
        Self { linear, prefilter: Arc::default() }
    }

    /// One whose outputs are computed as a whole, whatever is wanted of them.
    pub(crate) fn whole(linear: Linear) -> Self {
        Self { linear, prefilter: Arc::new(OnceLock::from(None)) }
    }

    /// The `counts[i]` likeliest tokens of each row with their logits, likeliest first, the lower token first on ties,
    /// one row after the other: what looking at all logits would say. `None` where all have to be computed: where
    /// [`Self::has_copy`] is false, and for rows that the copy cannot tell of (not finite, or too many logits close to
    /// the greatest).
    ///
    /// # Shapes
    /// `counts [rows]`.
    pub fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        let mut found = PooledVec::new();
        self.top_tokens_of(hidden.on_host()?, counts, &mut found).then_some(found)
    }

    /// The same of rows on the CPU, in `found`; false where all logits have to be computed.
    ///
    /// # Shapes
    /// `hidden [rows, d]`, `counts [rows]`.
    pub fn top_tokens_of(&self, hidden: &[f32], counts: &[usize], found: &mut Vec<(Token, f32)>) -> bool {
        self.prefilter().is_some_and(|prefilter| prefilter.greatest(Isa::detect(), hidden, counts, found))
    }

    /// Whether there is a copy that finds likeliest tokens; it is made if there is none yet. There never is one
    /// elsewhere than on the CPU, on a processor without products of bytes (AVX-512 VNNI), of weights in 8 bits, with a
    /// bias or a soft cap, of few weights, and where there is no room for it ([`allow_copies`]).
    pub fn has_copy(&self) -> bool {
        self.prefilter().is_some()
    }

    /// Bytes that are read where only the likeliest tokens are wanted; the copy is made for it.
    pub fn bytes_for_top_tokens(&self) -> usize {
        self.prefilter().map_or_else(|| self.linear.bytes(), Int8Prefilter::bytes)
    }

    fn prefilter(&self) -> Option<&Int8Prefilter> {
        let Weight::Packed(weight) = self.linear.weight() else { return None };
        let copied = || {
            let bytes = Int8Prefilter::bytes_for(weight.d_in(), weight.d_out()) as u64;
            let left = |room: u64| if room == u64::MAX { Some(room) } else { room.checked_sub(bytes) };
            if self.linear.has_bias() || !Int8Prefilter::helps(weight) {
                return None;
            }
            // Without memory for it all logits are computed, as on processors that cannot use it.
            ROOM.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).ok()?;
            Int8Prefilter::of(weight).ok().flatten()
        };
        self.prefilter.get_or_init(copied).as_ref()
    }
}

impl Deref for LmHead {
    type Target = Linear;

    fn deref(&self) -> &Linear {
        &self.linear
    }
}
