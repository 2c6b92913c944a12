//! The target: a decoder with one sequence's cache, seen by the decode loop.

use crate::cache::KvCache;
use crate::decoder::{Decoder, ModelError, PassOutput};
use crate::hidden_states::HiddenStates;
use crate::hooks::Hooks;
use burn::tensor::{DType, Int, Tensor};
use gorgon_core::{PooledVec, Token, tree::TokenTree};
use gorgon_kernels::host;
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Prompt tokens per forward pass: bounds the memory of a long prompt.
const PREFILL_CHUNK: usize = 256;

/// A sequence being decoded.
#[derive(Debug)]
pub struct Target {
    decoder: Arc<Decoder>,
    cache: KvCache,
    hooks: Hooks,
}

impl Target {
    /// A target for one sequence of at most `capacity` tokens, drafts in flight included.
    pub fn new(decoder: Arc<Decoder>, capacity: usize, hooks: Hooks) -> Self {
        let cache = decoder.new_cache(capacity);
        Self { decoder, cache, hooks }
    }

    /// A target for one sequence of at most `tokens` tokens and trees of at most `nodes` nodes. Trees may reach beyond
    /// the model's context: their tokens there are never kept.
    pub fn with_trees(decoder: Arc<Decoder>, tokens: usize, nodes: usize, hooks: Hooks) -> Self {
        let capacity = tokens.min(decoder.config().max_positions) + nodes;
        let cache = KvCache::new(decoder.config(), decoder.compute(), capacity);
        Self { decoder, cache, hooks }
    }

    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// Committed tokens.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// True before the first commit.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Tokens that fit in all.
    pub fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// Drops committed tokens from `length` on.
    pub fn truncate(&mut self, length: usize) {
        self.cache.truncate(length);
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
            let visible = AttentionMask::Causal { rows: chunk.len() };
            let output = self.decoder.forward(chunk, &visible, &mut self.cache, &self.hooks)?;
            let rows: Vec<usize> = (0..chunk.len()).collect();
            self.cache.commit(&rows)?;
            hidden.push(output.hidden);
            hooks.iter_mut().zip(output.hooks).for_each(|(all, tap)| all.push(tap));
        }
        Ok(PassOutput {
            hidden: HiddenStates::join(&hidden),
            hooks: hooks.iter().map(|parts| HiddenStates::join(parts)).collect(),
        })
    }

    /// Runs one token after the committed ones and commits it: plain decoding. On the CPU nothing is allocated once
    /// `logits` has its size.
    ///
    /// # Shapes
    /// `logits` becomes `[V]`: those after the token.
    ///
    /// # Errors
    /// When the token does not fit or is outside the vocabulary; nothing is committed then.
    pub fn advance(&mut self, token: Token, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        self.advance_for(token, false, logits).map(|_| ())
    }

    /// The same where only the likeliest token after it is wanted: that token, or `None` where all logits had to be
    /// computed, which are in `logits` then.
    ///
    /// # Errors
    /// As [`Self::advance`].
    pub fn advance_greedily(&mut self, token: Token, logits: &mut Vec<f32>) -> Result<Option<Token>, ModelError> {
        self.advance_for(token, true, logits)
    }

    fn advance_for(
        &mut self,
        token: Token,
        greedily: bool,
        logits: &mut Vec<f32>,
    ) -> Result<Option<Token>, ModelError> {
        if !self.decoder.compute().is_host() {
            let output = self.verify(&TokenTree::root(token))?;
            logits.clear();
            logits.extend_from_slice(&self.logits(&output.hidden));
            return self.commit(&[0]).map(|()| None);
        }
        self.decoder.check_tokens(&[token])?;
        self.cache.reserve(1)?;
        let top_tokens = self.decoder.advance_on_host(token, &mut self.cache, greedily, logits);
        self.commit(&[0]).map(|()| top_tokens)
    }

    /// One forward pass over a tree whose root follows the committed tokens. The rows stay in flight until
    /// [`Self::commit`].
    ///
    /// # Shapes
    /// The output has one row per node.
    ///
    /// # Errors
    /// When the tree does not fit or a token is outside the vocabulary; nothing stays in flight then.
    pub fn verify(&mut self, tree: &TokenTree) -> Result<PassOutput, ModelError> {
        self.cache.reserve(tree.len())?;
        let visible = AttentionMask::in_tree(tree.parents());
        let output = self.decoder.forward(tree.tokens(), &visible, &mut self.cache, &self.hooks);
        if output.is_err() {
            self.cache.roll_back();
        }
        output
    }

    /// Keeps the rows of an accepted path (nodes from the root on) and drops the others.
    ///
    /// # Errors
    /// When no tree is in flight or the path is none of its.
    pub fn commit(&mut self, path: &[usize]) -> Result<(), ModelError> {
        Ok(self.cache.commit(path)?)
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

    /// The likeliest token after each row, if that can be told without all logits; see [`Decoder::top_tokens`].
    ///
    /// # Shapes
    /// Result `[rows]`.
    pub fn top_tokens(&self, hidden: &HiddenStates) -> Option<PooledVec<Token>> {
        let found = self.decoder.top_tokens(hidden, &PooledVec::of(1, hidden.rows()))?;
        Some(found.iter().map(|&(token, _)| token).collect())
    }

    /// The logits of hidden states as rows on the host: the step's one read from the device.
    ///
    /// # Shapes
    /// Result `[rows · V]`, row-major.
    pub fn logits(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        self.decoder.scores(hidden)
    }
}

/// Reads from devices other than the CPU so far.
static READS: AtomicU64 = AtomicU64::new(0);

/// How often [`read`] has read from a device other than the CPU in this process.
pub fn reads() -> u64 {
    READS.load(Ordering::Relaxed)
}

/// A tensor's values in `f32` on the host, row-major.
pub fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    if !host::is_host(&tensor.device()) {
        READS.fetch_add(1, Ordering::Relaxed);
    }
    let data = tensor.cast(DType::F32).into_data();
    data.try_into_vec().expect("the tensor was cast to f32")
}
