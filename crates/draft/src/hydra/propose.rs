//! Hydra heads as a drafter.

use super::model::HydraModel;
use crate::candidates;
use crate::drafter::{Committed, DraftError, Drafter, Proposal};
use crate::trace::{Guessed, Network, Trace, follow};
use gorgon_core::accept::SamplingScheme;
use gorgon_core::tree::{CandidateRows, CandidateSource, SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::top_rows::top_rows;
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
    /// What heads read.
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

    /// What heads read at the last committed token; `None` before the first.
    fn catch_up(&mut self) -> Result<Option<HiddenStates>, ModelError> {
        if !self.waiting.is_empty() {
            let hidden = HiddenStates::join(&self.waiting);
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

    fn observe(&mut self, committed: Committed<'_>) -> Result<(), DraftError> {
        if committed.rows.is_empty() {
            return Ok(());
        }
        match &self.cache {
            Some(_) => self.waiting.push(committed.output.hidden.select(committed.rows)),
            None => {
                self.waiting.clear();
                self.waiting.extend(committed.last_hidden());
            }
        }
        Ok(())
    }

    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        if builder.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let Some(state) = self.catch_up()? else { return Ok(Proposal::root(root)) };
        let draft =
            builder.build(root, &mut Levels { model: &self.model, state, ranked: candidates::by_rank(builder) })?;
        // Children are the heads' likeliest tokens, not draws: rules treat them as a list.
        Ok(Proposal { draft, rows: None, law: SamplingScheme::Deterministic })
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let Some(state) = self.catch_up()? else { return Ok(None) };
        let mut levels = Levels { model: &self.model, state: state.clone(), ranked: false };
        Ok(Some(Trace { input: state.into_values().into_vec(), guesses: follow(&mut levels, root, drafts)? }))
    }
}

/// Asks a head per level.
struct Levels<'a> {
    model: &'a HydraModel,
    state: HiddenStates,
    /// Whether only the order of candidates is asked for.
    ranked: bool,
}

impl Levels<'_> {
    /// What the LM head of the nodes' head reads, and which head that is.
    fn states(&self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<(usize, HiddenStates)>, SourceError> {
        let head = nodes.first().map_or(0, |&node| tree.depths()[node]);
        if head >= self.model.heads() {
            return Ok(None);
        }
        let mut paths = PooledVec::<Token>::new();
        nodes.iter().for_each(|&node| paths.extend(tree.path(node).iter().map(|&node| tree.token(node))));
        Ok(Some((head, self.model.states(&self.state, head, &paths)?)))
    }
}

impl Network for Levels<'_> {
    fn guess(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<Guessed>, SourceError> {
        let Some((head, states)) = self.states(tree, nodes)? else { return Ok(None) };
        let logits = self.model.project(head, &states);
        Ok(Some(Guessed { states, logits }))
    }
}

impl CandidateSource for Levels<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let Some((head, states)) = self.states(tree, nodes)? else { return Ok(nodes.iter().map(|_| []).collect()) };
        let ranked = if self.ranked { self.model.top_tokens(head, &states, widths) } else { None };
        Ok(match ranked {
            Some(found) => candidates::ranked(&found, widths),
            None => {
                let rows = top_rows(&self.model.project(head, &states), self.model.vocab_size(), widths);
                candidates::likely(&rows, |token| token)
            }
        })
    }
}
