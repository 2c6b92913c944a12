//! The target: a decoder with one sequence's cache, seen by the decode loop.

mod borrowed;

use crate::cache::{CacheError, KvCache, RetrievedCache};
use crate::decoder::{Decoder, Rows};
use crate::error::ModelError;
use crate::hidden_states::HiddenStates;
use crate::hooks::Hooks;
use crate::pass::{PassOutput, PassPlan, PlanError};
use burn::tensor::{Int, Tensor};
use gorgon_core::{PooledVec, Token, tree::TokenTree};
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use std::sync::Arc;

pub use crate::hidden_states::read;

/// Prompt tokens per forward pass: bounds the memory of a long prompt.
pub const PREFILL_CHUNK: usize = 256;

/// A model whose text is decoded: it reads a sequence, verifies drafts after it and keeps an accepted path of them.
///
/// A sequence is the committed tokens. Rows of passes over drafts stay uncommitted until [`commit`](Self::commit) or
/// [`roll_back`](Self::roll_back).
pub trait Target: Send {
    /// Committed tokens.
    fn len(&self) -> usize;

    /// True before the first committed token.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens that can be committed in all: the model's context, or less if that was requested.
    fn context(&self) -> usize;

    /// Layers of the model.
    fn layers(&self) -> usize;

    /// Size of the vocabulary.
    fn vocab_size(&self) -> usize;

    /// Whether the model runs on the CPU, where a row's results do not depend on the rows beside it.
    fn is_host(&self) -> bool;

    /// Fails if tokens do not fit after the committed ones or one is outside the vocabulary, before anything is read.
    ///
    /// # Errors
    /// The offending token, or how many tokens there are and fit.
    fn check(&self, tokens: &[Token]) -> Result<(), ModelError>;

    /// Makes room for `rows` more rows at once, uncommitted ones included: a prompt, the new tokens and a tree. Nothing
    /// is copied until they are used up. A step that is recorded on a GPU needs its rows reserved first, because a
    /// cache that grows is a new one.
    fn reserve(&mut self, rows: usize);

