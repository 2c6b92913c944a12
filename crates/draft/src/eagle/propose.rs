//! EAGLE as a drafter, of any generation: the cache of committed pairs, and trees drafted level by level.

use super::model::EagleModel;
use crate::candidates;
use crate::drafter::{Committed, DraftError, Drafter, Needs, Proposal};
use crate::feature_tokens::{FeatureTokenCache, ReadFeatureTokens};
use crate::trace::{Guessed, Network, Trace, follow};
use crate::uncommitted::UncommittedRows;
use gorgon_core::accept::SamplingScheme;
use gorgon_core::tree::{CandidateRows, CandidateSource, SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::{ModelError, PassOutput};
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Pairs that a new cache has room for.
const ROOM: usize = 512;

/// A network that reads pairs of a state and the token after it, and guesses the next state: EAGLE-1's layer or
/// EAGLE-3's.
pub trait FeatureLayer: Send + Sync {
    /// What it wants from the target's passes.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The states of some rows of a target's pass, as pairs are made of them.
    ///
    /// # Errors
    /// When the pass did not hand out what [`Self::needs`] names.
    fn states(&self, output: &PassOutput, rows: &[usize]) -> Result<HiddenStates, DraftError>;

    /// An empty cache with room for `capacity` pairs; it is given more as it needs it.
    fn new_cache(&self, capacity: usize) -> KvCache;

    /// The states guessed from some pairs, whose keys and values stay in flight in `cache`.
    ///
    /// # Shapes
    /// One of `tokens` for each of `states`; result the same.
    ///
    /// # Errors
    /// When a token is outside the vocabulary or rows are in flight that `visible` does not count.
    fn forward(
        &self,
        tokens: &[Token],
        states: &HiddenStates,
        visible: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, ModelError>;

    /// Logits over the tokens that can be drafted after some guessed states.
    ///
    /// # Shapes
    /// Result `[rows · D]`, row-major.
    fn logits(&self, states: &HiddenStates) -> PooledVec<f32>;

    /// The `widths[i]` likeliest tokens after guessed state `i`, likeliest first, with their probabilities.
    ///
    /// # Shapes
    /// `widths [rows]`.
    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> CandidateRows;

    /// The same without probabilities, row by row, if that can be told without all logits.
    fn ranked(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>>;
}

/// Drafts with guessed features, level by level.
///
/// The cache holds pairs `(f_i, x_{i+1})` of committed tokens and the backbone's own features, up to the pair of the
/// root. A level's rows stay in flight while one tree is drafted, and are dropped after it: nothing guessed is ever
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
        let feature_tokens = FeatureTokenCache::new(model.new_cache(ROOM));
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

    fn observe(&mut self, committed: Committed<'_>) -> Result<(), DraftError> {
        if !committed.tokens.is_empty() {
            self.feature_tokens.observe(committed.tokens, self.model.states(committed.output, committed.rows)?);
        }
        Ok(())
    }

    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        if builder.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let Some(guessed) = self.catch_up(root)? else { return Ok(Proposal::root(root)) };
        let level = Level { nodes: PooledVec::of(0, 1), guessed };
        let (cache, ranked) = (&mut self.feature_tokens.cache, candidates::by_rank(builder));
        let mut levels = Levels { model: &*self.model, cache, level, rows: UncommittedRows::default(), ranked };
        let draft = builder.build(root, &mut levels);
        self.feature_tokens.cache.roll_back();
        // Children are the likeliest tokens, not draws: rules treat them as a list.
        Ok(Proposal { draft: draft?, rows: None, law: SamplingScheme::Deterministic })
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let Some(guessed) = self.catch_up(root)? else { return Ok(None) };
        let Some(input) = self.feature_tokens.state().map(|state| state.clone().into_values().into_vec()) else {
            return Ok(None);
        };
        let level = Level { nodes: PooledVec::of(0, 1), guessed };
        let cache = &mut self.feature_tokens.cache;
        let mut levels = Levels { model: &*self.model, cache, level, rows: UncommittedRows::default(), ranked: false };
        let guesses = follow(&mut levels, root, drafts);
        self.feature_tokens.cache.roll_back();
        Ok(Some(Trace { input, guesses: guesses? }))
    }
}

/// The nodes that were expanded last, with the features guessed at them.
struct Level {
    nodes: PooledVec<usize>,
    /// One for each.
    guessed: HiddenStates,
}

/// Expands a tree level by level.
struct Levels<'a, M> {
    model: &'a M,
    cache: &'a mut KvCache,
    level: Level,
    /// Rows in flight; the root's pair is committed.
    rows: UncommittedRows,
    /// Whether only the order of candidates is asked for.
    ranked: bool,
}

impl<M: FeatureLayer> Levels<'_, M> {
    /// Guesses the features at `nodes`, children of nodes of the last level.
    fn descend(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<(), SourceError> {
        let parent = |&node: &usize| self.level.nodes.iter().position(|&known| known == tree.parents()[node]);
        let parents: Option<PooledVec<usize>> = nodes.iter().map(parent).collect();
        let parents = parents.ok_or("a tree is drafted level by level")?;
        let visible = self.rows.add(tree, nodes);
        let tokens: PooledVec<Token> = nodes.iter().map(|&node| tree.token(node)).collect();
        let features = self.level.guessed.select(&parents);
        let guessed = self.model.forward(&tokens, &features, &visible, self.cache)?;
        self.level = Level { nodes: nodes.iter().copied().collect(), guessed };
        Ok(())
    }
}

impl<M: FeatureLayer> Network for Levels<'_, M> {
    fn guess(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<Guessed>, SourceError> {
        if nodes != [0] {
            self.descend(tree, nodes)?;
        }
        let states = self.level.guessed.clone();
        let logits = self.model.logits(&states);
        Ok(Some(Guessed { states, logits }))
    }
}

impl<M: FeatureLayer> CandidateSource for Levels<'_, M> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        if nodes != [0] {
            self.descend(tree, nodes)?;
        }
        let ranked = if self.ranked { self.model.ranked(&self.level.guessed, widths) } else { None };
        Ok(match ranked {
            Some(found) => candidates::ranked(&found, widths),
            None => self.model.top_tokens(&self.level.guessed, widths),
        })
    }
}
