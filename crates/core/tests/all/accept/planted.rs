//! Every check of an output distribution fails on a rule with a planted bug.

use gorgon_core::accept::{AcceptanceRule, SamplingScheme};
use gorgon_core::dist::Transform;

use crate::accept::lossless::{ALL_SCHEMES, Make, first_failure, greedy_settings, settings};
use crate::accept::mixing;
use crate::accept::settings::{Drafter, Setting};
use crate::accept::wrong::{self, CascadeBug, SamplingBug};

#[test]
fn sampling_bugs_change_the_law() {
    let make = |bug| move |transform| wrong::sampling(transform, bug);
    assert_eq!(first_failure(&make(SamplingBug::None), &settings(&ALL_SCHEMES)), None, "the control has no bug");
    for bug in [
        SamplingBug::BonusFromTarget,
        SamplingBug::UnnormalisedResidual,
        SamplingBug::KeepsRejectedDraft,
        SamplingBug::UnnormalisedDraft,
        SamplingBug::KeepsListedToken,
        SamplingBug::ListAsDraw,
        SamplingBug::InvertedRatio,
        SamplingBug::UntransformedDraft,
        SamplingBug::AcceptsStrays,
        SamplingBug::TrustsBrokenRows,
    ] {
        // Of the three schemes, the one that shows the bug suffices; all are in the check.
        let schemes: &[SamplingScheme] = match bug {
            SamplingBug::KeepsRejectedDraft | SamplingBug::UnnormalisedDraft => &[SamplingScheme::WithoutReplacement],
            SamplingBug::KeepsListedToken | SamplingBug::ListAsDraw => &[SamplingScheme::Deterministic],
            _ => &[SamplingScheme::Independent],
        };
        let failure = first_failure(&make(bug), &settings(schemes));
        assert!(failure.is_some(), "{bug:?} went unnoticed");
    }
}

#[test]
fn k_seq_needs_rho_star() {
    let independent = settings(&[SamplingScheme::Independent]);
    let has_rows = |setting: &Setting| matches!(setting.drafter, Drafter::Random | Drafter::Equal);
    let with_rows: Vec<Setting> = independent.into_iter().filter(has_rows).collect();
    let largest = |transform| wrong::k_seq(transform, None);
    assert_eq!(first_failure(&largest, &with_rows), None, "every rho from rho* on is lossless");
    let too_small = |transform| wrong::k_seq(transform, Some(1.0));
    assert!(first_failure(&too_small, &with_rows).is_some());
}

#[test]
fn nucleus_bugs_change_the_law() {
    let independent = settings(&[SamplingScheme::Independent]);
    assert!(first_failure(&wrong::redrawing_nucleus, &independent).is_some());
    assert!(first_failure(&wrong::nucleus_per_child, &independent).is_some());
}

#[test]
fn greedy_bugs_change_the_text() {
    let bugs: [&Make; 2] = [&|_| wrong::first_child_greedy(), &|_| wrong::stale_bonus_greedy()];
    for make in bugs {
        assert!(first_failure(make, &greedy_settings()).is_some());
    }
}

#[test]
fn cascade_bugs_change_the_law() {
    let control = |transform: Transform, alpha: f64| wrong::cascade(transform, alpha, CascadeBug::None);
    assert_eq!(mixing::token_v2_failure(&control), None, "the control has no bug");
    for bug in [
        CascadeBug::ScaledRule,
        CascadeBug::UnscaledMixture,
        CascadeBug::ResidualOfTarget,
        CascadeBug::NoDeferredMass,
        CascadeBug::ListAcceptsTarget,
    ] {
        let make = move |transform: Transform, alpha: f64| -> Box<dyn AcceptanceRule> {
            wrong::cascade(transform, alpha, bug)
        };
        assert!(mixing::token_v2_failure(&make).is_some(), "{bug:?} went unnoticed");
    }
}

#[test]
fn lossy_bugs_change_the_law() {
    use gorgon_core::accept::{Beta, Lossy};
    let mistaken: [&mixing::MakeLossy; 3] = [
        // α left out, β left out, and one in the other's place.
        &|transform, _, beta| Box::new(Lossy { alpha: 0.0, beta: Beta::Fixed(beta), transform }),
        &|transform, alpha, _| Box::new(Lossy { alpha, beta: Beta::Fixed(1.0), transform }),
        &|transform, alpha, beta| Box::new(Lossy { alpha, beta: Beta::Fixed(1.0 / beta), transform }),
    ];
    for make in mistaken {
        assert!(mixing::lossy_failure(make).is_some());
    }
}
