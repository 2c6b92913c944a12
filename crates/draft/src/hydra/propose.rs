//! Hydra heads as a drafter.

use super::model::HydraModel;
use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::levels::{LevelNetwork, Levels, follow};
use crate::trace::Trace;
use gorgon_core::tree::{SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Drafts level by level: head `k` is asked about every node of depth `k - 1` with that node's own path.
///
/// The prefix layer's cache, if there is one, holds committed tokens only.
#[derive(Debug)]
pub struct HydraDrafter {
    model: Arc<HydraModel>,
    cache: Option<KvCache>,
    /// States of committed tokens that the prefix layer has not read; without one, of the last committed token.
    waiting: Vec<HiddenStates>,
    /// State that heads read.
    state: Option<HiddenStates>,
}

impl HydraDrafter {
    /// A drafter with these heads.
    pub fn new(model: HydraModel) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with heads that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<HydraModel>) -> Self {
        let cache = model.new_cache();
        Self { model, cache, waiting: vec![], state: None }
    }

    /// The heads.
    pub fn model(&self) -> &HydraModel {
        &self.model
    }

    /// Rows in the prefix layer's cache.
    pub fn cached(&self) -> usize {
        self.cache.as_ref().map_or(0, KvCache::len)
    }

    /// State that heads read at the last committed token; `None` before the first.
    fn catch_up(&mut self) -> Result<Option<HiddenStates>, ModelError> {
        if !self.waiting.is_empty() {
            let hidden = HiddenStates::concat(&self.waiting);
            self.waiting.clear();
            self.state = Some(self.model.state(&hidden, self.cache.as_mut())?);
        }
        Ok(self.state.clone())
    }
}

impl Drafter for HydraDrafter {
    fn name(&self) -> &str {
        "hydra"
    }

    fn reset(&mut self) {
        self.waiting.clear();
        self.state = None;
        if let Some(cache) = &mut self.cache {
            cache.truncate(0);
        }
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.rows.is_empty() {
            return Ok(());
        }
        match &self.cache {
            Some(_) => self.waiting.push(pass.output.hidden.select(pass.rows)),
            None => {
                self.waiting.clear();
                self.waiting.extend(pass.last_hidden());
            }
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if context.tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let Some(state) = self.catch_up()? else { return Ok(Proposal::root(root)) };
        let network = HeadPerLevel { model: &self.model, state, head: 0 };
        Ok(Proposal::list(context.tree.build(root, &mut Levels::most_likely(network, &context.tree))?))
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let Some(state) = self.catch_up()? else { return Ok(None) };
        let mut network = HeadPerLevel { model: &self.model, state: state.clone(), head: 0 };
        Ok(Some(Trace { input: state.into_values().into_vec(), guesses: follow(&mut network, root, drafts)? }))
    }
}

/// The heads over the nodes of one tree: head `k` reads nodes of depth `k - 1`.
struct HeadPerLevel<'a> {
    model: &'a HydraModel,
    state: HiddenStates,
    /// The head of the level that was read last.
    head: usize,
}

impl LevelNetwork for HeadPerLevel<'_> {
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError> {
        self.head = nodes.first().map_or(0, |&node| tree.depths()[node]);
        if self.head >= self.model.heads() {
            return Ok(None);
        }
        let mut paths = PooledVec::<Token>::new();
        nodes.iter().for_each(|&node| paths.extend(tree.path(node).iter().map(|&node| tree.token(node))));
        Ok(Some(self.model.states(&self.state, self.head, &paths)?))
    }

    fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.model.project(self.head, states)
    }

    fn columns(&self) -> usize {
        self.model.vocab_size()
    }

    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.model.top_tokens(self.head, states, widths)
    }
}
