//! Drafting only as long as it pays.

use crate::drafter::{Committed, DraftError, Drafter, Needs, Proposal};
use gorgon_core::Token;
use gorgon_core::accept::Draws;
use gorgon_core::tree::TreeBuilder;

/// What drafting may lose before it has shown anything: so many plain steps, and so many fruitless drafts.
const ALLOWANCE: (f64, f64) = (1.0, 1.5);
/// Share of the text's plain decoding time that drafting may lose.
const LOSS: f64 = 0.005;
/// Fruitless drafts that there must be room for before a drafter that rests is tried again.
const TRIAL: f64 = 2.0;
/// Plain steps of gain that are remembered: good text long ago does not pay for bad text now.
const MEMORY: f64 = 8.0;

/// Lets another drafter propose while its drafts pay for their steps, and proposes nothing otherwise.
///
/// A drafted step that lasts as long as `cost` plain ones and emits `t` tokens gains `t - cost` plain steps. The gains
/// are added up; when they fall below `-(1 + 1.5 · (cost - 1) + 0.005 · tokens)` drafting rests, and as the text grows
/// it is tried again. So with a cost that is right, decoding is never slower than about 0.99 of plain decoding over a
/// text of some length, whatever the heads are. Decisions depend on tokens alone, not on clocks: the same seed gives
/// the same text.
pub struct FallbackDrafter {
    inner: Box<dyn Drafter>,
    cost: f64,
    gain: f64,
    tokens: usize,
    resting: bool,
    prompt_seen: bool,
}

impl FallbackDrafter {
    /// Over a drafter whose steps last as long as `cost` plain ones.
    pub fn new(inner: Box<dyn Drafter>, cost: f64) -> Self {
        Self { inner, cost, gain: 0.0, tokens: 0, resting: false, prompt_seen: false }
    }

    fn allowed_loss(&self) -> f64 {
        ALLOWANCE.0 + ALLOWANCE.1 * self.fruitless() + LOSS * self.tokens as f64
    }

    /// What a step loses of which no draft is accepted.
    fn fruitless(&self) -> f64 {
        (self.cost - 1.0).max(0.0)
    }

    /// Decides whether the next step is a plain one.
    fn rests(&mut self) -> bool {
        let loss = -self.gain;
        let bearable = self.allowed_loss() - if self.resting { TRIAL * self.fruitless() } else { 0.0 };
        self.resting = loss > bearable;
        self.resting
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
        (self.gain, self.tokens, self.resting, self.prompt_seen) = (0.0, 0, false, false);
    }

    fn observe(&mut self, committed: Committed<'_>) -> Result<(), DraftError> {
        if std::mem::replace(&mut self.prompt_seen, true) {
            // As many tokens are committed as are emitted: the root instead of the bonus.
            let emitted = committed.tokens.len();
            self.tokens += emitted;
            if !self.resting {
                self.gain = (self.gain + emitted as f64 - self.cost).min(MEMORY);
            }
        }
        self.inner.observe(committed)
    }

    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        if self.rests() { Ok(Proposal::root(root)) } else { self.inner.propose(root, builder) }
    }

    fn propose_drawn(
        &mut self,
        root: Token,
        builder: &dyn TreeBuilder,
        draws: &mut dyn Draws,
    ) -> Result<Proposal, DraftError> {
        if self.rests() { Ok(Proposal::root(root)) } else { self.inner.propose_drawn(root, builder, draws) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gorgon_core::accept::ChildLaw;
    use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, ChainTree, SourceError, TokenTree};
    use gorgon_model::decoder::{PassOutput, Tapped};
    use gorgon_model::states::States;

    struct Always;

    impl CandidateSource for Always {
        fn expand(&mut self, _: &TokenTree, nodes: &[usize], _: &[usize]) -> Result<CandidateRows, SourceError> {
            Ok(nodes.iter().map(|_| vec![Candidate { token: 1, probability: 1.0 }]).collect())
        }
    }

    impl Drafter for Always {
        fn name(&self) -> &str {
            "always"
        }
        fn reset(&mut self) {}
        fn observe(&mut self, _: Committed<'_>) -> Result<(), DraftError> {
            Ok(())
        }
        fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
            Ok(Proposal { draft: builder.build(root, self)?, rows: None, law: ChildLaw::Deterministic })
        }
    }

    /// Plain decoding's time for a text over the time with drafts, in units of plain steps; and the drafted steps.
    fn speed(cost: f64, accepts: impl Fn(usize) -> usize, steps: usize) -> (f64, usize) {
        let hidden = States::Host { values: vec![0.0].into(), width: 1 };
        let output = PassOutput { hidden, taps: Tapped::new() };
        let mut drafter = FallbackDrafter::new(Box::new(Always), cost);
        let chain = ChainTree::new(3).unwrap();
        drafter.observe(Committed { tokens: &[1; 40], output: &output, rows: &[0] }).unwrap();
        let (mut tokens, mut time, mut drafted) = (0, 0.0, 0);
        for step in 0..steps {
            let nodes = drafter.propose(1, &chain).unwrap().draft.tree().len();
            let emitted = if nodes > 1 { 1 + accepts(step) } else { 1 };
            time += if nodes > 1 { cost } else { 1.0 };
            drafted += usize::from(nodes > 1);
            tokens += emitted;
            drafter.observe(Committed { tokens: &vec![1; emitted], output: &output, rows: &[0] }).unwrap();
        }
        (tokens as f64 / time, drafted)
    }

    #[test]
    fn drafts_that_never_pay_cost_next_to_nothing() {
        for cost in [1.1, 1.5, 3.0, 20.0] {
            let (speed, drafted) = speed(cost, |_| 0, 2000);
            assert!(speed > 0.98, "{cost}: {speed}");
            assert!(drafted < 300, "{cost}: {drafted}");
        }
    }

    #[test]
    fn a_short_text_loses_little_where_a_draft_is_cheap() {
        for cost in [1.05, 1.2, 1.4] {
            let (speed, _) = speed(cost, |_| 0, 128);
            assert!(speed > 0.98, "{cost}: {speed}");
        }
    }

    #[test]
    fn drafts_that_pay_are_never_stopped() {
        assert_eq!(speed(1.5, |step| step % 2, 1000).1, 1000);
        assert_eq!(speed(2.0, |_| 3, 1000).1, 1000);
    }

    #[test]
    fn text_that_turns_bad_is_left_and_text_that_turns_good_is_found() {
        let (_, bad) = speed(1.5, |step| if step < 1000 { 3 } else { 0 }, 2000);
        // One in a hundred of some 5000 tokens may be lost, at half a step each, and the gain that is remembered.
        assert!((1000..1150).contains(&bad), "{bad}");
        let (_, good) = speed(1.5, |step| if step < 1000 { 0 } else { 3 }, 4000);
        assert!(good > 2500, "{good}");
    }
}
