//! Decoding several sequences at once, plainly or with drafts: the weights are read once for the rows of all of them.
//!
//! Each sequence has a slot with a cache, and with drafts a drafter of its own. A step is that of [`crate::step`], slot
//! by slot, but for the target's pass, which has the rows of all slots' trees: a row sees its own sequence and its own
//! tree's ancestors. On the CPU neither a row nor a draft depends on which others it is computed with, so a text is the
//! same whatever the batch.

use crate::step::{StepOutcome, finite_verdict};
use gorgon_core::accept::{AcceptanceRule, RandomSource, Rows as Scores, Verdict};
use gorgon_core::tree::{TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_draft::drafter::{Committed, DraftError, Drafter, NoDrafter, Proposal};
use gorgon_kernels::team;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::{Decoder, ModelError, PassOutput, Rows};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use std::sync::Arc;

/// Prompt tokens per forward pass: bounds the memory of a long prompt.
const PREFILL_CHUNK: usize = 256;
/// Logits that are looked at together: bounds the memory of many large trees over a large vocabulary (256 MiB).
const LOGITS: usize = 1 << 26;

/// Rows whose likeliest tokens are looked for together: bounds the memory that is kept for it.
const SCREENED: usize = 256;

/// Why a batch failed.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A drafter.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// The model's scores are no scores.
    #[error("the model's logits in slot {slot} are not finite: its weights are damaged or overflow this format")]
    NonFinite {
        /// The slot.
        slot: usize,
    },
}

/// What drafts in a batch.
#[derive(Clone, Copy)]
pub struct Drafts<'a> {
    /// Makes a drafter for a sequence.
    pub drafter: &'a dyn Fn() -> Box<dyn Drafter>,
    /// What arranges the proposals.
    pub builder: &'a dyn TreeBuilder,
}

/// A sequence's part in a step.
pub struct Turn<'a> {
    /// Where the sequence is.
    pub slot: usize,
    /// Its last emitted token, which the slot has not read yet.
    pub root: Token,
    /// Tokens that it may emit, at least one.
    pub left: usize,
    /// All its chance.
    pub random: &'a mut (dyn RandomSource + Send),
}

/// How the tokens of a step are chosen.
#[derive(Clone, Copy)]
pub struct Choosing<'a> {
    /// What accepts.
    pub rule: &'a (dyn AcceptanceRule + Sync),
    /// Tokens after which a sequence emits nothing more.
    pub end_tokens: &'a [Token],
}

/// Sequences being decoded together.
pub struct Batch<'a> {
    decoder: Arc<Decoder>,
    slots: Vec<Slot>,
    builder: Option<&'a dyn TreeBuilder>,
    hooks: Hooks,
}

/// One sequence.
struct Slot {
    cache: KvCache,
    drafter: Box<dyn Drafter>,
}

impl<'a> Batch<'a> {
    /// `slots` empty sequences of at most `capacity` tokens each, decoded plainly.
    pub fn new(decoder: Arc<Decoder>, slots: usize, capacity: usize) -> Self {
        let slot = || Slot { cache: decoder.new_cache(capacity), drafter: Box::new(NoDrafter) };
        let slots = (0..slots).map(|_| slot()).collect();
        Self { decoder, slots, builder: None, hooks: Hooks::none() }
    }

    /// The same, decoded with drafts, for which there is room beside the tokens.
    pub fn with_drafts(decoder: Arc<Decoder>, slots: usize, capacity: usize, drafts: Drafts<'a>) -> Self {
        let config = decoder.config();
        let capacity = capacity.min(config.max_positions) + drafts.builder.max_nodes();
        let slot = || Slot { cache: KvCache::new(config, decoder.compute(), capacity), drafter: (drafts.drafter)() };
        let slots: Vec<Slot> = (0..slots).map(|_| slot()).collect();
        let hooks = slots.first().map_or_else(Hooks::none, |slot| slot.drafter.needs().hooks);
        Self { decoder, slots, builder: Some(drafts.builder), hooks }
    }

