//! EAGLE as a drafter, of any generation: the cache of committed pairs, and trees drafted level by level.

use super::feature_layer::FeatureLayer;
use super::model::EagleModel;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::feature_tokens::{FeatureTokenCache, ReadFeatureTokens};
use crate::levels::{Level, LevelNetwork, Levels, follow, tokens_of};
use crate::trace::Trace;
use crate::uncommitted::UncommittedRows;
use gorgon_core::tree::{SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Pairs that a new cache has room for.
const FIRST_ROWS: usize = 512;

/// Drafts with guessed features, level by level.
///
/// The cache holds pairs `(f_i, x_{i+1})` of committed tokens and the backbone's own features, up to the pair of the
/// root. A level's rows stay uncommitted while one tree is drafted, and are dropped after it: nothing guessed is ever
/// kept.
#[derive(Debug)]
pub struct EagleDrafter<M = EagleModel> {
    model: Arc<M>,
    feature_tokens: FeatureTokenCache,
}

impl<M: FeatureLayer> EagleDrafter<M> {
    /// A drafter with this layer.
    pub fn new(model: M) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with a layer that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<M>) -> Self {
        let feature_tokens = FeatureTokenCache::new(model.new_cache(FIRST_ROWS));
        Self { model, feature_tokens }
    }

    /// The layer.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Pairs in the cache: those of committed tokens, and that of the last root.
    pub fn cached(&self) -> usize {
        self.feature_tokens.cached()
    }

    /// Brings the cache up to the pair of `root`. `None` before the first feature.
    fn catch_up(&mut self, root: Token) -> Result<Option<HiddenStates>, ModelError> {
        self.feature_tokens.catch_up(root, &mut reading(&*self.model), &mut |_, _| {})
    }

    /// The network over one tree, whose root's pair gave `guessed`.
    fn network(&mut self, guessed: HiddenStates) -> TreeNetwork<'_, M> {
        let (level, rows) = (Level::root(), UncommittedRows::default());
        TreeNetwork { model: &*self.model, cache: &mut self.feature_tokens.cache, level, guessed, rows }
    }
}

/// A layer as a reader of pairs.
pub(super) fn reading<M: FeatureLayer + ?Sized>(model: &M) -> impl ReadFeatureTokens {
    |tokens: &[Token], states: &HiddenStates, visible: &AttentionMask, cache: &mut KvCache| {
        model.forward(tokens, states, visible, cache)
    }
}

impl<M: FeatureLayer> Drafter for EagleDrafter<M> {
    fn name(&self) -> &str {
        "eagle"
    }

    fn needs(&self) -> Needs {
        self.model.needs()
    }

    fn reset(&mut self) {
        self.feature_tokens.reset();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if !pass.tokens.is_empty() {
            self.feature_tokens.observe(pass.tokens, self.model.states(pass.output, pass.rows)?);
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if context.tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let Some(guessed) = self.catch_up(root)? else { return Ok(Proposal::root(root)) };
        let draft = context.tree.build(root, &mut Levels::most_likely(self.network(guessed), &context.tree));
        self.feature_tokens.cache.roll_back();
        Ok(Proposal::list(draft?))
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let Some(guessed) = self.catch_up(root)? else { return Ok(None) };
        let Some(input) = self.feature_tokens.state().map(|state| state.clone().into_values().into_vec()) else {
            return Ok(None);
        };
        let guesses = follow(&mut self.network(guessed), root, drafts);
        self.feature_tokens.cache.roll_back();
        Ok(Some(Trace { input, guesses: guesses? }))
    }
}

/// The layer over the nodes of one tree.
struct TreeNetwork<'a, M> {
    model: &'a M,
    cache: &'a mut KvCache,
    level: Level,
    /// The features guessed at the nodes of `level`.
    guessed: HiddenStates,
    /// Rows of the cache by node; the root's pair is committed.
    rows: UncommittedRows,
}

impl<M: FeatureLayer> LevelNetwork for TreeNetwork<'_, M> {
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError> {
        if nodes != [0] {
            let features = self.guessed.select(&self.level.parents(tree, nodes)?);
            let mask = self.rows.add(tree, nodes);
            self.guessed = self.model.forward(&tokens_of(tree, nodes), &features, &mask, self.cache)?;
            self.level = Level::of(tree, nodes);
        }
        Ok(Some(self.guessed.clone()))
    }

    fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.model.logits(states)
    }

    fn columns(&self) -> usize {
        self.model.columns().len()
    }

    fn token(&self, column: u32) -> Token {
        self.model.columns().token(column)
    }

    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.model.top_tokens(states, widths)
    }
}
