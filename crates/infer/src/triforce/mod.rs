//! TriForce's hierarchy (Sun et al., 2024, <https://arxiv.org/abs/2404.11912>): a small model with a streaming cache
//! drafts for the target over a retrieved part of its cache, which drafts for the target over all of it.
//!
//! * The small model drafts `ahead` tokens from a cache of the first tokens and the last ones
//!   ([`StreamingWindow`](gorgon_draft::draft_model::StreamingWindow)).
//! * The target over its part verifies them, and emits the accepted ones and one more: steps like any other
//!   ([`step`](mod@crate::step)), until there are as many tokens as the tree asks for. A lossless rule accepts the drafts,
//!   so emitted tokens have exactly the law of the target over the part.
//! * The target over its whole cache verifies these. The rows of the middle level are their `q`.
//!
//! Under rules that read no distributions the drafts are a list, as of a cascade ([`crate::cascade`]).
//!
//! Differences from the authors' code: after a rejection within, the next token is drawn from the residual and not from
//! `p`, without which the text has not the target's law; rows of the streaming cache are dropped 16 at a time.

mod target;

use crate::cascade::recording::Recording;
use crate::cascade::{Chain, InnerRandom, decode, draft_error, draws, rule_of};
use crate::session::Session;
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, TreeBuilder};
use gorgon_draft::draft_model::{DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_model::cache::{Retrieval, RetrievedCache};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};
use target::RetrievedTarget;

/// Drafts chains with the target over a part of its cache, for which a small model drafts.
pub struct TriForceDrafter<D = DraftModelDrafter> {
    name: String,
    sampling: DraftSampling,
    part: RetrievedCache,
    small: D,
    ahead: ChainTree,
    /// The committed tokens.
    text: Vec<Token>,
    /// The tokens that the small model has read: drafts behind committed ones.
    read: Vec<Token>,
}

impl<D: Drafter> TriForceDrafter<D> {
    /// A target that retrieves so much and drafts by `sampling`, and the small model that drafts so many tokens at a
    /// time for it, by [`inner_sampling`](crate::cascade::inner_sampling).
    pub fn new(name: String, retrieval: Retrieval, (small, ahead): (D, ChainTree), sampling: DraftSampling) -> Self {
        let part = RetrievedCache::new(retrieval);
        Self { name, sampling, part, small, ahead, text: vec![], read: vec![] }
    }

    /// The retrieved part.
    pub fn part(&self) -> &RetrievedCache {
        &self.part
    }

    /// The small model has read the committed tokens, and nothing else.
    fn follow(&mut self) -> Result<(), DraftError> {
        let known = self.read.iter().zip(&self.text).take_while(|(read, token)| read == token).count();
        if known < self.read.len() && !self.small.truncate(known) {
            self.small.reset();
            self.read.clear();
        }
        self.read.truncate(known);
        let unread = &self.text[self.read.len()..];
        if !unread.is_empty() {
            let hidden = HiddenStates::Host { values: vec![].into(), width: 1 };
            let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
            self.small.observe(VerifiedPass::prompt(unread, &output, &[]))?;
            self.read.extend_from_slice(unread);
        }
        Ok(())
    }
}

impl<D: Drafter> Drafter for TriForceDrafter<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.part.forget();
        self.text.clear();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.part.forget();
        // The small model goes back when it drafts next.
        self.text.truncate(length);
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_none() {
            self.part.forget();
        }
        self.text.extend_from_slice(pass.tokens);
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let DraftContext { tree, random, target } = context;
        let Some(target) = target.as_deref_mut() else {
            return Err(DraftError::NotLent { drafter: self.name.clone(), place: "this way of decoding" });
        };
        let count = tree.max_depth();
        if count == 0 || target.is_empty() {
            return Ok(Proposal::root(root));
        }
        target.retrieve(&mut self.part)?;
        self.follow()?;
        let rule = rule_of(&self.sampling, tree.coupling);
        // A rule that tests ratios must not share the noise of plain sampling.
        let mut inner = InnerRandom { source: &mut **random, has_noise: !draws(&self.sampling) };
        let mut chain = Chain::new(root, self.sampling.children);
        let small = Recording::new(&mut self.small, self.sampling.rows || self.sampling.stop.is_some());
        let middle = RetrievedTarget { target, part: &mut self.part };
        let mut session = Session::resumed(middle, small, std::mem::take(&mut self.read));
        let decoded = decode(&mut session, (&self.ahead, &*rule), (&self.sampling, count), &mut inner, &mut chain);
        self.read = session.into_text();
        self.part.roll_back();
        if decoded.is_err() {
            // A failed pass may have left some of its tokens in the small model's cache.
            self.small.reset();
            self.read.clear();
        }
        decoded.map_err(draft_error)?;
        inner.source.set_position(self.text.len() + 1);
        Ok(chain.into_proposal())
    }
}