    /// The same with drafts or without.
    pub fn drafted(decoder: Arc<Decoder>, slots: usize, capacity: usize, drafts: Option<Drafts<'a>>) -> Self {
        match drafts {
            Some(drafts) => Self::with_drafts(decoder, slots, capacity, drafts),
            None => Self::new(decoder, slots, capacity),
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Tokens that a slot has read.
    pub fn len(&self, slot: usize) -> usize {
        self.slots[slot].cache.len()
    }

    /// True if no slot has read a token.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| slot.cache.is_empty())
    }

    /// Forgets a slot's sequence.
    pub fn reset(&mut self, slot: usize) {
        self.slots[slot].cache.truncate(0);
        self.slots[slot].drafter.reset();
    }

    /// Drops what a slot has read from `length` on. A drafter cannot go back, so with drafts everything is dropped:
    /// [`Self::len`] says what is left.
    pub fn truncate(&mut self, slot: usize, length: usize) {
        match self.builder {
            None => self.slots[slot].cache.truncate(length),
            Some(_) if length < self.len(slot) => self.reset(slot),
            Some(_) => {}
        }
    }

    /// Reads tokens into a slot. Returns the token that is chosen after the last of them.
    ///
    /// # Errors When there are no tokens, they do not fit, one is outside the vocabulary, the logits are no numbers, or
    /// the drafter fails.
    pub fn prefill(
        &mut self,
        slot: usize,
        tokens: &[Token],
        rule: &dyn AcceptanceRule,
        random: &mut dyn RandomSource,
    ) -> Result<Token, BatchError> {
        let hidden = self.read(slot, tokens)?;
        let top_tokens = rule.as_greedy().and_then(|_| self.decoder.top_tokens(&hidden, &[1])?.first().copied());
        if let Some((token, _)) = top_tokens {
            return Ok(token);
        }
        let last = Proposal::root(tokens.last().copied().unwrap_or_default());
        let logits = self.decoder.scores(&hidden);
        let scores = Scores::Logits { data: &logits, vocab: logits.len() };
        let verdict = finite_verdict(rule, &last, scores, random);
        verdict.map(|verdict| verdict.bonus).ok_or(BatchError::NonFinite { slot })
    }

    /// Reads tokens into a slot, chunk by chunk. Returns the state at the last of them.
    fn read(&mut self, slot: usize, tokens: &[Token]) -> Result<HiddenStates, BatchError> {
        let mut last = None;
        let Slot { cache, drafter } = &mut self.slots[slot];
        for chunk in tokens.chunks(PREFILL_CHUNK) {
            cache.reserve(chunk.len()).map_err(ModelError::from)?;
            let visible = AttentionMask::Causal { rows: chunk.len() };
            let output = self.decoder.forward(chunk, &visible, cache, &self.hooks);
            if output.is_err() {
                cache.roll_back();
            }
            let output = output?;
            let rows: Vec<usize> = (0..chunk.len()).collect();
            cache.commit(&rows).map_err(ModelError::from)?;
            drafter.observe(Committed { tokens: chunk, output: &output, rows: &rows })?;
            last = Some(output.hidden.part(chunk.len() - 1, 1));
        }
        Ok(last.ok_or(ModelError::EmptyPrompt)?)
    }

    /// One step of some slots, each named once, in increasing order. Returns what each of them emitted: accepted drafts
    /// and the bonus token, cut after an end token and where no tokens are left. What is cut off was never read.
    ///
    /// # Errors When there is nothing to do, a slot is full, a token is outside the vocabulary, the logits of a path
    /// are no numbers, or a drafter fails. Nothing stays in flight then.
    pub fn step(&mut self, turns: &mut [Turn<'_>], choosing: Choosing<'_>) -> Result<Vec<StepOutcome>, BatchError> {
        let proposals = self.propose(turns)?;
        let trees: Vec<&TokenTree> = proposals.iter().map(|proposal| proposal.draft.tree()).collect();
        let chosen = self.verify(turns, &trees).and_then(|output| {
            let verdicts = self.accept(turns, &proposals, &output, choosing.rule)?;
            Ok((output, verdicts))
        });
        let (output, verdicts) = match chosen {
            Ok(chosen) => chosen,
            Err(error) => {
                self.slots.iter_mut().for_each(|slot| slot.cache.roll_back());
                return Err(error);
            }
        };
        let (mut first_row, mut outcomes) = (0, vec![]);
        for ((turn, tree), verdict) in turns.iter().zip(trees).zip(verdicts) {
            outcomes.push(self.commit(turn, tree, &verdict, choosing.end_tokens, (&output, first_row))?);
            first_row += tree.len();
        }
        Ok(outcomes)
    }

    /// A tree for each turn.
    fn propose(&mut self, turns: &mut [Turn<'_>]) -> Result<Vec<Proposal>, DraftError> {
        let Some(builder) = self.builder else {
            return Ok(turns.iter().map(|turn| Proposal::root(turn.root)).collect());
        };
        let mut slots = self.slots.iter_mut().enumerate();
        let mut work: Vec<_> = turns
            .iter_mut()
            .filter_map(|turn| slots.find(|(slot, _)| *slot == turn.slot).map(|(_, slot)| (turn, slot, None)))
            .collect();
        let one = |(turn, slot, proposal): &mut (&mut Turn<'_>, &mut Slot, Option<_>)| {
            *proposal = Some(slot.drafter.propose_drawn(turn.root, builder, turn.random));
        };
        match work.as_mut_slice() {
            // A lone drafter's products are shared among threads, several drafters are.
            several if several.len() > 1 && self.decoder.compute().is_host() => {
                team::each(several, team::WORTHWHILE, one)
            }
            few => few.iter_mut().for_each(one),
        }
        work.into_iter().filter_map(|(_, _, proposal)| proposal).collect()
    }

    /// The target's pass over all trees, one after the other.
    fn verify(&mut self, turns: &[Turn<'_>], trees: &[&TokenTree]) -> Result<PassOutput, BatchError> {
        let visible: Vec<AttentionMask> = trees.iter().map(|tree| AttentionMask::in_tree(tree.parents())).collect();
        let mut wanted = turns.iter().zip(trees.iter().zip(&visible)).peekable();
        let mut batch = vec![];
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some((_, (tree, visible))) = wanted.next_if(|(turn, _)| turn.slot == index) {
                slot.cache.reserve(tree.len()).map_err(ModelError::from)?;
                batch.push(Rows { tokens: tree.tokens(), visible, cache: &mut slot.cache });
            }
        }
        Ok(self.decoder.forward_batch(&mut batch, &self.hooks)?)
    }

    /// The same for a greedy rule, where each row's likeliest token can be told without all logits.
    fn accept_greedily(
        &self,
        proposals: &[Proposal],
        output: &PassOutput,
        rule: &dyn AcceptanceRule,
    ) -> Option<Vec<Verdict>> {
        let greedy = rule.as_greedy()?;
        let (mut verdicts, mut first_row) = (vec![], 0);
        while verdicts.len() < proposals.len() {
            let left = &proposals[verdicts.len()..];
            let (taken, rows) = together(left, SCREENED);
            let hidden = output.hidden.part(first_row, rows);
            let found = self.decoder.top_tokens(&hidden, &PooledVec::of(1, rows))?;
            let mut found = found.iter().map(|&(token, _)| token);
            for tree in left[..taken].iter().map(|proposal| proposal.draft.tree()) {
                let top_tokens: PooledVec<Token> = found.by_ref().take(tree.len()).collect();
                verdicts.push(greedy.accept_argmax(tree, &top_tokens));
            }
            first_row += rows;
        }
        Some(verdicts)
    }

    /// A path of each tree.
    fn accept(
        &self,
        turns: &mut [Turn<'_>],
        proposals: &[Proposal],
        output: &PassOutput,
        rule: &(dyn AcceptanceRule + Sync),
    ) -> Result<Vec<Verdict>, BatchError> {
        if let Some(verdicts) = self.accept_greedily(proposals, output, rule) {
            return Ok(verdicts);
        }
        let vocab = self.decoder.config().vocab_size;
        let (mut verdicts, mut first_row) = (vec![], 0);
        while verdicts.len() < turns.len() {
            let from = verdicts.len();
            let (taken, rows) = together(&proposals[from..], LOGITS / vocab);
            let hidden = output.hidden.part(first_row, rows);
            let logits = self.decoder.scores(&hidden);
            let mut left = logits.as_slice();
            let mut work: Vec<_> = turns[from..from + taken]
                .iter_mut()
                .zip(&proposals[from..])
                .map(|(turn, proposal)| {
                    let (data, rest) = left.split_at(proposal.draft.tree().len() * vocab);
                    left = rest;
                    (turn, proposal, Scores::Logits { data, vocab }, None)
                })
                .collect();
            team::each(&mut work, rows * vocab, |(turn, proposal, scores, verdict)| {
                *verdict = finite_verdict(rule, proposal, *scores, turn.random);
            });
            for (turn, _, _, verdict) in work {
                verdicts.push(verdict.ok_or(BatchError::NonFinite { slot: turn.slot })?);
            }
            first_row += rows;
        }
        Ok(verdicts)
    }

    /// Keeps what a turn emits of its tree, whose rows in a pass begin at a certain one, and tells the drafter.
    fn commit(
        &mut self,
        turn: &Turn<'_>,
        tree: &TokenTree,
        verdict: &Verdict,
        end_tokens: &[Token],
        (output, first_row): (&PassOutput, usize),
    ) -> Result<StepOutcome, BatchError> {
        let accepted = verdict.path[1..].iter().map(|&node| tree.token(node));
        let mut tokens: PooledVec<Token> = accepted.chain([verdict.bonus]).collect();
        let ended = tokens.iter().position(|token| end_tokens.contains(token)).map_or(tokens.len(), |at| at + 1);
        tokens.truncate(ended.min(turn.left.max(1)));
        // As many tokens are read as are emitted: the root instead of the last one.
        let path = &verdict.path[..tokens.len()];
        let Slot { cache, drafter } = &mut self.slots[turn.slot];
        cache.commit(path).map_err(ModelError::from)?;
        let read: PooledVec<Token> = path.iter().map(|&node| tree.token(node)).collect();
        let rows: PooledVec<usize> = path.iter().map(|&node| first_row + node).collect();
        drafter.observe(Committed { tokens: &read, output, rows: &rows })?;
        Ok(StepOutcome { tokens, nodes: tree.len() })
    }
}

/// How many of these trees, at least one, have at most `most` rows together, and how many they have.
fn together(proposals: &[Proposal], most: usize) -> (usize, usize) {
    let (mut taken, mut rows) = (0, 0);
    for proposal in proposals {
        let nodes = proposal.draft.tree().len();
        if taken > 0 && rows + nodes > most {
            break;
        }
        (taken, rows) = (taken + 1, rows + nodes);
    }
    (taken, rows)
}
