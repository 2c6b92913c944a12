//! A draft model as a drafter.

use super::model::DraftModel;
use super::sampling::DraftSampling;
use crate::candidates;
use crate::drafter::{Committed, DraftError, Drafter, Proposal};
use crate::uncommitted::UncommittedRows;
use gorgon_core::accept::{RandomSource, SamplingScheme};
use gorgon_core::dist::Row;
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, DraftTree, SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::top_rows::top_rows;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;

/// Tokens per forward pass: bounds the memory of a long prompt.
const CHUNK: usize = 256;
/// Tokens that a new cache has room for.
const ROOM: usize = 512;
/// Unread tokens that are read at once. Fewer are read with the next root, in the same pass.
const PATIENCE: usize = 32;

/// Drafts with a model of its own, level by level.
///
/// The cache holds emitted tokens only: committed ones, and the root of the last proposal, which is committed next.
/// Rows of drafts stay in flight while one tree is drafted and are dropped after it. Where the text leaves the draft
/// model's context or vocabulary, nothing is drafted.
#[derive(Debug)]
pub struct DraftModelDrafter {
    model: DraftModel,
    law: DraftSampling,
    cache: KvCache,
    /// Committed tokens that are not in the cache yet.
    unread: PooledVec<Token>,
    /// The root of the last proposal, which is the last token in the cache, and the state at it.
    rooted: Option<(Token, HiddenStates)>,
    /// Whether the text holds a token that the model does not have.
    lost: bool,
}

impl DraftModelDrafter {
    /// A drafter with this model.
    pub fn new(model: DraftModel, law: DraftSampling) -> Self {
        let cache = model.new_cache(ROOM.min(model.decoder().config().max_positions));
        Self { model, law, cache, unread: PooledVec::new(), rooted: None, lost: false }
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
        for chunk in std::mem::take(&mut self.unread).chunks(CHUNK) {
            self.cache.grow(chunk.len(), decoder.config());
            self.cache.reserve(chunk.len())?;
            let visible = AttentionMask::Causal { rows: chunk.len() };
            let output = decoder.forward(chunk, &visible, &mut self.cache, &Hooks::none())?;
            self.cache.commit(&(0..chunk.len()).collect::<PooledVec<_>>())?;
            last = Some(output.hidden.part(chunk.len() - 1, 1));
        }
        Ok(last)
    }

    /// Whether the model can read on after `more` tokens.
    fn has_room(&self, more: usize) -> bool {
        self.cache.len() + self.unread.len() + more <= self.model.decoder().config().max_positions
    }

