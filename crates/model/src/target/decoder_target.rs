//! A decoder with one sequence's cache, as a target.

use super::{PREFILL_CHUNK, Target};
use crate::cache::{CacheError, KvCache, RetrievedCache};
use crate::decoder::{Decoder, Rows};
use crate::error::ModelError;
use crate::hidden_states::HiddenStates;
use crate::hooks::Hooks;
use crate::pass::{PassOutput, PassPlan, PlanError};
use crate::source::EncodedSource;
use burn::tensor::{Int, Tensor};
use gorgon_core::{PooledVec, Token, tree::TokenTree};
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use smallvec::smallvec;
use std::sync::Arc;

/// A decoder and the cache of one sequence.
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

    /// As [`Target::fork`], of this type.
    #[must_use]
    pub fn copied(&self, length: usize) -> Self {
        Self { decoder: self.decoder.clone(), cache: self.cache.copied(length), hooks: Hooks::none() }
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        self.cache.truncate(0);
    }

    /// Reads tokens after the committed ones in chunks of [`PREFILL_CHUNK`], commits them, and joins the outputs. Long
    /// prompts of which the last rows are enough are read with [`Target::extend`], chunk by chunk. Of a model with an
    /// encoder the tokens are a whole text, of which all but the last one are the source.
    ///
    /// # Shapes
    /// The output has one row per token; of a model with an encoder, per token behind the source.
    ///
    /// # Errors
    /// When there are no tokens, they do not fit, or one is outside the vocabulary; nothing is committed then.
    pub fn prefill(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        self.prefill_behind(tokens.len().saturating_sub(1), tokens)
    }

    /// As [`Self::prefill`], where the first `source` tokens are the source if the model has an encoder.
    ///
    /// # Shapes
    /// As of [`Self::prefill`].
    ///
    /// # Errors
    /// As of [`Self::prefill`].
    pub fn prefill_behind(&mut self, source: usize, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        let source = if self.has_encoder() { source.min(tokens.len()) } else { 0 };
        // All of them are checked first, so that a prompt that does not fit changes nothing.
        self.decoder.check_tokens(tokens)?;
        if self.has_encoder() {
            self.cache.truncate(0);
        }
        self.cache.check_context(tokens.len())?;
        if let Some(open) = self.cache.reserved() {
            return Err(CacheError::Reserved(open).into());
        }
        let (source, tokens) = tokens.split_at(source);
        if self.has_encoder() {
            self.read_source(source)?;
        }
        self.prefill_text(tokens)
    }

    fn prefill_text(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
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

    /// The source that was read, of a model with an encoder.
    pub fn source(&self) -> Option<&Arc<EncodedSource>> {
        self.cache.source()
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

    fn has_encoder(&self) -> bool {
        self.decoder.has_encoder()
    }

    fn read_source(&mut self, tokens: &[Token]) -> Result<PassOutput, ModelError> {
        let source = self.decoder.read_source(tokens, &mut self.cache)?;
        Ok(PassOutput { hidden: source.states().clone(), hooks: smallvec![], stream: None })
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

    fn copy_rows(&mut self, other: &Self, length: usize) -> Result<bool, ModelError> {
        Ok(Arc::ptr_eq(&self.decoder, &other.decoder) && self.cache.copy_rows(&other.cache, length)?)
    }

    fn fork(&self, length: usize) -> Box<dyn Target> {
        Box::new(self.copied(length))
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
