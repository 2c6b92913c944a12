//! Calibrated trees and Sequoia's table against every possible tree of small sizes.

use gorgon_core::tree::{
    PublishedTree, RankPath, TreeShape,
    calibrated::{Calibration, CalibrationError, HeadAccuracies, calibrate, expected_accepted},
    sequoia::{SequoiaError, SequoiaTable, expected_tokens},
};
use proptest::prelude::*;

fn accuracies(rows: &[Vec<f64>]) -> HeadAccuracies {
    HeadAccuracies::new(rows.to_vec()).unwrap()
}

/// `Σ Π`, written out path by path.
fn value_of(paths: &[RankPath], probability: impl Fn(usize, usize) -> f64) -> f64 {
    let product =
        |path: &RankPath| path.iter().enumerate().map(|(depth, &rank)| probability(depth, rank)).product::<f64>();
    paths.iter().map(product).sum()
}

/// Every rank path of heads with these numbers of ranks, parents first.
fn all_paths(ranks: &[usize]) -> Vec<RankPath> {
    let mut level = vec![RankPath::new()];
    let mut all = Vec::new();
    for &width in ranks {
        level = level.iter().flat_map(|path| (0..width).map(move |rank| [&path[..], &[rank]].concat())).collect();
        all.extend(level.iter().cloned());
    }
    all
}

/// The greatest value by number of drafts, over every connected set of paths.
fn best_by_enumeration(rows: &[Vec<f64>]) -> Vec<f64> {
    let all = all_paths(&rows.iter().map(Vec::len).collect::<Vec<_>>());
    let parent = |path: &RankPath| all.iter().position(|other| other[..] == path[..path.len() - 1]);
    let parents: Vec<Option<usize>> = all.iter().map(parent).collect();
    let values: Vec<f64> =
        all.iter().map(|path| value_of(std::slice::from_ref(path), |head, rank| rows[head][rank])).collect();
    let mut best = vec![0.0_f64; all.len() + 1];
    for set in 0..1_usize << all.len() {
        let has = |node: usize| set >> node & 1 == 1;
        if (0..all.len()).all(|node| !has(node) || parents[node].is_none_or(has)) {
            let value = (0..all.len()).filter(|&node| has(node)).map(|node| values[node]).sum();
            let size = set.count_ones() as usize;
            best[size] = best[size].max(value);
        }
    }
    best
}

/// Whether every prefix of `order` is worth as much as the best tree of its size.
fn is_optimal_throughout(order: &[RankPath], rows: &[Vec<f64>]) -> bool {
    let best = best_by_enumeration(rows);
    (0..=order.len()).all(|size| {
        let value = value_of(&order[..size], |head, rank| rows[head][rank]);
        TreeShape::new(order[..size].to_vec()).is_ok() && value >= best[size] - 1e-12
    })
}

/// Medusa's construction with a mistake: guesses are compared by their own accuracy, whatever leads to them.
fn greedy_without_parents(rows: &[Vec<f64>], drafts: usize) -> Vec<RankPath> {
    let all = all_paths(&rows.iter().map(Vec::len).collect::<Vec<_>>());
    let mut order: Vec<RankPath> = Vec::new();
    while order.len() < drafts {
        let connected = |path: &&RankPath| path.len() == 1 || order.contains(&path[..path.len() - 1].to_vec());
        let open = all.iter().filter(|path| !order.contains(path)).filter(connected);
        let own = |path: &RankPath| rows[path.len() - 1][path[path.len() - 1]];
        let Some(best) = open.max_by(|a, b| own(a).total_cmp(&own(b))) else { break };
        order.push(best.clone());
    }
    order
}

