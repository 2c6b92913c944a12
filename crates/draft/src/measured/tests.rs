//! Tests of `measured`, by a clock of their own.

use super::*;
use crate::drafter::VerifiedTree;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{Candidate, DraftTree};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};
use std::sync::{Arc, Mutex};

mod law;

/// Drafts chains in a text of which every token is 1, or declines.
#[derive(Clone, Copy)]
struct Chains {
    name: &'static str,
    feedback: Feedback,
    drafts: usize,
    /// It drafts in one step of so many.
    every: usize,
    /// How many of its drafts are right, by the length of the text.
    right: fn(usize) -> usize,
    asked: usize,
    length: usize,
}

impl Drafter for Chains {
    fn name(&self) -> &str {
        self.name
    }

    fn needs(&self) -> Needs {
        Needs { feedback: self.feedback, ..Needs::default() }
    }

    fn reset(&mut self) {}

    fn truncate(&mut self, _: usize) -> bool {
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.length += pass.tokens.len();
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.asked += 1;
        let mut draft = DraftTree::root(root);
        if self.asked.is_multiple_of(self.every) {
            for node in 0..self.drafts.min(context.tree.max_depth()) {
                let token = if node < (self.right)(self.length) { 1 } else { 2 };
                draft.push(node, Candidate { token, probability: 1.0 });
            }
        }
        Ok(Proposal::list(draft))
    }
}

impl Matching for Chains {
    fn matched(&mut self, _: Token) -> usize {
        3
    }
}

const NEVER: fn(usize) -> usize = |_| 0;

fn chains(drafts: usize, every: usize, right: fn(usize) -> usize) -> Chains {
    Chains { name: "text", feedback: Feedback::None, drafts, every, right, asked: 0, length: 0 }
}

/// One that reads logits.
fn tried(drafts: usize, right: fn(usize) -> usize) -> Chains {
    Chains { name: "logits", feedback: Feedback::Logits, ..chains(drafts, 1, right) }
}

struct Run {
    /// Time of plain decoding over that of the drafted text.
    speed: f64,
    /// Plain steps and those of suffix drafts, by number of rows less one.
    by_rows: Vec<usize>,
    /// By step, whether logits were read.
    logits: Vec<bool>,
    sources: Vec<Source>,
}

impl Run {
    fn steps(&self, counted: fn(Source) -> bool) -> usize {
        self.sources.iter().filter(|&&source| counted(source)).count()
    }
}

fn is_suffix(source: Source) -> bool {
    source == Source::Suffix
}

fn is_tried(source: Source) -> bool {
    matches!(source, Source::Tried { .. })
}

/// The drafter of two chains, by a clock that the test moves.
fn drafter(followed: Chains, tried: Chains, time: &Arc<Mutex<Duration>>) -> MeasuredDrafter {
    let clock = time.clone();
    let tried = Tried { tree: (tried.drafts + 1, tried.drafts), drafter: Box::new(tried), trial: 24 };
    MeasuredDrafter::timed_by(Box::new(followed), tried, Box::new(move || *clock.lock().unwrap()))
}

/// Decodes a text where a step of `n` rows takes `cost(n)` and reading logits 0.3 more.
fn run(followed: Chains, tried: Chains, cost: fn(usize) -> f64, tokens: usize) -> Run {
    let time = Arc::new(Mutex::new(Duration::ZERO));
    let mut drafter = drafter(followed, tried, &time);
    let hidden = HiddenStates::Host { values: vec![0.0].into(), width: 1 };
    let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
    let (mut emitted, mut found) = (0, Run { speed: 0.0, by_rows: vec![0; 64], logits: vec![], sources: vec![] });
    let (budget, needed) = (OwnTree::new(64, 63).unwrap(), drafter.needs().feedback);
    while emitted < tokens {
        let random = &mut SeededRandom::new(0);
        let mut context = DraftContext { tree: CoupledTree::plain(&budget), random, target: None };
        let proposal = drafter.draft(1, &mut context).unwrap();
        let tree = proposal.draft.tree();
        let reads = drafter.reads(needed) > Feedback::None;
        let accepted = (1..tree.len()).take_while(|&node| tree.token(node) == 1).count();
        *time.lock().unwrap() += Duration::from_secs_f64(1e-3 * (cost(tree.len()) + if reads { 0.3 } else { 0.0 }));
        let source = drafter.under_way.unwrap().source;
        found.by_rows[tree.len() - 1] += usize::from(!is_tried(source));
        found.logits.push(reads);
        found.sources.push(source);
        let path: Vec<usize> = (0..=accepted).collect();
        let verified = Some(VerifiedTree { tree, path: &path, next: 1, target: None });
        let read = vec![1; accepted + 1];
        drafter
            .observe(VerifiedPass { tokens: &read, output: &output, rows: &path, verified, is_source: false })
            .unwrap();
        emitted += accepted + 1;
    }
    found.speed = 1e-3 * emitted as f64 / time.lock().unwrap().as_secs_f64();
    found
}

fn steep(rows: usize) -> f64 {
    1.0 + 0.25 * (rows - 1) as f64
}

fn flat(rows: usize) -> f64 {
    1.0 + 0.01 * (rows - 1) as f64
}

