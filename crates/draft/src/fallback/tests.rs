//! Tests of `fallback`.

use super::*;
use crate::drafter::VerifiedTree;
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, ChainTree, SourceError, TokenTree, TreeBuilder};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// The time in which plain decoding makes a text over the time with drafts, and the sizes of the drafted steps. A step of
/// `n` nodes lasts `cost(n)` plain steps, which `clock` hears of.
fn decoded(
    drafter: &mut FallbackDrafter,
    cost: impl Fn(usize) -> f64,
    accepts: impl Fn(usize) -> usize,
    steps: usize,
    clock: &Mutex<Duration>,
) -> (f64, Vec<usize>) {
    let hidden = HiddenStates::Host { values: vec![0.0].into(), width: 1 };
    let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
    let chain = ChainTree::new(3).unwrap();
    drafter.observe(VerifiedPass::prompt(&[1; 40], &output, &[0])).unwrap();
    let (mut tokens, mut time, mut drafted) = (0, 0.0, vec![]);
    for step in 0..steps {
        let proposal = drafter.propose(1, &chain).unwrap();
        let nodes = proposal.draft.tree().len();
        let emitted = 1 + accepts(step).min(proposal.draft.tree().max_depth());
        *clock.lock().unwrap() += Duration::from_secs_f64(1e-3 * cost(nodes));
        time += cost(nodes);
        drafted.extend(Some(nodes).filter(|&nodes| nodes > 1));
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

/// As [`decoded`], with a cost that is known; the number of drafted steps.
fn speed(cost: f64, accepts: impl Fn(usize) -> usize, steps: usize) -> (f64, usize) {
    let mut drafter = FallbackDrafter::new(Box::new(Always), cost);
    let cost = |nodes: usize| if nodes > 1 { cost } else { 1.0 };
    let (speed, drafted) = decoded(&mut drafter, cost, accepts, steps, &Mutex::default());
    (speed, drafted.len())
}

/// As [`decoded`], with steps that are timed and `known` times; each row beyond the first lasts `row` plain steps.
fn timed_speed(row: f64, known: StepCosts, accepts: impl Fn(usize) -> usize, steps: usize) -> (f64, Vec<usize>) {
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let (shared, tree) = (clock.clone(), TrellisTree::new(16, 8).unwrap());
    let now = Box::new(move || *shared.lock().unwrap());
    let mut drafter = FallbackDrafter::timed(Box::new(Always), tree, known, now);
    decoded(&mut drafter, |nodes| 1.0 + row * (nodes - 1) as f64, accepts, steps, &clock)
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

#[test]
fn timed_drafts_that_never_pay_cost_next_to_nothing() {
    // The first draft behind a prompt says nothing of costs, so two are tried.
    for (row, steps, least) in
        [(0.05, 128, 0.97), (0.3, 128, 0.97), (1.0, 128, 0.97), (5.0, 128, 0.92), (0.05, 2000, 0.98)]
    {
        let (speed, drafted) = timed_speed(row, StepCosts::timed(), |_| 0, steps);
        assert!(speed > least, "{row}: {speed}, {} steps drafted", drafted.len());
    }
    for row in [0.3, 1.0, 5.0] {
        let found = timed_speed(row, StepCosts::timed(), |_| 0, 2000);
        assert!(found.0 > 0.98, "{row} {found:?}");
    }
}

/// Trees grow to the size that pays, and no further than the tree that is given allows.
#[test]
fn timed_drafts_that_pay_are_as_large_as_pays() {
    let (fast, drafted) = timed_speed(0.1, StepCosts::timed(), |_| 8, 500);
    assert!(drafted.len() > 480 && drafted[20..].iter().all(|&nodes| nodes == 4), "{drafted:?}");
    assert!(fast > 2.9, "{fast}");
    // A draft that costs as much as a token gains nothing.
    let (_, none) = timed_speed(1.0, StepCosts::timed(), |_| 8, 500);
    assert!(none.len() < 10, "{none:?}");
}

/// Times that are known need no plain steps first.
#[test]
fn known_times_are_believed_until_others_are_measured() {
    let known = || StepCosts::known([(1, 1e-3), (2, 1.1e-3), (4, 1.3e-3)]);
    let (_, drafted) = timed_speed(0.1, known(), |_| 8, 20);
    assert_eq!(drafted, vec![4; 20]);
    let (wrong, _) = timed_speed(2.0, known(), |_| 0, 1000);
    assert!(wrong > 0.975, "{wrong}");
}

/// A single step that takes very long ends no drafting that pays.
#[test]
fn a_hiccup_is_forgotten_soon() {
    for accepts in [8, 0] {
        let clock = Arc::new(Mutex::new(Duration::ZERO));
        let (shared, tree) = (clock.clone(), TrellisTree::new(16, 8).unwrap());
        let now = Box::new(move || *shared.lock().unwrap());
        let mut drafter = FallbackDrafter::timed(Box::new(Always), tree, StepCosts::timed(), now);
        let cost = |nodes: usize| 1.0 + 0.1 * (nodes - 1) as f64;
        decoded(&mut drafter, cost, |_| accepts, 40, &clock);
        *clock.lock().unwrap() += Duration::from_secs(60);
        decoded(&mut drafter, |nodes| if nodes > 1 { 6e4 } else { 1.0 }, |_| 0, 1, &clock);
        let (_, drafted) = decoded(&mut drafter, cost, |_| 8, 500, &clock);
        assert!(drafted.len() > 300, "{accepts}: {}", drafted.len());
    }
}

/// A drafter that has to read what was decoded without it is slow in its first step only, which is not what its steps
/// take.
#[test]
fn catching_up_is_not_taken_for_the_cost_of_drafts() {
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let (shared, tree) = (clock.clone(), TrellisTree::new(16, 8).unwrap());
    let now = Box::new(move || *shared.lock().unwrap());
    let mut drafter = FallbackDrafter::timed(Box::new(Always), tree, StepCosts::timed(), now);
    let cost = |nodes: usize| 1.0 + 0.1 * (nodes - 1) as f64;
    // Nothing is right at first, so drafting pauses.
    let (_, drafted) = decoded(&mut drafter, cost, |_| 0, 300, &clock);
    assert!(drafted.len() < 60, "{}", drafted.len());
    let behind = std::cell::Cell::new(0.0);
    let catching_up = |nodes: usize| {
        let skipped = behind.replace(if nodes > 1 { 0.0 } else { behind.get() + 0.1 });
        cost(nodes) + if nodes > 1 { skipped } else { 0.0 }
    };
    let (speed, drafted) = decoded(&mut drafter, catching_up, |_| 8, 1500, &clock);
    assert!(drafted.len() > 1000 && speed > 2.0, "{}: {speed}", drafted.len());
}
