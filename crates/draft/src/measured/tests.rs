//! Tests of `measured`, by a clock of their own.

use super::*;
use crate::drafter::VerifiedTree;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{Candidate, DraftTree};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};
use std::sync::{Arc, Mutex};

/// Drafts a chain of so many tokens in some steps, of which so many are accepted.
struct Chains {
    feedback: Feedback,
    drafts: usize,
    every: usize,
    asked: usize,
}

impl Drafter for Chains {
    fn name(&self) -> &str {
        "chains"
    }

    fn needs(&self) -> Needs {
        Needs { feedback: self.feedback, ..Needs::default() }
    }

    fn reset(&mut self) {}

    fn truncate(&mut self, _: usize) -> bool {
        true
    }

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.asked += 1;
        let mut draft = DraftTree::root(root);
        if self.asked.is_multiple_of(self.every) {
            for node in 0..self.drafts.min(context.tree.max_depth()) {
                draft.push(node, Candidate { token: 1, probability: 1.0 });
            }
        }
        Ok(Proposal::list(draft))
    }
}

/// A way of the tests, and how many of its drafts a step accepts.
struct Made {
    name: &'static str,
    drafts: usize,
    every: usize,
    feedback: Feedback,
    accepts: fn(usize) -> usize,
}

const NEVER: fn(usize) -> usize = |_| 0;

fn made(name: &'static str, drafts: usize, every: usize, accepts: fn(usize) -> usize) -> Made {
    Made { name, drafts, every, feedback: Feedback::None, accepts }
}

struct Run {
    /// Time of plain decoding over that of the drafted text.
    speed: f64,
    /// Steps by number of rows less one.
    by_rows: Vec<usize>,
    /// By step, whether logits were read.
    logits: Vec<bool>,
    drafted: Vec<bool>,
}

/// The drafter of some ways, by a clock that the test moves.
fn drafter(ways: &[Made], time: &Arc<Mutex<Duration>>) -> MeasuredDrafter {
    let way = |&Made { name, drafts, every, feedback, .. }: &Made| Way {
        name,
        drafter: Box::new(Chains { feedback, drafts, every, asked: 0 }),
        tree: OwnTree::new(drafts + 1, drafts).unwrap(),
        trial: if feedback == Feedback::None { 4 } else { 24 },
    };
    let clock = time.clone();
    MeasuredDrafter::timed_by(ways.iter().map(way).collect(), Box::new(move || *clock.lock().unwrap()))
}

/// Decodes a text where a step of `n` rows takes `cost(n)` and reading logits `logits` more.
fn run(ways: &[Made], cost: fn(usize) -> f64, logits: f64, tokens: usize) -> Run {
    let time = Arc::new(Mutex::new(Duration::ZERO));
    let mut drafter = drafter(ways, &time);
    let hidden = HiddenStates::Host { values: vec![0.0].into(), width: 1 };
    let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
    let (mut emitted, mut found) = (0, Run { speed: 0.0, by_rows: vec![0; 64], logits: vec![], drafted: vec![] });
    let (budget, needed) = (OwnTree::new(64, 63).unwrap(), drafter.needs().feedback);
    while emitted < tokens {
        let random = &mut SeededRandom::new(0);
        let mut context = DraftContext { tree: CoupledTree::plain(&budget), random, target: None };
        let proposal = drafter.draft(1, &mut context).unwrap();
        let rows = proposal.draft.tree().len();
        let way = drafter.under_way.and_then(|step| step.way);
        let reads = drafter.reads(needed) > Feedback::None;
        let accepted = way.map_or(0, |way| (ways[way].accepts)(emitted).min(rows - 1));
        *time.lock().unwrap() += Duration::from_secs_f64(1e-3 * (cost(rows) + if reads { logits } else { 0.0 }));
        let path: Vec<usize> = (0..=accepted).collect();
        let verified = Some(VerifiedTree { tree: proposal.draft.tree(), path: &path, next: 1, target: None });
        let read = vec![1; accepted + 1];
        drafter
            .observe(VerifiedPass { tokens: &read, output: &output, rows: &path, verified, is_source: false })
            .unwrap();
        emitted += accepted + 1;
        found.by_rows[rows - 1] += 1;
        found.logits.push(reads);
        found.drafted.push(way.is_some());
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
        for tokens in [50, 100, 400, 3000] {
            for every in [1, 2, 7] {
                let mut ways = vec![made("long", 23, every, NEVER), made("short", 7, every, NEVER)];
                ways.push(Made { feedback: Feedback::Logits, ..made("logits", 7, every, NEVER) });
                let found = run(&ways, cost, 0.3, tokens);
                assert!(found.speed > 0.98, "{} over {tokens} tokens, every {every}", found.speed);
            }
        }
    }
}

#[test]
fn drafts_that_are_right_are_used() {
    let ways = [made("long", 23, 1, |_| 20), made("short", 7, 1, |_| 1)];
    let found = run(&ways, flat, 0.0, 3000);
    // 21 tokens in a step that lasts 1.23.
    assert!(found.speed > 12.0, "{}", found.speed);
    assert!(found.by_rows[23] > 100 && found.by_rows[7] < 10, "{:?}", found.by_rows);
    assert!(found.by_rows[0] > 4, "plain steps stay known");
}

/// Where rows are dear, a short tree with few right drafts beats a long one with more.
#[test]
fn the_faster_of_two_ways_is_used() {
    let ways = [made("long", 23, 1, |_| 7), made("short", 3, 1, |_| 2)];
    let found = run(&ways, steep, 0.0, 4000);
    assert!(found.by_rows[3] > 20 * found.by_rows[23], "{:?}", found.by_rows);
    assert!(found.speed > 1.5, "{}", found.speed);
}

/// Drafts pay for the first 1000 tokens and never after, or the other way round.
#[test]
fn choices_follow_the_text() {
    let first = run(&[made("short", 7, 1, |at| if at < 1000 { 6 } else { 0 })], steep, 0.0, 4000);
    assert!(first.speed > 1.15, "{}", first.speed);
    let last = run(&[made("short", 7, 1, |at| if at < 1000 { 0 } else { 6 })], steep, 0.0, 4000);
    assert!(last.speed > 1.5, "{}", last.speed);
}

/// Logits are read in steps of the way that reads them, and in no others.
#[test]
fn logits_are_read_where_they_are_used() {
    let poor = Made { feedback: Feedback::Logits, ..made("logits", 7, 1, NEVER) };
    let found = run(&[poor], flat, 0.3, 2000);
    assert_eq!(found.logits, found.drafted);
    let steps = found.logits.iter().filter(|&&reads| reads).count();
    assert!(steps > 0 && steps < 100, "{steps}");
    let good = Made { feedback: Feedback::Logits, ..made("logits", 7, 1, |_| 3) };
    let found = run(&[good], flat, 0.3, 2000);
    assert!(found.speed > 2.0, "{}", found.speed);
}

#[test]
fn the_ways_keep_within_the_largest_tree() {
    let largest = largest_tree().unwrap();
    for way in ways().unwrap() {
        assert!(way.tree.max_nodes() <= largest.max_nodes() && way.tree.max_depth() <= largest.max_depth());
    }
    assert!(check_tree(&TreeKind::Own(largest)).is_ok());
    assert!(check_tree(&TreeKind::Chain(4)).unwrap_err().contains("own:24,23"));
}
