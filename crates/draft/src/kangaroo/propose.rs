//! Kangaroo as a drafter.

use super::model::KangarooModel;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::levels::{LevelNetwork, Levels};
use crate::own_layers::OwnLayers;
use crate::stop_after::StopAfter;
use gorgon_core::tree::{SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_model::cache::KvCache;
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Drafts with the target's first layers and an adapter.
#[derive(Debug)]
pub struct KangarooDrafter {
    model: Arc<KangarooModel>,
    /// The adapter's keys and values of committed tokens.
    cache: KvCache,
}

impl KangarooDrafter {
    /// A drafter with this adapter.
    pub fn new(model: KangarooModel) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with an adapter that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<KangarooModel>) -> Self {
        let cache = model.new_cache();
        Self { model, cache }
    }

    /// The adapter.
    pub fn model(&self) -> &KangarooModel {
        &self.model
    }

    /// Committed tokens that the adapter has read.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }
}

impl Drafter for KangarooDrafter {
    fn name(&self) -> &str {
        "kangaroo"
    }

    fn needs(&self) -> Needs {
        Needs { hooks: self.model.hooks(), lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.cache.truncate(0);
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.cache.truncate(length);
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.tokens.is_empty() {
            return Ok(());
        }
        let Some(exits) = pass.output.hooks.first() else {
            return Err(DraftError::Hooks { wanted: 1, found: pass.output.hooks.len() });
        };
        Ok(self.model.commit(&exits.select(pass.rows), &mut self.cache)?)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let Some(target) = context.target.as_deref_mut() else {
            return Err(DraftError::NotLent { drafter: self.name().into(), place: "this way of decoding" });
        };
        if context.tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let layers = OwnLayers::first(target, self.model.exit_layer());
        let network = Adapted { layers, model: &self.model, cache: &mut self.cache };
        let mut source = StopAfter::new(Levels::with_probabilities(network), self.model.stop());
        let draft = context.tree.build(root, &mut source);
        let layers = source.into_levels().into_network().layers;
        let resumed = draft.map_err(DraftError::from).and_then(|draft| Ok((layers.resumed(&draft)?, draft)));
        self.cache.roll_back();
        let (resume, draft) = resumed?;
        Ok(Proposal { resume, ..Proposal::list(draft) })
    }
}

/// The target's first layers with the adapter on them, over one tree. Its nodes are uncommitted rows of both caches, in
/// their order.
struct Adapted<'a> {
    layers: OwnLayers<'a>,
    model: &'a KangarooModel,
    cache: &'a mut KvCache,
}

impl LevelNetwork for Adapted<'_> {
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError> {
        // All nodes of the level, expanded or not, so that rows keep the order of the nodes.
        let (first, mask) = self.layers.next(tree);
        let Some(exits) = self.layers.read_stream(tree)? else { return Err("the exit is above the last layer".into()) };
        let states = self.model.forward(&exits, &mask, self.cache)?;
        let rows: Option<PooledVec<usize>> = nodes.iter().map(|&node| node.checked_sub(first)).collect();
        Ok(Some(states.select(&rows.ok_or("a tree is drafted level by level")?)))
    }

    fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.model.logits(states)
    }

    fn columns(&self) -> usize {
        self.model.vocab_size()
    }

    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.model.top_tokens(states, widths)
    }
}
