//! Tests of `fallback`.

use super::*;
use crate::drafter::VerifiedTree;
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, ChainTree, SourceError, TokenTree, TreeBuilder};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};

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
    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }
    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        Ok(Proposal::list(context.tree.build(root, self)?))
    }
    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        Ok(Some(Trace { input: vec![root as f32, drafts.len() as f32], guesses: vec![] }))
    }
}

/// Plain decoding's time for a text over the time with drafts, in units of plain steps; and the drafted steps.
fn speed(cost: f64, accepts: impl Fn(usize) -> usize, steps: usize) -> (f64, usize) {
    let hidden = HiddenStates::Host { values: vec![0.0].into(), width: 1 };
    let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
    let mut drafter = FallbackDrafter::new(Box::new(Always), cost);
    let chain = ChainTree::new(3).unwrap();
    drafter.observe(VerifiedPass::prompt(&[1; 40], &output, &[0])).unwrap();
    let (mut tokens, mut time, mut drafted) = (0, 0.0, 0);
    for step in 0..steps {
        let proposal = drafter.propose(1, &chain).unwrap();
        let nodes = proposal.draft.tree().len();
        let emitted = if nodes > 1 { 1 + accepts(step) } else { 1 };
        time += if nodes > 1 { cost } else { 1.0 };
        drafted += usize::from(nodes > 1);
        tokens += emitted;
        let path: Vec<usize> = (0..emitted).collect();
        let verified = VerifiedTree { tree: proposal.draft.tree(), path: &path, next: 1, target: None };
        let tokens = vec![1; emitted];
        drafter
            .observe(VerifiedPass {
                tokens: &tokens,
                output: &output,
                rows: &[0],
                verified: Some(verified),
                is_source: false,
            })
            .unwrap();
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

#[test]
fn the_trace_is_the_inner_drafters() {
    let mut drafter = FallbackDrafter::new(Box::new(Always), 2.0);
    assert_eq!(drafter.trace(3, &[1, 1]).unwrap(), Always.trace(3, &[1, 1]).unwrap());
}
