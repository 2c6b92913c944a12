//! Drafting only as long as it pays.

use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::ledger::Ledger;
use crate::trace::Trace;
use gorgon_core::Token;

/// Losses allowed before drafting has shown a gain: so many plain steps, and so many fruitless drafts.
const ALLOWANCE: (f64, f64) = (1.0, 1.5);
/// Share of the text's plain decoding time that drafting may lose.
const LOSS: f64 = 0.005;
/// Fruitless drafts that there must be room for before a paused drafter is tried again.
const TRIAL: f64 = 2.0;

/// Lets another drafter propose while its drafts pay for their steps, and proposes nothing otherwise.
///
/// A drafted step that lasts as long as `cost` plain ones and emits `t` tokens gains `t - cost` plain steps. The gains
/// are added up; when they fall below `-(1 + 1.5 · (cost - 1) + 0.005 · tokens)` drafting pauses, and as the text grows
/// it is tried again. So with a cost that is right, decoding is never slower than about 0.99 of plain decoding over a
/// text of some length, whatever the heads are. Decisions depend on tokens alone, not on clocks: the same seed gives
/// the same text.
pub struct FallbackDrafter {
    inner: Box<dyn Drafter>,
    cost: f64,
    ledger: Ledger,
    paused: bool,
}

impl FallbackDrafter {
    /// Over a drafter whose steps last as long as `cost` plain ones.
    pub fn new(inner: Box<dyn Drafter>, cost: f64) -> Self {
        Self { inner, cost, ledger: Ledger::default(), paused: false }
    }

    fn allowed_loss(&self) -> f64 {
        ALLOWANCE.0 + ALLOWANCE.1 * self.fruitless() + LOSS * self.ledger.tokens() as f64
    }

    /// Loss of a step of which no draft is accepted.
    fn fruitless(&self) -> f64 {
        (self.cost - 1.0).max(0.0)
    }

    /// Decides whether the next step is a plain one.
    fn pauses(&mut self) -> bool {
        let bearable = self.allowed_loss() - if self.paused { TRIAL * self.fruitless() } else { 0.0 };
        self.paused = self.ledger.loss() > bearable;
        self.paused
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
        (self.ledger, self.paused) = (Ledger::default(), false);
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_some() {
            // As many tokens are committed as are emitted: the root instead of the bonus.
            self.ledger.add(pass.tokens.len(), (!self.paused).then_some(self.cost));
        }
        self.inner.observe(pass)
    }

    fn finished(&mut self, answer: &[Token]) {
        self.inner.finished(answer);
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        self.inner.trace(root, drafts)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if self.pauses() { Ok(Proposal::root(root)) } else { self.inner.draft(root, context) }
    }
}

#[cfg(test)]
mod tests;
