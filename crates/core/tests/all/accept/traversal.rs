//! Block and traversal verification: exact, never shorter than the rules they improve on, and bugs are noticed.

use gorgon_core::accept::{AcceptanceRule, Block, Sampling, SamplingScheme, Traversal};
use gorgon_core::dist::Transform;

use crate::accept::lossless::{ALL_SCHEMES, first_failure, settings};
use crate::accept::settings::{Drafter, SHAPES, Setting, distance, plain};
use crate::accept::wrong_paths::{self, BlockBug, TraversalBug};

/// A chain of three drafts.
const CHAIN: &[usize] = SHAPES[1];
/// Trees by children per level.
const TREES: [&[usize]; 3] = [&[0, 0, 0, 1, 1, 2, 2], &[0, 0, 0, 0, 1, 1, 2, 2, 3, 3], &[0, 0, 0, 1, 2]];
/// Tokens that are compared: the drafts of the chain and the bonus.
const HORIZON: usize = 4;

fn drawn(seed: u64, shape: &'static [usize], scheme: SamplingScheme) -> Setting {
    Setting { seed, drafter: Drafter::Random, scheme, shape, transform: Transform::IDENTITY }
}

fn error(rule: &dyn AcceptanceRule, setting: &Setting, horizon: usize) -> f64 {
    let wanted = |prefix: &[u32]| setting.wanted(prefix);
    distance(&setting.emitted(rule, horizon, &wanted), &plain(horizon, &wanted))
}

#[test]
fn block_emits_the_targets_law() {
    let make = |transform| Box::new(Block { transform }) as Box<dyn AcceptanceRule>;
    assert_eq!(first_failure(&make, &settings(&ALL_SCHEMES)), None);
}

#[test]
fn traversal_emits_the_targets_law() {
    let make = |transform| Box::new(Traversal { transform }) as Box<dyn AcceptanceRule>;
    assert_eq!(first_failure(&make, &settings(&ALL_SCHEMES)), None);
}

#[test]
fn a_block_is_exact_and_never_shorter_than_its_tokens() {
    let transform = Transform::IDENTITY;
    let (tokens, block, traversal) = (Sampling { transform }, Block { transform }, Traversal { transform });
    let by_formula = wrong_paths::block(transform, BlockBug::None);
    let mut longer = 0;
    for seed in 0..30 {
        let setting = drawn(seed, CHAIN, SamplingScheme::Independent);
        for rule in [&tokens as &dyn AcceptanceRule, &block, &traversal, &*by_formula] {
            assert!(error(rule, &setting, HORIZON) < 1e-12, "{seed}");
        }
        let length = |rule: &dyn AcceptanceRule| setting.accepted(rule);
        assert!(length(&block) > length(&tokens) - 1e-12, "{seed}");
        longer += usize::from(length(&block) > length(&tokens) + 1e-6);
        assert!((length(&block) - length(&*by_formula)).abs() < 1e-12, "{seed}: not the paper's formulas");
        assert!((length(&block) - length(&traversal)).abs() < 1e-12, "{seed}: a chain is a tree");
    }
    assert!(longer > 20, "blocks are longer in {longer} of 30");
}

#[test]
fn traversal_is_exact_and_never_shorter_than_rounds() {
    let transform = Transform::IDENTITY;
    let (rounds, traversal) = (Sampling { transform }, Traversal { transform });
    let [two_two, three_two, two_one] = TREES;
    let without = SamplingScheme::WithoutReplacement;
    let with = SamplingScheme::Independent;
    let check = |shape, scheme, seeds: std::ops::Range<u64>| {
        for seed in seeds {
            let setting = drawn(seed, shape, scheme);
            assert!(error(&traversal, &setting, 3) < 1e-12, "{setting:?}");
            assert!(error(&rounds, &setting, 3) < 1e-12, "{setting:?}");
            assert!(setting.accepted(&traversal) > setting.accepted(&rounds) - 1e-12, "{setting:?}");
        }
    };
    std::thread::scope(|scope| {
        // The largest shape takes longest.
        for first in [100, 104, 108] {
            scope.spawn(move || check(three_two, without, first..first + 4));
        }
        for (shape, scheme) in [(two_two, without), (two_one, without), (two_two, with)] {
            scope.spawn(move || check(shape, scheme, 100..112));
        }
    });
}

#[test]
fn block_bugs_change_the_law() {
    let error = |bug| {
        let rule = wrong_paths::block(Transform::IDENTITY, bug);
        let worst =
            |worst: f64, seed| worst.max(error(&*rule, &drawn(seed, CHAIN, SamplingScheme::Independent), HORIZON));
        (0..10).fold(0.0, worst)
    };
    assert!(error(BlockBug::None) < 1e-12, "the control has no bug");
    for bug in [
        BlockBug::NoRest,
        BlockBug::StopsAtFirst,
        BlockBug::BonusFromTarget,
        BlockBug::TokenResidual,
        BlockBug::UnboundedReach,
    ] {
        assert!(error(bug) > 1e-3, "{bug:?} went unnoticed");
    }
}

#[test]
fn traversal_bugs_change_the_law() {
    let error = |bug| {
        let rule = wrong_paths::traversal(Transform::IDENTITY, bug, true);
        let setting = |seed| drawn(seed, TREES[0], SamplingScheme::WithoutReplacement);
        (0..6).fold(0.0, |worst: f64, seed| worst.max(error(&*rule, &setting(seed), 3)))
    };
    assert!(error(TraversalBug::None) < 1e-12, "the control has no bug");
    for bug in [
        TraversalBug::NoRest,
        TraversalBug::KeepsReach,
        TraversalBug::UnnormalisedResidual,
        TraversalBug::KeepsRejectedDraft,
        TraversalBug::TokenResidual,
    ] {
        assert!(error(bug) > 1e-3, "{bug:?} went unnoticed");
    }
}