fn any_rows() -> impl Strategy<Value = Vec<Vec<f64>>> {
    // At most 2 + 4 + 8 = 14 or 3 + 9 = 12 paths, so that all sets of them can be tried; not sorted on purpose.
    let accuracy = prop_oneof![9 => 0.0..=1.0, 1 => Just(0.0), 1 => Just(0.5), 1 => Just(1.0)].boxed();
    let row = |ranks| prop::collection::vec(accuracy.clone(), 0..=ranks);
    prop_oneof![prop::collection::vec(row(2), 0..=3), prop::collection::vec(row(3), 0..=2)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn calibrated_trees_are_optimal_at_every_size(rows in any_rows(), budget in 1..16_usize) {
        let Calibration { order, shape, expected_accepted: expected } = calibrate(&accuracies(&rows), budget).unwrap();
        let possible = all_paths(&rows.iter().map(Vec::len).collect::<Vec<_>>()).len();
        prop_assert_eq!(order.len(), possible.min(budget - 1), "the budget is spent if it can be");
        prop_assert_eq!(shape.len(), order.len() + 1);
        prop_assert!(is_optimal_throughout(&order, &rows));
        prop_assert!((expected - value_of(&order, |head, rank| rows[head][rank])).abs() < 1e-12);
        let smaller = calibrate(&accuracies(&rows), budget.div_ceil(2)).unwrap();
        prop_assert_eq!(&order[..smaller.order.len()], &smaller.order[..], "smaller budgets are prefixes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn calibrated_trees_beat_published_ones(
        mut rows in prop::collection::vec(prop::collection::vec(0.01..=1.0, 10), 4),
    ) {
        for row in &mut rows {
            // As measured ones are: falling with the rank, and together at most 1.
            row.sort_by(|a, b| f64::total_cmp(b, a));
            let sum = row.iter().sum::<f64>();
            row.iter_mut().for_each(|accuracy| *accuracy /= sum);
        }
        let accuracies = accuracies(&rows);
        let best = calibrate(&accuracies, 64).unwrap().expected_accepted;
        for tree in PublishedTree::MEDUSA {
            prop_assert!(best >= expected_accepted(tree.shape(), &accuracies).unwrap() - 1e-12, "{}", tree);
        }
    }

    #[test]
    fn sequoia_is_the_best_of_all_trees(acceptance in prop::collection::vec(0.0..=1.0, 0..=4)) {
        prop_assert!(is_optimal_table(&acceptance, |table, nodes, levels| table.expected_tokens(nodes, levels)));
    }

    #[test]
    fn sequoia_trees_are_worth_what_the_table_says(
        acceptance in prop::collection::vec(0.0..=1.0, 0..=5), max_nodes in 1..30_usize, max_levels in 1..8_usize,
    ) {
        let table = SequoiaTable::new(&acceptance, max_nodes, max_levels).unwrap();
        for nodes in 1..=max_nodes {
            for levels in 1..=max_levels {
                let Some(tokens) = table.expected_tokens(nodes, levels) else {
                    prop_assert_eq!(table.shape(nodes, levels), Err(SequoiaError::NoSuchTree { nodes, levels }));
                    continue;
                };
                let shape = table.shape(nodes, levels).unwrap();
                prop_assert_eq!(shape.len(), nodes);
                prop_assert!(shape.max_depth() < levels);
                prop_assert_eq!(shape.first_gap(), None, "children come in order");
                prop_assert!((1.0 + value_of(shape.paths(), |_, rank| acceptance[rank]) - tokens).abs() < 1e-12);
                prop_assert!((expected_tokens(&shape, &acceptance).unwrap() - tokens).abs() < 1e-12);
                let deeper = table.expected_tokens(nodes, levels + 1);
                prop_assert!(levels == max_levels || deeper.is_some_and(|deeper| deeper >= tokens));
            }
        }
    }

    #[test]
    fn the_choice_for_a_machine_is_the_best_of_the_table(
        acceptance in prop::collection::vec(0.0..=0.5, 1..=4),
        times in prop::collection::vec(0.5..2.0_f64, 1..24),
        level_time in 0.0..0.3_f64,
    ) {
        let table = SequoiaTable::new(&acceptance, 16, 5).unwrap();
        let choice = table.choose(&times, level_time).unwrap();
        let mut best = 1.0_f64;
        for (index, time) in times.iter().enumerate().take(16) {
            for levels in 1..=5 {
                let tokens = table.expected_tokens(index + 1, levels).unwrap_or(0.0);
                best = best.max(tokens * times[0] / (time + (levels as f64 - 1.0) * level_time));
            }
        }
        prop_assert!((choice.speedup - best).abs() < 1e-12 && choice.speedup >= 1.0);
        prop_assert_eq!(table.expected_tokens(choice.nodes, choice.levels), Some(choice.expected_tokens));
        prop_assert!(table.shape(choice.nodes, choice.levels).is_ok());
    }
}

#[test]
fn a_calibration_that_ignores_parents_is_caught() {
    let rows = vec![vec![0.5, 0.3], vec![0.4, 0.35], vec![0.9]];
    let right = calibrate(&accuracies(&rows), 6).unwrap().order;
    // Values: [0] .5, [1] .3, [0,0] .2, [0,0,0] .18, [0,1] .175.
    assert_eq!(right, [vec![0], vec![1], vec![0, 0], vec![0, 0, 0], vec![0, 1]]);
    assert!(is_optimal_throughout(&right, &rows));
    let wrong = greedy_without_parents(&rows, 5);
    assert_eq!(wrong[1], [0, 0]);
    assert!(!is_optimal_throughout(&wrong, &rows));
    let unconnected = vec![vec![0], vec![1, 0]];
    assert!(!is_optimal_throughout(&unconnected, &rows));
}

#[test]
fn calibration_ties_go_to_the_shorter_then_the_smaller_path() {
    let order = calibrate(&accuracies(&[vec![0.5, 0.5], vec![1.0, 1.0]]), 7).unwrap().order;
    assert_eq!(order, [vec![0], vec![1], vec![0, 0], vec![0, 1], vec![1, 0], vec![1, 1]]);
}

#[test]
fn impossible_calibrations_are_refused() {
    let fine = accuracies(&[vec![0.5]]);
    assert_eq!(calibrate(&fine, 1).unwrap().shape.len(), 1);
    assert_eq!(calibrate(&fine, 0), Err(CalibrationError::Budget { nodes: 0 }));
    assert_eq!(calibrate(&fine, 5000), Err(CalibrationError::Budget { nodes: 5000 }));
    for value in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let error = HeadAccuracies::new(vec![vec![0.5], vec![0.5, value]]).unwrap_err();
        assert!(matches!(error, CalibrationError::Accuracy { head: 1, rank: 1, .. }));
    }
    assert!(serde_json::from_str::<HeadAccuracies>("[[0.5], [2.0]]").unwrap_err().to_string().contains("head 1"));
    let unmeasured = TreeShape::from_json("[[0], [0, 0]]").unwrap();
    let path = vec![0, 0];
    assert_eq!(expected_accepted(&unmeasured, &fine), Err(CalibrationError::Unmeasured { path }));
}

/// Every tree of exactly `nodes` nodes on at most `levels` levels with children in order, at most `children` per node.
fn all_trees(nodes: usize, levels: usize, children: usize) -> Vec<Vec<RankPath>> {
    if levels == 0 {
        return Vec::new();
    }
    // Forests by number of children: (nodes used, paths).
    let mut forests: Vec<(usize, Vec<RankPath>)> = vec![(0, Vec::new())];
    let mut trees = Vec::new();
    for child in 0..=children {
        trees.extend(forests.iter().filter(|forest| forest.0 == nodes - 1).map(|forest| forest.1.clone()));
        let mut more = Vec::new();
        for (used, paths) in &forests {
            for size in 1..nodes - used {
                for subtree in all_trees(size, levels - 1, children) {
                    let below = subtree.iter().map(|path| [&[child][..], path].concat());
                    let grown = paths.iter().cloned().chain([vec![child]]).chain(below).collect();
                    more.push((used + size, grown));
                }
            }
        }
        forests = more;
    }
    trees
}

/// Whether `ask` answers `T(n, D)` as enumeration does.
fn is_optimal_table(acceptance: &[f64], ask: impl Fn(&SequoiaTable, usize, usize) -> Option<f64>) -> bool {
    let table = SequoiaTable::new(acceptance, 6, 6).unwrap();
    (1..=6).all(|nodes| {
        (1..=5).all(|levels| {
            let values = all_trees(nodes, levels, acceptance.len());
            let values = values.iter().map(|paths| 1.0 + value_of(paths, |_, rank| acceptance[rank]));
            match (values.max_by(f64::total_cmp), ask(&table, nodes, levels)) {
                (Some(best), Some(tokens)) => (best - tokens).abs() < 1e-12,
                (best, tokens) => best.is_none() && tokens.is_none(),
            }
        })
    })
}

#[test]
fn a_table_that_miscounts_the_root_is_caught() {
    let acceptance = [0.6, 0.2, 0.1];
    assert!(is_optimal_table(&acceptance, |table, nodes, levels| table.expected_tokens(nodes, levels)));
    assert!(!is_optimal_table(&acceptance, |table, nodes, levels| table.expected_tokens(nodes, levels + 1)), "levels");
    assert!(!is_optimal_table(&acceptance, |table, nodes, levels| table.expected_tokens(nodes, levels - 1)), "levels");
    assert!(!is_optimal_table(&acceptance, |table, nodes, levels| table.expected_tokens(nodes + 1, levels)), "nodes");
    let bonus_left_out = |table: &SequoiaTable, nodes, levels| table.expected_tokens(nodes, levels).map(|t| t - 1.0);
    assert!(!is_optimal_table(&acceptance, bonus_left_out));
    // The enumeration itself: ordered trees are counted by the Catalan numbers.
    assert_eq!((1..=7).map(|nodes| all_trees(nodes, 7, 6).len()).collect::<Vec<_>>(), [1, 1, 2, 5, 14, 42, 132]);
}

#[test]
fn a_sequoia_table_by_hand() {
    let table = SequoiaTable::new(&[0.6, 0.2], 4, 3).unwrap();
    let row = |levels| (1..=4).map(|nodes| table.expected_tokens(nodes, levels)).collect::<Vec<_>>();
    assert_eq!(row(1), [Some(1.0), None, None, None]);
    assert_eq!(row(2), [Some(1.0), Some(1.6), Some(1.8), None]);
    // Three nodes: a chain, 1 + 0.6·1.6. Four: that and a second child, or two children below the first.
    let close = |tokens: Option<f64>, expected: f64| (tokens.unwrap() - expected).abs() < 1e-12;
    assert!(close(row(3)[2], 1.96) && close(row(3)[3], 2.16));
    assert_eq!(table.shape(4, 3).unwrap().paths(), [vec![0], vec![1], vec![0, 0]]);
    assert_eq!(
        (table.expected_tokens(0, 1), table.expected_tokens(1, 0), table.expected_tokens(5, 3)),
        (None, None, None)
    );
}

#[test]
fn large_tables_are_quick_and_keep_growing() {
    let acceptance = [0.5, 0.14, 0.09, 0.06, 0.04, 0.03, 0.02, 0.015, 0.01, 0.008, 0.006, 0.005];
    let table = SequoiaTable::new(&acceptance, 128, 16).unwrap();
    let tokens: Vec<f64> = (1..=128).map(|nodes| table.expected_tokens(nodes, 16).unwrap()).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]));
    let shape = table.shape(128, 16).unwrap();
    assert!((expected_tokens(&shape, &acceptance).unwrap() - tokens[127]).abs() < 1e-12);
}

