//! A draft model as a drafter.

use super::model::DraftModel;
use super::sampling::DraftSampling;
use super::window::StreamingWindow;
use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::levels::{LevelNetwork, Levels, tokens_of};
use crate::uncommitted::UncommittedRows;
use gorgon_core::tree::{SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::PREFILL_CHUNK;

/// Unread tokens that are read at once. Fewer are read with the next root, in the same pass.
const PATIENCE: usize = 32;

/// Drafts with a model of its own, level by level.
///
/// The cache holds emitted tokens only: committed ones, and the root of the last proposal, which is committed next.
/// Rows of drafts stay uncommitted while one tree is drafted and are dropped after it. Where the text leaves the draft
/// model's context or vocabulary, nothing is drafted.
#[derive(Debug)]
pub struct DraftModelDrafter {
    model: DraftModel,
    sampling: DraftSampling,
    cache: KvCache,
    /// Committed tokens that are not in the cache yet.
    unread: PooledVec<Token>,
    /// The root of the last proposal, which is the last token in the cache, and the state at it.
    rooted: Option<(Token, HiddenStates)>,
    /// Whether the text holds a token that the model does not have.
    lost: bool,
    /// Tokens that the cache keeps, if not all.
    window: Option<StreamingWindow>,
    /// Tokens that it has dropped.
    dropped: usize,
}

impl DraftModelDrafter {
    /// A drafter with this model.
    pub fn new(model: DraftModel, sampling: DraftSampling) -> Self {
        let cache = model.new_cache();
        let unread = PooledVec::new();
        Self { model, sampling, cache, unread, rooted: None, lost: false, window: None, dropped: 0 }
    }

    /// A drafter whose cache keeps the first tokens and the last ones.
    pub fn streaming(model: DraftModel, sampling: DraftSampling, window: StreamingWindow) -> Self {
        Self { window: Some(window), ..Self::new(model, sampling) }
    }

    /// The model.
    pub fn model(&self) -> &DraftModel {
        &self.model
    }

    /// Tokens in the cache.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Reads all unread tokens; the state after the last of them, if there were any.
    fn read(&mut self) -> Result<Option<HiddenStates>, ModelError> {
        let (decoder, mut last) = (self.model.decoder(), None);
        let most = self.window.map_or(PREFILL_CHUNK, |window| window.chunk());
        for chunk in std::mem::take(&mut self.unread).chunks(most) {
            if let Some(window) = self.window {
                let before = self.cache.len();
                self.cache.slide(window.sinks, window.excess(before, chunk.len())).map_err(ModelError::from)?;
                self.dropped += before - self.cache.len();
            }
            self.cache.reserve(chunk.len())?;
            let mask = AttentionMask::Causal { rows: chunk.len() };
            let output = decoder.forward(&PassPlan::of_tokens(chunk, &mask), &mut self.cache, &Hooks::none())?;
            self.cache.commit(&(0..chunk.len()).collect::<PooledVec<_>>())?;
            last = Some(output.hidden.narrow(chunk.len() - 1, 1));
        }
        Ok(last)
    }

    /// Reads the source of a target that is an encoder-decoder model, as the model is: each has an encoder of its own. A
    /// decoder-only model reads a source as text.
    fn read_source(&mut self, tokens: &[Token]) -> Result<(), DraftError> {
        let decoder = self.model.decoder();
        self.lost |= decoder.check_tokens(tokens).is_err() || tokens.len() > decoder.config().max_positions;
        if !self.lost {
            decoder.read_source(tokens, &mut self.cache)?;
        }
        Ok(())
    }

    /// Takes back the root of the last proposal, if another token was emitted.
    fn forget_root(&mut self) {
        if self.rooted.take().is_some() {
            self.cache.truncate(self.cache.len() - 1);
        }
    }

    /// Whether the model can read on after `more` tokens.
    fn has_room(&self, more: usize) -> bool {
        self.window.is_some()
            || self.cache.len() + self.unread.len() + more <= self.model.decoder().config().max_positions
    }

    /// The state at `root`, to which the cache is brought up. `None` where the model cannot follow.
    fn catch_up(&mut self, root: Token) -> Result<Option<HiddenStates>, ModelError> {
        match self.rooted.take() {
            Some((known, state)) if known == root => {
                self.rooted = Some((known, state.clone()));
                return Ok(Some(state));
            }
            rooted => {
                self.rooted = rooted;
                self.forget_root();
            }
        }
        let is_known = (root as usize) < self.model.decoder().config().vocab_size;
        if self.lost || !is_known || !self.has_room(1) {
            return Ok(None);
        }
        self.unread.push(root);
        let state = self.read()?;
        self.rooted = state.clone().map(|state| (root, state));
        Ok(state)
    }

    /// The model over one tree, whose root it has read.
    fn network(&mut self, state: HiddenStates) -> ModelOverTree<'_> {
        ModelOverTree { model: &self.model, cache: &mut self.cache, rows: UncommittedRows::default(), root: state }
    }
}

impl Drafter for DraftModelDrafter {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn reset(&mut self) {
        self.cache.truncate(0);
        self.unread.clear();
        self.rooted = None;
        self.lost = false;
        self.dropped = 0;
    }

    fn truncate(&mut self, length: usize) -> bool {
        let sinks = self.window.map_or(0, |window| window.sinks);
        if self.dropped > 0 && length < self.dropped + sinks {
            // Tokens in front of it are gone.
            self.reset();
            return false;
        }
        self.forget_root();
        self.cache.truncate(length - self.dropped);
        self.unread.truncate(length.saturating_sub(self.dropped + self.cache.len()));
        // Whether the tokens that are left are the model's is not known any more.
        !self.lost
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.is_source && self.model.decoder().has_encoder() {
            return self.read_source(pass.tokens);
        }
        let mut tokens = pass.tokens;
        match (self.rooted.take(), tokens.first()) {
            (Some((root, _)), Some(first)) if root == *first => tokens = &tokens[1..],
            (Some(_), _) => self.cache.truncate(self.cache.len() - 1),
            (None, _) => {}
        }
        self.unread.extend_from_slice(tokens);
        self.lost |= self.model.decoder().check_tokens(tokens).is_err();
        if self.unread.len() >= PATIENCE && !self.lost && self.has_room(0) {
            self.read()?;
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let DraftContext { tree, random, .. } = context;
        if tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let Some(state) = self.catch_up(root)? else { return Ok(Proposal::root(root)) };
        let sampling = self.sampling;
        let (scheme, children) = sampling.children_of(&*tree, &mut **random);
        let mut levels = Levels::new(self.network(state), &*tree, children, sampling.rows);
        let draft = tree.build(root, &mut levels).map(|draft| (levels.distributions(&draft), draft));
        self.cache.roll_back();
        let (rows, draft) = draft?;
        Ok(Proposal::drawn(draft, rows, scheme))
    }
}

/// The model over the nodes of one tree.
struct ModelOverTree<'a> {
    model: &'a DraftModel,
    cache: &'a mut KvCache,
    /// Rows of the cache by node; the root's is in the cache for good.
    rows: UncommittedRows,
    /// The state at the root.
    root: HiddenStates,
}

impl LevelNetwork for ModelOverTree<'_> {
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError> {
        if nodes == [0] {
            return Ok(Some(self.root.clone()));
        }
        let (mask, tokens) = (self.rows.add(tree, nodes), tokens_of(tree, nodes));
        self.cache.extend_reservation(nodes.len());
        let plan = PassPlan::of_tokens(&tokens, &mask);
        Ok(Some(self.model.decoder().forward(&plan, self.cache, &Hooks::none())?.hidden))
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