    /// The state at `root`, to which the cache is brought up. `None` where the model cannot follow.
    fn catch_up(&mut self, root: Token) -> Result<Option<HiddenStates>, ModelError> {
        match self.rooted.take() {
            Some((known, state)) if known == root => {
                self.rooted = Some((known, state.clone()));
                return Ok(Some(state));
            }
            Some(_) => self.cache.truncate(self.cache.len() - 1),
            None => {}
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

    fn draft(
        &mut self,
        root: Token,
        builder: &dyn TreeBuilder,
        random: Option<&mut dyn RandomSource>,
    ) -> Result<Proposal, DraftError> {
        if builder.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let Some(state) = self.catch_up(root)? else { return Ok(Proposal::root(root)) };
        let (rows, stop) = (self.law.rows, self.law.stop);
        // A tree that keeps the best of what it is offered keeps no draws.
        let law = if builder.takes_in_order() && random.is_some() {
            self.law.children
        } else {
            SamplingScheme::Deterministic
        };
        let children = match (law, random) {
            (SamplingScheme::Deterministic, _) | (_, None) => Children::Likeliest { stop },
            (law, Some(random)) => Children::Drawn { law, transform: self.law.transform, random },
        };
        let ranked = !rows && matches!(children, Children::Likeliest { stop: None }) && candidates::by_rank(builder);
        let known = rows.then(Known::default);
        let (model, cache) = (&self.model, &mut self.cache);
        let mut levels =
            Levels { model, cache, children, uncommitted: UncommittedRows::default(), root: state, known, ranked };
        let draft = builder.build(root, &mut levels);
        let known = levels.known;
        self.cache.roll_back();
        let draft = draft?;
        let rows = known.map(|known| known.arranged(&draft, self.model.vocab_size()));
        Ok(Proposal { draft, rows, law })
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
    }

    fn observe(&mut self, committed: Committed<'_>) -> Result<(), DraftError> {
        let mut tokens = committed.tokens;
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

    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        self.draft(root, builder, None)
    }

    fn propose_drawn(
        &mut self,
        root: Token,
        builder: &dyn TreeBuilder,
        random: &mut dyn RandomSource,
    ) -> Result<Proposal, DraftError> {
        self.draft(root, builder, Some(random))
    }
}

/// The distributions at the nodes that were asked about.
#[derive(Default)]
struct Known {
    nodes: PooledVec<usize>,
    /// Logits, `[nodes · V]`.
    rows: PooledVec<f32>,
}

impl Known {
    /// The distributions at the nodes of a tree, as logits `[nodes · V]`. Those of nodes that were not asked about,
    /// which have no children, are zeros.
    fn arranged(&self, draft: &DraftTree, vocab: usize) -> PooledVec<f32> {
        let mut rows = PooledVec::of(0.0, draft.tree().len() * vocab);
        for (row, source) in rows.chunks_exact_mut(vocab).zip(draft.source_nodes()) {
            if let Some(at) = self.nodes.iter().position(|node| node == source) {
                row.copy_from_slice(&self.rows[at * vocab..(at + 1) * vocab]);
            }
        }
        rows
    }
}

/// How children are taken from logits.
enum Children<'a> {
    /// The likeliest tokens; none where the likeliest of all is less likely than `stop`.
    Likeliest { stop: Option<f64> },
    /// Draws from the transformed distribution.
    Drawn { law: SamplingScheme, transform: gorgon_core::dist::Transform, random: &'a mut dyn RandomSource },
}

impl Children<'_> {
    /// # Shapes
    /// `logits [widths.len() · vocab]`.
    fn of(&mut self, logits: &[f32], vocab: usize, widths: &[usize]) -> CandidateRows {
        match self {
            Self::Likeliest { stop } => {
                let candidate = |&(token, p): &(u32, f32)| Candidate { token, probability: f64::from(p) };
                // What is not known to be likely enough is not: a probability may be no number.
                let goes_on = |row: &[(u32, f32)]| {
                    stop.is_none_or(|stop| row.first().is_some_and(|&(_, most)| f64::from(most) >= stop))
                };
                let rows = top_rows(logits, vocab, widths);
                rows.iter().map(|row| if goes_on(row) { row } else { &[] }.iter().map(candidate)).collect()
            }
            Self::Drawn { law, transform, random } => {
                let mut all = CandidateRows::default();
                for (row, &width) in logits.chunks_exact(vocab).zip(widths) {
                    let q = transform.apply(Row::Logits(row));
                    let tokens = law.children(&q, width, &mut **random);
                    all.push(tokens.iter().map(|&token| Candidate { token, probability: q[token as usize] }));
                }
                all
            }
        }
    }
}

/// Expands a tree level by level.
struct Levels<'a> {
    model: &'a DraftModel,
    cache: &'a mut KvCache,
    children: Children<'a>,
    /// Rows in flight; the root's is in the cache.
    uncommitted: UncommittedRows,
    /// The state at the root.
    root: HiddenStates,
    /// What was said at the nodes that were asked about, if it is to be kept.
    known: Option<Known>,
    /// Whether only the order of candidates is asked for.
    ranked: bool,
}

impl Levels<'_> {
    /// The states at `nodes`, whose ancestors are in flight.
    fn descend(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<HiddenStates, ModelError> {
        let visible = self.uncommitted.add(tree, nodes);
        let tokens: PooledVec<Token> = nodes.iter().map(|&node| tree.token(node)).collect();
        let decoder = self.model.decoder();
        self.cache.grow(nodes.len(), decoder.config());
        self.cache.extend_reservation(nodes.len())?;
        Ok(decoder.forward(&tokens, &visible, self.cache, &Hooks::none())?.hidden)
    }
}

impl CandidateSource for Levels<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let states = if nodes == [0] { self.root.clone() } else { self.descend(tree, nodes)? };
        let ranked = if self.ranked { self.model.top_tokens(&states, widths) } else { None };
        if let Some(found) = ranked {
            return Ok(candidates::ranked(&found, widths));
        }
        let logits = self.model.logits(&states);
        if let Some(known) = &mut self.known {
            known.nodes.extend_from_slice(nodes);
            known.rows.extend_from_slice(&logits);
        }
        Ok(self.children.of(&logits, self.model.vocab_size(), widths))
    }
}
