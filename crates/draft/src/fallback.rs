//! Drafting only as long as it pays.

mod timed;

use self::timed::Timed;
use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::ledger::Ledger;
use crate::step_costs::{Clock, StepCosts};
use crate::trace::Trace;
use gorgon_core::Token;
use gorgon_core::tree::TrellisTree;
use gorgon_model::target::Target;

/// Losses allowed before drafting has shown a gain: so many plain steps, and so many fruitless drafts.
const ALLOWANCE: (f64, f64) = (1.0, 1.5);
/// Share of the text's plain decoding time that drafting may lose.
const LOSS: f64 = 0.005;
/// Losses allowed where steps are timed: so many plain steps, and this share of the tokens. Trees have as many nodes as
/// what is left of it bears.
const TIMED: (f64, f64) = (1.0, 0.01);
/// Fruitless drafts that there must be room for before a paused drafter is tried again.
const TRIAL: f64 = 2.0;

/// Lets another drafter propose while its drafts pay for their steps, and proposes nothing otherwise.
///
/// A drafted step that lasts as long as `cost` plain ones and emits `t` tokens gains `t - cost` plain steps. The gains
/// are added up; when they fall below `-(1 + 1.5 · (cost - 1) + 0.005 · tokens)` drafting pauses, and as the text grows
/// it is tried again. Where steps are timed the bound is `-(1 + 0.01 · tokens)`, and a tree is no larger than the loss of
/// its step allows. So with a cost that is right, decoding is never slower than about 0.99 of plain decoding over a
/// text of some length, whatever the heads are.
///
/// With a cost that is known, decisions depend on tokens alone, not on clocks: the same seed gives the same text. Where
/// the steps themselves are timed ([`Self::timed`]), greedy and coupled text depends on no decision; under rules that
/// draw at random a seed stands for another text of the same distribution each time.
pub struct FallbackDrafter {
    inner: Box<dyn Drafter>,
    cost: Cost,
    start: Ledger,
    ledger: Ledger,
    paused: bool,
}

/// How many plain steps a drafted step lasts.
enum Cost {
    /// Known: a calibration measured it.
    Known(f64),
    /// Timed while decoding. The times also choose the tree's size.
    Timed(Box<Timed>),
}

impl FallbackDrafter {
    /// Over a drafter whose steps last as long as `cost` plain ones.
    pub fn new(inner: Box<dyn Drafter>, cost: f64) -> Self {
        Self::with(inner, Cost::Known(cost), Ledger::default())
    }

    /// Over a drafter whose steps are timed by a clock, beginning with what is known of their times. It drafts `tree`,
    /// with as many nodes as pay by these times, whatever tree it is given. Known times come of a calibration that found
    /// drafting to pay: a text then begins with what it may lose after text that paid, 8 plain steps more.
    pub fn timed(inner: Box<dyn Drafter>, tree: TrellisTree, costs: StepCosts, clock: Clock) -> Self {
        let start = if costs.knows_plain() { Ledger::full() } else { Ledger::default() };
        Self::with(inner, Cost::Timed(Box::new(Timed::new(tree, costs, clock))), start)
    }

    fn with(inner: Box<dyn Drafter>, cost: Cost, start: Ledger) -> Self {
        Self { inner, cost, start, ledger: start, paused: false }
    }

    fn allowed_loss(&self) -> f64 {
        let tokens = self.ledger.tokens() as f64;
        match self.cost {
            Cost::Known(_) => ALLOWANCE.0 + ALLOWANCE.1 * self.fruitless() + LOSS * tokens,
            Cost::Timed(_) => TIMED.0 + TIMED.1 * tokens,
        }
    }

    /// Loss of a step of which no draft is accepted, of a single draft where trees have sizes that pay.
    fn fruitless(&self) -> f64 {
        let cost = match &self.cost {
            Cost::Known(cost) => *cost,
            Cost::Timed(timed) => timed.smallest(),
        };
        (cost - 1.0).max(0.0)
    }

    /// Decides whether the next step is a plain one.
    fn pauses(&mut self) -> bool {
        let bearable = self.allowed_loss() - if self.paused { TRIAL * self.fruitless() } else { 0.0 };
        self.paused = self.ledger.loss() > bearable;
        self.paused
    }

    /// Drafts of a tree, of a size that pays where steps are timed; or a plain step.
    fn drafted(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let (pauses, spare) = (self.pauses(), self.allowed_loss() - self.ledger.loss());
        let timed = match &mut self.cost {
            Cost::Timed(timed) => timed,
            Cost::Known(_) if pauses => return Ok(Proposal::root(root)),
            Cost::Known(_) => return self.inner.draft(root, context),
        };
        let pauses = pauses && !timed.is_trial();
        timed.begin();
        let tree = if timed.is_plain() || pauses { None } else { timed.tree(context.tree.tree.max_nodes(), spare) };
        let Some(tree) = tree else { return Ok(Proposal::root(root)) };
        let target = context.target.as_mut().map(|target| &mut **target as &mut dyn Target);
        let arranged = CoupledTree { tree: &tree, coupling: context.tree.coupling };
        let mut inner = DraftContext { tree: arranged, random: &mut *context.random, target };
        let proposal = self.inner.draft(root, &mut inner)?;
        timed.drafted(proposal.draft.tree().len());
        Ok(proposal)
    }
}

impl Drafter for FallbackDrafter {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
        (self.ledger, self.paused) = (self.start, false);
        if let Cost::Timed(timed) = &mut self.cost {
            timed.forget_step();
        }
    }

    fn truncate(&mut self, length: usize) -> bool {
        if let Cost::Timed(timed) = &mut self.cost {
            timed.forget_step();
        }
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.inner.observe(pass)?;
        if pass.verified.is_some() {
            let cost = match &mut self.cost {
                Cost::Known(cost) => (!self.paused).then_some(*cost),
                Cost::Timed(timed) => timed.end(),
            };
            // As many tokens are committed as are emitted: the root instead of the bonus.
            self.ledger.add(pass.tokens.len(), cost);
        } else if let Cost::Timed(timed) = &mut self.cost {
            timed.forget_step();
        }
        Ok(())
    }

    fn finished(&mut self, answer: &[Token]) {
        self.inner.finished(answer);
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        self.inner.trace(root, drafts)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.drafted(root, context)
    }
}

#[cfg(test)]
mod tests;
