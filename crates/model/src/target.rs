//! The target: a decoder with one sequence's cache, seen by the decode loop.

use crate::cache::{CacheError, KvCache};
use crate::decoder::{Decoder, ModelError, Rows};
use crate::hidden_states::HiddenStates;
use crate::hooks::Hooks;
use crate::pass::{PassOutput, PassPlan};
use burn::tensor::{Int, Tensor};
use gorgon_core::{PooledVec, Token, tree::TokenTree};
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use std::sync::Arc;

pub use crate::hidden_states::{read, reads};

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

    /// Tokens that can be committed in all: the model's context, or less if that was asked for.
    fn context(&self) -> usize;

    /// Layers of the model.
    fn layers(&self) -> usize;

    /// Size of the vocabulary.
    fn vocab_size(&self) -> usize;

    /// Whether the model runs on the CPU, where a row's results do not depend on the rows beside it.
    fn is_host(&self) -> bool;

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
    /// When rows do not fit, the plan contradicts itself or a token is outside the vocabulary. Rows of a plan that
    /// begins at the first uncommitted row are rolled back then.
    fn verify(&mut self, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError>;

    /// The same for several sequences of one model, in one pass.
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
    /// Tokens that can be committed.
    context: usize,
}

impl DecoderTarget {
    /// A target for one sequence of at most `capacity` tokens, drafts in flight included.
    pub fn new(decoder: Arc<Decoder>, capacity: usize, hooks: Hooks) -> Self {
        let context = capacity.min(decoder.config().max_positions);
        let cache = decoder.new_cache(capacity);
        Self { decoder, cache, hooks, context }
    }

    /// A target for one sequence of at most `tokens` tokens and trees of at most `nodes` nodes. Trees may reach beyond
    /// the model's context: their tokens there are never kept.
    pub fn with_trees(decoder: Arc<Decoder>, tokens: usize, nodes: usize, hooks: Hooks) -> Self {
        let context = tokens.min(decoder.config().max_positions);
        let cache = KvCache::new(decoder.config(), decoder.compute(), context + nodes);
        Self { decoder, cache, hooks, context }
    }

    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Tokens that fit in all.
    pub fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        self.cache.truncate(0);
    }

    /// Runs `tokens` after the committed ones, in chunks, and commits them.
    ///
    /// # Shapes
    /// The output has one row per token.
    ///
    /// # Errors
    /// When there are no tokens, they do not fit, or one is outside the vocabulary; nothing is committed then.
    pub fn prefill(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        self.decoder.check_tokens(tokens)?;
        // Asked for as a whole first, so that a prompt that does not fit changes nothing.
        self.cache.reserve(tokens.len())?;
        self.cache.roll_back();
        let mut hidden = vec![];
        let mut hooks: Vec<Vec<HiddenStates>> = vec![vec![]; self.hooks.layers().len()];
        for chunk in tokens.chunks(PREFILL_CHUNK) {
            self.cache.reserve(chunk.len())?;
            let mask = AttentionMask::Causal { rows: chunk.len() };
            let output = self.decoder.forward(&PassPlan::of_tokens(chunk, &mask), &mut self.cache, &self.hooks)?;
            let rows: Vec<usize> = (0..chunk.len()).collect();
            self.cache.commit(&rows)?;
            hidden.push(output.hidden);
            hooks.iter_mut().zip(output.hooks).for_each(|(all, tap)| all.push(tap));
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

    /// One forward pass over a table of rows on a GPU; nothing is sent up or read. What it keeps is decided there too:
    /// [`Self::keep`] moves the rows, [`Self::set_len`] is told how many there are.
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
    pub fn keep(&self, path: &Tensor<1, Int>) {
        self.cache.keep(path);
    }

    /// Takes note of the number of committed tokens after steps whose rows were kept on a GPU.
    ///
    /// # Errors
    /// When there are more than fit.
    pub fn set_len(&mut self, committed: usize) -> Result<(), ModelError> {
        Ok(self.cache.set_len(committed)?)
    }
}

impl Target for DecoderTarget {
    fn len(&self) -> usize {
        self.cache.len()
    }

    fn context(&self) -> usize {
        self.context
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

    fn extend(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        if self.cache.len() + tokens.len() > self.context {
            let (committed, asked, capacity) = (self.cache.len(), tokens.len(), self.context);
            return Err(CacheError::Full { committed, asked, capacity }.into());
        }
        let output = self.verify(&PassPlan::of_tokens(tokens, &AttentionMask::Causal { rows: tokens.len() }))?;
        self.cache.commit(&(0..tokens.len()).collect::<PooledVec<_>>())?;
        Ok(output)
    }

    fn verify(&mut self, plan: &PassPlan<'_>) -> Result<PassOutput, ModelError> {
        open(&mut self.cache, plan)?;
        let output = self.decoder.forward(plan, &mut self.cache, &self.hooks);
        if output.is_err() && plan.mask.first() == 0 {
            self.cache.roll_back();
        }
        output
    }

    fn verify_together(group: &mut [(&mut Self, PassPlan<'_>)]) -> Result<PassOutput, ModelError> {
        let Some((first, _)) = group.first() else { return Err(ModelError::EmptyPrompt) };
        let (decoder, hooks) = (first.decoder.clone(), first.hooks.clone());
        let mut opened = Ok(());
        for (target, plan) in group.iter_mut() {
            opened = opened.and_then(|()| open(&mut target.cache, plan));
        }
        let output = opened.and_then(|()| {
            let mut batch: Vec<Rows<'_>> =
                group.iter_mut().map(|(target, plan)| Rows { plan: plan.clone(), cache: &mut target.cache }).collect();
            decoder.forward_batch(&mut batch, &hooks)
        });
        if output.is_err() {
            group.iter_mut().for_each(|(target, _)| target.roll_back());
        }
        output
    }

    fn commit(&mut self, path: &[usize]) -> Result<(), ModelError> {
        Ok(self.cache.commit(path)?)
    }

    fn roll_back(&mut self) {
        self.cache.roll_back();
    }

    fn truncate(&mut self, length: usize) {
        self.cache.truncate(length);
    }

    fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        self.decoder.scores(hidden)
    }

    fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.decoder.top_tokens(hidden, counts)
    }
}

/// Opens room for the rows of a plan. A pass that starts behind the first layer finds its rows open.
fn open(cache: &mut KvCache, plan: &PassPlan<'_>) -> Result<(), ModelError> {
    let resumes = plan.layers.as_ref().is_some_and(|layers| layers.start > 0);
    if resumes {
        return Ok(());
    }
    match plan.mask.first() {
        0 => cache.reserve(plan.mask.rows())?,
        _ => cache.extend_reservation(plan.mask.rows())?,
    }
    Ok(())
}