#[test]
fn drafts_that_are_never_right_cost_two_percent_at_most() {
    for cost in [steep, flat, |rows| 1.0 + 0.5 * (rows - 1) as f64] {
        for tokens in [20, 50, 100, 400, 3000] {
            for every in [1, 2, 7] {
                let found = run(chains(23, every, NEVER), tried(7, NEVER), cost, tokens);
                assert!(found.speed > 0.98, "{} over {tokens} tokens, every {every}", found.speed);
                assert_eq!(found.steps(is_suffix), 0, "what is never right is not verified");
            }
        }
    }
}

/// Drafts that are right for some tokens and then never again, over and over.
#[test]
fn drafts_that_are_right_by_turns_cost_two_percent_at_most() {
    for right in [|at: usize| if at % 100 < 10 { 6 } else { 0 }, |at: usize| if at % 1000 < 500 { 1 } else { 0 }] {
        for cost in [steep, |rows| 1.0 + 0.5 * (rows - 1) as f64] {
            let found = run(chains(23, 1, right), tried(7, NEVER), cost, 4000);
            assert!(found.speed > 0.98, "{}", found.speed);
        }
    }
}

#[test]
fn drafts_that_are_right_are_used() {
    let found = run(chains(23, 1, |_| 20), tried(7, |_| 1), flat, 3000);
    // 21 tokens in a step that lasts 1.23.
    assert!(found.speed > 9.0, "{}", found.speed);
    assert!(found.by_rows[23] > 100 && found.steps(is_tried) < 30, "{:?}", found.by_rows);
    assert!(found.by_rows[0] > 4, "plain steps stay known");
}

/// Where rows are dear, a short tree with few right drafts beats a long one with more.
#[test]
fn the_fastest_size_is_used() {
    let found = run(chains(23, 1, |_| 3), tried(7, NEVER), steep, 4000);
    assert!(found.by_rows[3] > 10 * found.by_rows[7..].iter().sum::<usize>(), "{:?}", found.by_rows);
    assert!(found.speed > 1.8, "{}", found.speed);
    // One right draft in a step of two rows pays even where eight rows cost three plain steps.
    let found = run(chains(7, 1, |_| 1), tried(7, NEVER), |rows| 1.0 + 0.38 * (rows - 1) as f64, 2000);
    assert!(found.speed > 1.25 && found.by_rows[1] > 800, "{} {:?}", found.speed, found.by_rows);
}

/// Of two drafters that pay, the faster one drafts.
#[test]
fn the_faster_of_two_drafters_is_used() {
    let found = run(chains(7, 1, |_| 1), tried(7, |_| 7), flat, 9000);
    assert!(found.steps(is_tried) > 3 * found.steps(is_suffix), "{:?}", found.by_rows);
    let found = run(chains(7, 1, |_| 7), tried(7, |_| 1), flat, 9000);
    assert!(found.steps(is_suffix) > 10 * found.steps(is_tried), "{:?}", found.by_rows);
}

/// Neither the times that are forgotten nor the trials of the other drafter end what pays.
#[test]
fn drafts_that_pay_stay() {
    let found = run(chains(7, usize::MAX, NEVER), tried(7, |_| 1), flat, 12_000);
    // Two tokens in a step that lasts 1.07 and reads logits.
    assert!(found.speed > 1.35 && found.steps(is_tried) > 5000, "{} {:?}", found.speed, found.steps(is_tried));
    let found = run(chains(23, 1, |_| 20), tried(7, NEVER), flat, 60_000);
    assert!(found.speed > 15.0 && found.by_rows[0] < 150, "{} {:?}", found.speed, found.by_rows);
}

/// Drafts pay for the first 1000 tokens and never after, or the other way round.
#[test]
fn choices_follow_the_text() {
    let first = run(chains(7, 1, |at| if at < 1000 { 6 } else { 0 }), tried(7, NEVER), steep, 4000);
    assert!(first.speed > 1.15, "{}", first.speed);
    let last = run(chains(7, 1, |at| if at < 1000 { 0 } else { 6 }), tried(7, NEVER), steep, 4000);
    assert!(last.speed > 1.5, "{}", last.speed);
}

/// Logits are read in steps of the drafter that reads them, and in no others.
#[test]
fn logits_are_read_where_they_are_used() {
    let silent = chains(7, usize::MAX, NEVER);
    let found = run(silent, tried(7, NEVER), flat, 2000);
    let drafted: Vec<bool> = found.sources.iter().map(|&source| is_tried(source)).collect();
    assert_eq!(found.logits, drafted);
    assert!((1..100).contains(&found.steps(is_tried)), "{}", found.steps(is_tried));
    let found = run(silent, tried(7, |_| 3), flat, 2000);
    assert!(found.speed > 2.0, "{}", found.speed);
}

#[test]
fn drafts_keep_within_the_largest_tree() {
    let largest = largest_tree().unwrap();
    let (nodes, depth) = MeasuredDrafter::default().trial.tried.tree;
    assert!(nodes <= largest.max_nodes() && depth <= largest.max_depth());
    assert_eq!(suffixes::SIZES.last(), Some(&largest.max_nodes()));
    assert!(check_tree(&TreeKind::Own(largest)).is_ok());
    assert!(check_tree(&TreeKind::Chain(4)).unwrap_err().contains("own:24,23"));
}
