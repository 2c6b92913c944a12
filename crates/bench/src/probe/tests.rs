//! Tests of `probe`.

use super::*;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, DraftRows, Greedy, TargetRows};

fn time(nodes: usize, verify: f64, draft: f64) -> StepTime {
    StepTime { nodes, seconds: verify + draft, draft_seconds: draft, spread: 0.0 }
}

fn probed() -> Probed {
    let seen = Seen {
        steps: 10,
        accepted: [(vec![0], 6), (vec![1], 2), (vec![0, 0], 5), (vec![0, 0, 0], 1)].into(),
        parents: [(0, 10), (1, 8), (2, 5)].into(),
    };
    Probed { nodes: seen.nodes(), accuracies: seen.accuracies().unwrap() }
}

#[test]
fn the_accepted_path_is_counted_by_ranks() {
    let tree = TokenTree::from_parts(vec![9, 1, 2, 3, 4], vec![0, 0, 0, 2, 2]).unwrap();
    let mut logits = vec![0f32; 5 * 10];
    logits[2] = 1.0; // after the root: token 2, the second child
    logits[2 * 10 + 4] = 1.0; // after it: token 4, its second child
    let rule = Observed::new(&Greedy, Seen::count);
    let rows = TargetRows::Logits { data: &logits, vocab: 10 };
    let verdict = rule.accept(&tree, DraftRows::NONE, rows, &mut SeededRandom::new(0)).unwrap();
    assert_eq!(verdict.path, [0, 2, 4]);
    let seen = rule.into_counts();
    assert_eq!(seen.accepted, [(vec![1], 1), (vec![1, 1], 1)].into());
    assert_eq!((seen.steps, seen.parents), (1, [(0, 1), (1, 1)].into()));
}

#[test]
fn shares_and_conditional_accuracies_are_those_counted() {
    let probed = probed();
    let order: Vec<RankPath> = probed.nodes.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(order, [vec![0], vec![0, 0], vec![1], vec![0, 0, 0]]);
    assert_eq!(probed.nodes[1].1, 0.5);
    let accuracies = &probed.accuracies;
    assert_eq!(accuracies.heads.heads(), [vec![0.6, 0.2], vec![0.625], vec![0.2]]);
    assert_eq!(accuracies.chain, [0.6, 5.0 / 6.0, 0.2]);
    assert_eq!(accuracies.children, [12.0 / 23.0, 2.0 / 23.0]);
    assert!((probed.calibration().unwrap().expected_accepted - 1.4).abs() < 1e-12);
}

#[test]
fn slow_levels_make_shallow_trees_and_dear_steps_none() {
    let free = [time(1, 1.0, 0.0), time(2, 1.0, 0.0), time(3, 1.0, 0.0), time(4, 1.0, 0.0), time(5, 1.0, 0.0)];
    let choice = probed().choose(&free).unwrap();
    assert_eq!(choice.shape.len(), 5);
    assert!((choice.expected_tokens - 2.4).abs() < 1e-12);
    let levels = [time(1, 1.0, 0.0), time(2, 1.0, 0.5), time(3, 1.0, 1.0), time(4, 1.0, 1.0), time(5, 1.0, 1.5)];
    let choice = probed().choose(&levels).unwrap();
    assert_eq!(choice.shape.paths(), [vec![0], vec![1]]);
    assert!((choice.expected_speedup - 1.8 / 1.5).abs() < 1e-12);
    let dear = [time(1, 1.0, 0.0), time(2, 2.0, 0.0), time(5, 4.0, 0.0)];
    assert_eq!(probed().choose(&dear).unwrap().shape.len(), 1);
}

/// Two nodes are expected to gain 1.6 times, five 2.4 times, but by times that spread.
#[test]
fn a_gain_within_the_spread_is_not_believed() {
    let with = |two: f64, five: f64| {
        let spread = |time: StepTime, spread: f64| StepTime { spread, ..time };
        let times = [time(1, 1.0, 0.0), spread(time(2, 1.0, 0.0), two), spread(time(5, 1.0, 0.0), five)];
        let choice = probed().choose(&times).unwrap();
        (choice.shape.len(), choice.doubtful.map(|(nodes, _)| nodes))
    };
    assert_eq!(with(0.5, 1.3), (5, None));
    assert_eq!(with(0.5, 1.5), (2, Some(5)));
    assert_eq!(with(0.7, 1.5), (1, Some(5)));
    assert_eq!(with(0.7, 0.0), (5, None));
}
