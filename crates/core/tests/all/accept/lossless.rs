//! Every lossless rule emits exactly the target's distribution, on every shape of tree and for every kind of drafter.

use gorgon_core::accept::{AcceptanceRule, Coupled, Greedy, KSeq, RuleChoice, Sampling, SamplingScheme};
use gorgon_core::dist::Transform;

use crate::accept::settings::{DRAFTERS, Drafter, SHAPES, Setting, distance, plain};

/// A rule for a transform.
pub type Make = dyn Fn(Transform) -> Box<dyn AcceptanceRule>;

pub const ALL_SCHEMES: [SamplingScheme; 3] =
    [SamplingScheme::Independent, SamplingScheme::WithoutReplacement, SamplingScheme::Deterministic];

/// How many tokens the joint distribution covers: the drafts of the deepest shape and a token more.
const HORIZON: usize = 4;

/// All settings in which children are taken by one of `schemes`.
pub fn settings(schemes: &[SamplingScheme]) -> Vec<Setting> {
    let sharper = Transform::new(0.6, None, None).unwrap();
    let cut = Transform::new(1.2, Some(2), Some(0.9)).unwrap();
    let mut settings = Vec::new();
    for (index, &shape) in SHAPES.iter().enumerate() {
        for drafter in DRAFTERS {
            for &scheme in schemes {
                let setting = |transform| Setting { seed: 11 + index as u64, drafter, scheme, shape, transform };
                settings.push(setting(Transform::IDENTITY));
                if drafter == Drafter::Random && shape.len() > 1 {
                    settings.extend([setting(sharper), setting(cut)]);
                }
            }
        }
    }
    settings
}

/// The first setting in which the rule's output distribution is not the target's.
pub fn first_failure(make: &Make, settings: &[Setting]) -> Option<String> {
    settings.iter().find_map(|setting| {
        let wanted = |prefix: &[u32]| setting.wanted(prefix);
        let rule = make(setting.transform);
        let error = distance(&setting.emitted(&*rule, HORIZON, &wanted), &plain(HORIZON, &wanted));
        (error > 1e-12).then(|| format!("error {error:e} in {setting:?}"))
    })
}

#[test]
fn sampling_emits_the_targets_law() {
    let make = |transform| Box::new(Sampling { transform }) as Box<dyn AcceptanceRule>;
    assert_eq!(first_failure(&make, &settings(&ALL_SCHEMES)), None);
}

#[test]
fn k_seq_emits_the_targets_law() {
    let make = |transform| Box::new(KSeq { transform }) as Box<dyn AcceptanceRule>;
    // Other schemes are not k-SEQ's, and fall back to the rounds of sampling.
    assert_eq!(first_failure(&make, &settings(&ALL_SCHEMES)), None);
}

#[test]
fn coupled_emits_the_targets_law() {
    let make = |transform| Box::new(Coupled { transform }) as Box<dyn AcceptanceRule>;
    assert_eq!(first_failure(&make, &settings(&[SamplingScheme::Independent])), None);
}

#[test]
fn greedy_emits_the_argmax() {
    let make = |_| Box::new(Greedy) as Box<dyn AcceptanceRule>;
    assert_eq!(first_failure(&make, &greedy_settings()), None);
}

#[test]
fn every_lossless_choice_emits_the_greedy_text_at_temperature_0() {
    for name in ["auto", "coupled", "sampling", "block", "traversal", "k-seq"] {
        let choice: RuleChoice = name.parse().unwrap();
        let make = move |transform| choice.rule(transform) as Box<dyn AcceptanceRule>;
        assert_eq!(first_failure(&make, &greedy_settings()), None, "{name}");
    }
    // The rules themselves agree with the shortcut that the choice takes at temperature 0.
    let sampling = |transform| Box::new(Sampling { transform }) as Box<dyn AcceptanceRule>;
    let coupled = |transform| Box::new(Coupled { transform }) as Box<dyn AcceptanceRule>;
    let k_seq = |transform| Box::new(KSeq { transform }) as Box<dyn AcceptanceRule>;
    for make in [&sampling as &Make, &coupled, &k_seq] {
        assert_eq!(first_failure(make, &greedy_settings()), None);
    }
}

/// Settings at temperature 0, whose drafters draw from a distribution of their own all the same: rules at temperature 0
/// must not care where tokens come from.
pub fn greedy_settings() -> Vec<Setting> {
    let at_zero = |setting: Setting| Setting { transform: Transform::GREEDY, ..setting };
    let kinds = |setting: &Setting| matches!(setting.drafter, Drafter::Random | Drafter::Absent | Drafter::Broken);
    settings(&[SamplingScheme::Independent, SamplingScheme::Deterministic])
        .into_iter()
        .filter(kinds)
        .map(at_zero)
        .collect()
}