#[test]
fn a_machine_without_spare_time_decodes_plainly() {
    let table = SequoiaTable::new(&[0.6, 0.2], 8, 4).unwrap();
    let linear: Vec<f64> = (1..=8).map(f64::from).collect();
    let choice = table.choose(&linear, 0.1).unwrap();
    assert_eq!((choice.nodes, choice.levels, choice.speedup), (1, 1, 1.0));
    let free = table.choose(&[1.0; 8], 0.0).unwrap();
    assert_eq!((free.nodes, free.levels), (8, 4));
}

#[test]
fn impossible_tables_are_refused() {
    assert!(matches!(SequoiaTable::new(&[0.5, f64::NAN], 4, 4), Err(SequoiaError::Acceptance { child: 1, .. })));
    assert!(matches!(SequoiaTable::new(&[1.5], 4, 4), Err(SequoiaError::Acceptance { child: 0, value: 1.5 })));
    assert!(matches!(SequoiaTable::new(&[0.5], 0, 4), Err(SequoiaError::Nodes { nodes: 0 })));
    assert!(matches!(SequoiaTable::new(&[0.5], 4, 0), Err(SequoiaError::Levels { levels: 0 })));
    let table = SequoiaTable::new(&[0.5], 4, 4).unwrap();
    assert_eq!(table.choose(&[], 0.0), Err(SequoiaError::NoStepTimes));
    assert_eq!(table.choose(&[1.0, 0.0], 0.0), Err(SequoiaError::StepTime { nodes: 2, time: 0.0 }));
    assert!(matches!(table.choose(&[1.0, f64::NAN], 0.0), Err(SequoiaError::StepTime { nodes: 2, .. })));
    assert_eq!(table.choose(&[1.0], -1.0), Err(SequoiaError::LevelTime(-1.0)));
    let path = vec![1];
    let shape = TreeShape::from_json("[[0], [1]]").unwrap();
    assert_eq!(expected_tokens(&shape, &[0.5]), Err(SequoiaError::Unmeasured { path }));
}