    /// Reads tokens after the committed ones and commits them: one pass, so callers read long prompts in chunks of at
    /// most [`PREFILL_CHUNK`].
    ///
    /// # Shapes
    /// The output has one row per token.
    ///
    /// # Errors
    /// When there are no tokens, they do not fit, or one is outside the vocabulary; nothing is committed then.
    fn extend(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError>;

    /// Runs a pass whose rows stay uncommitted.
    ///
    /// # Shapes
    /// The output has one row per row of the plan.
    ///
    /// # Errors
    /// When the plan contradicts itself, the model or the uncommitted rows, or a token is outside the vocabulary. The
    /// uncommitted rows are then those before the call.
    fn verify(&mut self, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError>;

    /// Verifies several sequences of one model in one pass.
    ///
    /// # Shapes
    /// The output has the rows of all sequences, one sequence after the other.
    ///
    /// # Errors
    /// As of [`verify`](Self::verify); nothing stays uncommitted then.
    fn verify_together(group: &mut [(&mut Self, PassPlan<'_>)]) -> Result<PassOutput, ModelError>
    where
        Self: Sized;

    /// Commits the rows of an accepted path and drops the other uncommitted rows.
    ///
    /// # Errors
    /// When nothing is uncommitted, or the path is no increasing list of uncommitted rows.
    fn commit(&mut self, path: &[usize]) -> Result<(), ModelError>;

    /// Brings a part of the cache up to date with the committed tokens: all of it where nothing was retrieved yet, else
    /// the rows that were committed since.
    ///
    /// # Errors
    /// When the cache is not on the CPU.
    fn retrieve(&mut self, part: &mut RetrievedCache) -> Result<(), ModelError>;

    /// Runs a pass over a part of the cache instead of all of it. Its rows stay uncommitted there; the whole cache does
    /// not change.
    ///
    /// # Shapes
    /// The output has one row per row of the plan.
    ///
    /// # Errors
    /// As of [`verify`](Self::verify), or when nothing was retrieved.
    fn verify_retrieved(&mut self, part: &mut RetrievedCache, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError>;

    /// Drops the uncommitted rows.
    fn roll_back(&mut self);

    /// Drops committed tokens from `length` on.
    fn truncate(&mut self, length: usize);

    /// Logits of hidden states, on the host: a step's one read from a device.
    ///
    /// # Shapes
    /// Result `[rows · V]`, row-major.
    fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32>;

    /// The `counts[i]` tokens with the greatest logits of row `i`, greatest first, or `None` where all logits have to
    /// be computed for it.
    ///
    /// # Shapes
    /// `counts [rows]`.
    fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>>;
}

/// A decoder-only target: a decoder and the cache of one sequence.
#[derive(Debug)]
pub struct DecoderTarget {
    decoder: Arc<Decoder>,
    cache: KvCache,
    hooks: Hooks,
}

impl DecoderTarget {
    /// A target for one sequence of at most `context` tokens, and of no more than the model has positions. Uncommitted
    /// rows may reach beyond it. Memory grows with the sequence; see [`Target::reserve`].
    pub fn new(decoder: Arc<Decoder>, context: usize, hooks: Hooks) -> Self {
        let cache = decoder.new_cache(context);
        Self { decoder, cache, hooks }
    }

    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Rows that there is memory for; more is allocated when it is needed.
    pub fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        self.cache.truncate(0);
    }

    /// Reads tokens after the committed ones in chunks of [`PREFILL_CHUNK`], commits them, and joins the outputs. Long
    /// prompts of which the last rows are enough are read with [`Target::extend`], chunk by chunk.
    ///
    /// # Shapes
    /// The output has one row per token.
    ///
    /// # Errors
    /// When there are no tokens, they do not fit, or one is outside the vocabulary; nothing is committed then.
    pub fn prefill(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        // All of them are checked first, so that a prompt that does not fit changes nothing.
        self.decoder.check_tokens(tokens)?;
        self.cache.check_context(tokens.len())?;
        if let Some(open) = self.cache.reserved() {
            return Err(CacheError::Reserved(open).into());
        }
        self.reserve(tokens.len());
        let mut hidden = vec![];
        let mut hooks: Vec<Vec<HiddenStates>> = vec![vec![]; self.hooks.layers().len()];
        for chunk in tokens.chunks(PREFILL_CHUNK) {
            let output = self.extend(chunk)?;
            hidden.push(output.hidden);
            hooks.iter_mut().zip(output.hooks).for_each(|(all, states)| all.push(states));
        }
        if hidden.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        Ok(PassOutput {
            hidden: HiddenStates::concat(&hidden),
            hooks: hooks.iter().map(|parts| HiddenStates::concat(parts)).collect(),
            stream: None,
        })
    }

    /// One forward pass over a tree whose root follows the committed tokens. The rows stay uncommitted.
    ///
    /// # Shapes
    /// The output has one row per node.
    ///
    /// # Errors
    /// As of [`Target::verify`].
    pub fn verify_tree(&mut self, tree: &TokenTree) -> Result<PassOutput, ModelError> {
        let mask = AttentionMask::in_tree(tree.parents());
        self.verify(&PassPlan::of_tokens(tree.tokens(), &mask))
    }

    /// One forward pass over a table of rows on a GPU; nothing is uploaded or read. The accepted path is decided there
    /// too: [`Self::compact`] moves its rows, and [`Self::set_len`] sets the number of tokens.
    ///
    /// # Shapes
    /// The output has a row for each of the table's, padding included.
    ///
    /// # Errors
    /// When the sequence is on the CPU.
    pub fn verify_table(&mut self, pass_table: &PassTable) -> Result<PassOutput, ModelError> {
        self.decoder.forward_table(pass_table, &mut self.cache, &self.hooks)
    }

    /// Moves the rows of an accepted path together, in every layer.
    ///
    /// # Shapes
    /// `path` as [`gorgon_kernels::cache_rows::gather`] takes it.
    pub fn compact(&self, path: &Tensor<1, Int>) {
        self.cache.compact(path);
    }

    /// Sets the number of committed tokens after steps whose rows were committed on a GPU.
    ///
    /// # Errors
    /// When there are more than fit.
    pub fn set_len(&mut self, committed: usize) -> Result<(), ModelError> {
        Ok(self.cache.set_len(committed)?)
    }
}

impl Target for DecoderTarget {
    fn reserve(&mut self, rows: usize) {
        self.cache.grow(rows);
    }

    fn len(&self) -> usize {
        self.cache.len()
    }

    fn context(&self) -> usize {
        self.cache.context()
    }

    fn layers(&self) -> usize {
        self.decoder.config().layers
    }

    fn vocab_size(&self) -> usize {
        self.decoder.config().vocab_size
    }

    fn is_host(&self) -> bool {
        self.decoder.compute().is_host()
    }

    fn check(&self, tokens: &[Token]) -> Result<(), ModelError> {
        self.decoder.check_tokens(tokens)?;
        Ok(self.cache.check_context(tokens.len())?)
    }

    fn extend(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        self.check(tokens)?;
        let output = self.verify(&PassPlan::of_tokens(tokens, &AttentionMask::Causal { rows: tokens.len() }))?;
        self.cache.commit(&(0..tokens.len()).collect::<PooledVec<_>>())?;
        Ok(output)
    }

    fn verify(&mut self, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        let before = self.cache.reserved();
        let output =
            open(&mut self.cache, plan).and_then(|()| self.decoder.forward(plan, &mut self.cache, &self.hooks));
        if output.is_err() {
            self.cache.restore(before);
        }
        output
    }

    fn verify_together(group: &mut [(&mut Self, PassPlan<'_>)]) -> Result<PassOutput, ModelError> {
        let (decoder, hooks) = match group {
            [] => return Err(ModelError::EmptyPrompt),
            [(target, plan)] => {
                let output = target.verify(plan);
                if output.is_err() {
                    target.roll_back();
                }
                return output;
            }
            [(first, _), ..] => (first.decoder.clone(), first.hooks.clone()),
        };
        let alike =
            |(target, _): &(&mut Self, PassPlan<'_>)| Arc::ptr_eq(&target.decoder, &decoder) && target.hooks == hooks;
        let output = match group.iter().position(|member| !alike(member)) {
            Some(other) => Err(PlanError::Group(other).into()),
            None => group.iter_mut().try_for_each(|(target, plan)| open(&mut target.cache, plan)),
        };
        let output = output.and_then(|()| {
            let rows = group.iter_mut().map(|(target, plan)| Rows { plan: plan.clone(), cache: &mut target.cache });
            decoder.forward_batch(&mut rows.collect::<Vec<_>>(), &hooks)
        });
        if output.is_err() {
            group.iter_mut().for_each(|(target, _)| target.roll_back());
        }
        output
    }

    fn commit(&mut self, path: &[usize]) -> Result<(), ModelError> {
        Ok(self.cache.commit(path)?)
    }

    fn retrieve(&mut self, part: &mut RetrievedCache) -> Result<(), ModelError> {
        Ok(part.update(&self.cache, |rows| self.decoder.new_cache(rows))?)
    }

    fn verify_retrieved(&mut self, part: &mut RetrievedCache, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        let (behind, limit) = (part.behind(&self.cache), self.decoder.config().max_positions);
        let depth = |row: usize| plan.positions.map_or_else(|| plan.mask.count(row) - 1, |positions| positions[row]);
        // Rows beyond the last position are never committed.
        let positions: PooledVec<usize> = (0..plan.mask.rows()).map(|row| (behind + depth(row)).min(limit)).collect();
        let cache = part.cache()?;
        let before = cache.reserved();
        let plan = PassPlan { positions: Some(&positions), ..plan.clone() };
        let output = open(cache, &plan).and_then(|()| self.decoder.forward(&plan, cache, &Hooks::none()));
        if output.is_err() {
            cache.restore(before);
        }
        output
    }

    fn roll_back(&mut self) {
        self.cache.roll_back();
    }

    fn truncate(&mut self, length: usize) {
        self.cache.truncate(length);
    }

    fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        self.decoder.logits(hidden)
    }

    fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.decoder.top_tokens(hidden, counts)
    }
}

/// Opens room for the rows of a plan. A pass that starts after the first layer finds its rows open.
fn open(cache: &mut KvCache, plan: &PassPlan<'_>) -> Result<(), ModelError> {
    let resumes = plan.layers.as_ref().is_some_and(|layers| layers.start > 0);
    if resumes {
        return Ok(());
    }
    match plan.mask.first() {
        0 => cache.reserve(plan.mask.rows())?,
        _ => cache.extend_reservation(plan.mask.rows()),
    }
    Ok(())
}
