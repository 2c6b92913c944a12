//! Cascade drafting (Chen et al., 2023, <https://arxiv.org/abs/2312.11462>): a draft model that is decoded with the
//! drafts of another drafter.
//!
//! * *Vertical*: the draft model `M` takes steps like a target's ([`step`](mod@crate::step)) with drafts of the inner
//!   drafter, until it has emitted as many tokens as the tree asks for. A lossless rule accepts them, so they have
//!   exactly the law of `M` under the transform. The passes of those steps have `M`'s row in front of every emitted
//!   token. Both go up: tokens as drafts, rows as `q`.
//! * *Horizontal*: the last drafts of a chain may be the inner drafter's alone, with its rows and its scheme.
//!
//! Where a step ends depends on drafts that it has rejected or accepted, and is settled before the next token is drawn.
//! Tokens beyond the number that is asked for are cut by count. So the text has the target's law under any rule under
//! which drafts of `M` alone have it. There is no lenience inside: tokens that follow no known law would have to be
//! lists.
//!
//! Rules that read no distributions get lists: under a coupled rule what `M` emits by the target's own noise, as
//! [`gorgon_draft::coupled`] ranks it, else `M`'s greedy text. With an inner drafter that drafts nothing the drafts are
//! those of [`gorgon_draft::draft_model::DraftModelDrafter`], token for token.
//!
//! Differences from the paper: no lenience, one chain, and two levels.

mod chain;
mod decode;
mod model;
mod random;
pub(crate) mod recording;

use crate::session::Session;
use decode::chain_of;
use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, Coupled, RandomSource, RuleChoice};
use gorgon_core::tree::TreeBuilder;
use gorgon_draft::coupled::{CoupledTree, Coupling};
use gorgon_draft::draft_model::{DraftModel, DraftSampling};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use gorgon_model::target::Target;
use model::DraftTarget;
use recording::Recording;
use std::sync::Arc;

pub(crate) use chain::Chain;
pub(crate) use decode::{decode, draft_error, draws, rule_of};
pub(crate) use random::InnerRandom;

/// How the inner drafter drafts for the draft model.
#[derive(Clone)]
pub struct Inner {
    /// The tree of each of the draft model's steps.
    pub tree: Arc<dyn TreeBuilder>,
    /// The last drafts of a chain, which the inner drafter makes alone.
    pub tail: usize,
}

/// How an inner drafter's drafts serve the rule by which the draft model accepts them, where the draft model drafts by
/// `sampling`.
pub fn inner_sampling(sampling: &DraftSampling) -> DraftSampling {
    if draws(sampling) { DraftSampling::of(RuleChoice::Sampling, sampling.transform) } else { DraftSampling::GREEDY }
}

/// Drafts chains with a draft model that is decoded with drafts.
pub struct CascadeDrafter<D = Box<dyn Drafter>> {
    name: String,
    session: Session<DraftTarget, Recording<D>>,
    inner: Inner,
    sampling: DraftSampling,
    /// The committed tokens.
    text: Vec<Token>,
    /// How many of them are a source that the draft model's encoder reads.
    source: usize,
}

impl<D: Drafter> CascadeDrafter<D> {
    /// A draft model that drafts by `sampling`, and the drafter that drafts for it by [`inner_sampling`].
    pub fn new(name: String, model: &DraftModel, (drafter, inner): (D, Inner), sampling: DraftSampling) -> Self {
        let recording = Recording::new(drafter, sampling.rows || sampling.stop.is_some());
        let target = DraftTarget::new(model, recording.needs().hooks);
        Self { name, session: Session::new(target, recording), inner, sampling, text: vec![], source: 0 }
    }

    /// Tokens that the draft model has read.
    pub fn read(&self) -> usize {
        self.session.len()
    }

    /// The drafter that drafts for the draft model.
    pub fn inner(&mut self) -> &mut D {
        self.session.drafter().inner()
    }

    /// Tokens that the draft model can emit.
    pub fn vocab_size(&self) -> usize {
        self.session.target().vocab_size()
    }

    /// Reads the text in front of the root. Returns how many of `count` drafts the draft model can make after it.
    fn follow(&mut self, root: Token, count: usize) -> Result<usize, DraftError> {
        self.session.rewind(&self.text);
        if self.session.len() < self.source {
            let source = &self.text[..self.source];
            if self.session.target().check(source).is_err() {
                return Ok(0);
            }
            self.session.read_source(source).map_err(draft_error)?;
        }
        let unread = &self.text[self.session.len()..];
        let target = self.session.target();
        // The last draft is never read.
        let room = target.context().saturating_sub(self.text.len());
        if room == 0 || target.check(unread).is_err() || target.check(&[root]).is_err() {
            return Ok(0);
        }
        self.session.extend(unread).map_err(draft_error)?;
        Ok(count.min(room))
    }

    /// Adds the drafts that the inner drafter makes alone. Under a coupled rule they are ranked by the target's noise.
    fn add_tail(
        &mut self,
        is_coupled: bool,
        random: &mut InnerRandom<'_>,
        chain: &mut Chain,
    ) -> Result<(), DraftError> {
        let tree = chain_of(self.inner.tail)?;
        random.set_position(self.session.len() + 1);
        let rule = Coupled { transform: self.sampling.transform };
        let coupling = if is_coupled { Coupling::of(&rule, random) } else { None };
        let (target, drafter) = self.session.parts();
        let mut context =
            DraftContext { tree: CoupledTree { tree: &tree, coupling }, random, target: Some(&mut *target) };
        let proposal = drafter.draft(chain.last(), &mut context)?;
        target.roll_back();
        chain.append(&proposal, target.vocab_size());
        Ok(())
    }
}

impl<D: Drafter> Drafter for CascadeDrafter<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn reset(&mut self) {
        self.session.reset();
        self.text.clear();
        self.source = 0;
    }

    fn truncate(&mut self, length: usize) -> bool {
        // The draft model goes back when it drafts next.
        self.text.truncate(length);
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.text.extend_from_slice(pass.tokens);
        if pass.is_source && self.session.target().has_encoder() {
            self.source = pass.tokens.len();
        }
        Ok(())
    }

    fn finished(&mut self, answer: &[Token]) {
        self.inner().finished(answer);
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let DraftContext { tree, random, .. } = context;
        let (wanted, tail) = (tree.max_depth(), self.inner.tail);
        let count = match wanted.saturating_sub(tail) {
            0 => 0,
            most => self.follow(root, most)?,
        };
        if count == 0 {
            return Ok(Proposal::root(root));
        }
        let (rule, draws) = (rule_of(&self.sampling, tree.coupling), draws(&self.sampling));
        // A rule that tests ratios must not share the noise of plain sampling.
        let mut inner = InnerRandom { source: &mut **random, has_noise: !draws };
        let mut chain = Chain::new(root, self.sampling.children);
        let method = (&*self.inner.tree as &dyn TreeBuilder, &*rule as &dyn AcceptanceRule);
        let decoded = decode(&mut self.session, method, (&self.sampling, count), &mut inner, &mut chain);
        let is_whole = decoded.map_err(draft_error)?;
        if is_whole && tail > 0 {
            self.add_tail(tree.coupling.is_some(), &mut inner, &mut chain)?;
        }
        inner.set_position(self.text.len() + 1);
        Ok(chain.into_proposal())
    }
}
