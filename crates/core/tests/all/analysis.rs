//! The analysis of speculative decoding.

use gorgon_core::{
    stats::{StatsError, best_draft_length, expected_tokens, expected_tree_tokens, operations_ratio, wall_time_gain},
    tree::{
        PublishedTree, TokenTree,
        calibrated::{HeadAccuracies, expected_accepted},
    },
};
use proptest::prelude::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-10 * a.abs().max(b.abs()).max(1.0)
}

/// `1 + α + α² + …`, term by term.
fn sum_of_powers(alpha: f64, draft_tokens: usize) -> f64 {
    (0..=draft_tokens).map(|power| alpha.powi(power as i32)).sum()
}

/// Acceptances, the awkward ones included.
fn any_alpha() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..=1.0, Just(0.0), Just(1.0), Just(1.0 - 1e-9), Just(1.0 - f64::EPSILON), Just(1e-300)]
}

proptest! {
    #[test]
    fn expected_tokens_are_the_sum_of_powers(alpha in any_alpha(), draft_tokens in 0..300_usize) {
        let (tokens, sum) = (expected_tokens(alpha, draft_tokens).unwrap(), sum_of_powers(alpha, draft_tokens));
        prop_assert!(close(tokens, sum), "{} instead of {}", tokens, sum);
    }

    #[test]
    fn gains_are_the_formulas(alpha in any_alpha(), draft_tokens in 0..40_usize, ratio in 0.0..3.0_f64) {
        let (tokens, drafts) = (sum_of_powers(alpha, draft_tokens), draft_tokens as f64);
        prop_assert!(close(wall_time_gain(alpha, draft_tokens, ratio).unwrap(), tokens / (drafts * ratio + 1.0)));
        let operations = operations_ratio(alpha, draft_tokens, ratio).unwrap();
        prop_assert!(close(operations, (drafts * ratio + drafts + 1.0) / tokens));
    }

    #[test]
    fn no_draft_length_within_the_bound_is_better(alpha in any_alpha(), ratio in 0.0..1.5_f64, bound in 0..200_usize) {
        let best = best_draft_length(alpha, ratio, bound).unwrap();
        prop_assert!(best.draft_tokens <= bound);
        prop_assert_eq!(best.wall_time_gain, wall_time_gain(alpha, best.draft_tokens, ratio).unwrap());
        for draft_tokens in 0..=bound {
            prop_assert!(wall_time_gain(alpha, draft_tokens, ratio).unwrap() <= best.wall_time_gain * (1.0 + 1e-12));
        }
    }

    #[test]
    fn a_chain_is_a_tree(alpha in any_alpha(), draft_tokens in 0..60_usize) {
        let parents = (0..=draft_tokens).map(|node| node.saturating_sub(1)).collect();
        let chain = TokenTree::from_parts(vec![0; draft_tokens + 1], parents).unwrap();
        let tokens = expected_tree_tokens(&chain, &vec![alpha; draft_tokens + 1]).unwrap();
        prop_assert!(close(tokens, expected_tokens(alpha, draft_tokens).unwrap()));
    }

    #[test]
    fn trees_agree_with_shapes(rows in prop::collection::vec(prop::collection::vec(0.0..=0.1, 10), 4)) {
        let accuracies = HeadAccuracies::new(rows.clone()).unwrap();
        for published in PublishedTree::MEDUSA {
            let shape = published.shape();
            let tree = TokenTree::from_parts(vec![0; shape.len()], shape.parents().to_vec()).unwrap();
            let given_parent = |path: &Vec<usize>| rows[path.len() - 1][path[path.len() - 1]];
            let acceptance: Vec<f64> = [1.0].into_iter().chain(shape.paths().iter().map(given_parent)).collect();
            let tokens = expected_tree_tokens(&tree, &acceptance).unwrap();
            prop_assert!(close(tokens, 1.0 + expected_accepted(shape, &accuracies).unwrap()));
        }
    }
}

#[test]
fn limits() {
    assert_eq!(expected_tokens(1.0, 7), Ok(8.0));
    assert_eq!(expected_tokens(0.0, 7), Ok(1.0));
    assert_eq!(expected_tokens(0.5, 0), Ok(1.0));
    assert_eq!(expected_tokens(0.5, 2), Ok(1.75));
    assert_eq!(expected_tokens(0.5, usize::MAX), Ok(2.0), "never more than 1 / (1 - α)");
    assert_eq!(wall_time_gain(1.0, 4, 0.0), Ok(5.0), "free and perfect drafts");
    assert_eq!(wall_time_gain(1.0, 4, 0.25), Ok(2.5));
    assert_eq!(operations_ratio(1.0, 4, 0.5), Ok(1.4));
    assert_eq!(operations_ratio(0.0, 4, 0.0), Ok(5.0), "all verification is in vain");
}

#[test]
fn best_draft_lengths() {
    let best = |alpha, ratio, bound| best_draft_length(alpha, ratio, bound).unwrap().draft_tokens;
    // α > c is exactly when one draft pays (Leviathan et al., corollary 3.9).
    assert_eq!(best(0.5, 0.5, 10), 0);
    assert_eq!(best(0.5, 0.499, 10), 1);
    // E/(0.1γ + 1) at α = 0.8: 1.64, 2.03, 2.27, 2.40, 2.459, 2.470, 2.448.
    assert_eq!(best(0.8, 0.1, 50), 6);
    assert_eq!(best(0.8, 0.1, 4), 4, "the bound holds");
    assert_eq!(best(1.0, 0.5, 64), 64, "perfect drafts: as long as allowed");
    assert_eq!(best(1.0, 1.0, 64), 0, "a drafter as slow as the target gains nothing");
    assert_eq!(best(0.0, 0.0, 64), 0, "drafts that are always wrong gain nothing even if free");
    assert_eq!(best(0.9, 0.0, 10), 10);
}

#[test]
fn a_tree_by_hand() {
    let tree = TokenTree::from_parts(vec![1, 2, 3, 4], vec![0, 0, 0, 1]).unwrap();
    let tokens = expected_tree_tokens(&tree, &[f64::NAN, 0.5, 0.25, 0.5]).unwrap();
    assert_eq!(tokens, 1.0 + 0.5 + 0.25 + 0.25, "the root's entry is not read");
}

#[test]
fn arguments_outside_their_domains_are_refused() {
    for alpha in [-0.1, 1.0 + 1e-9, f64::NAN, f64::INFINITY] {
        assert!(matches!(expected_tokens(alpha, 3), Err(StatsError::Acceptance(_))));
        assert!(matches!(best_draft_length(alpha, 0.1, 3), Err(StatsError::Acceptance(_))));
    }
    for ratio in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(matches!(wall_time_gain(0.5, 3, ratio), Err(StatsError::CostRatio(_))));
        assert!(matches!(operations_ratio(0.5, 3, ratio), Err(StatsError::CostRatio(_))));
    }
    let tree = TokenTree::from_parts(vec![1, 2], vec![0, 0]).unwrap();
    assert_eq!(expected_tree_tokens(&tree, &[1.0]), Err(StatsError::NodeCount { values: 1, nodes: 2 }));
    let error = expected_tree_tokens(&tree, &[1.0, 1.5]);
    assert_eq!(error, Err(StatsError::NodeAcceptance { node: 1, value: 1.5 }));
}
