//! Every lossless rule emits exactly the target's law, on every shape of tree and for every kind of drafter.

use gorgon_core::accept::{AcceptanceRule, Greedy, KSeq, Nucleus, RuleChoice, Sampling, SamplingScheme};
use gorgon_core::dist::Transform;

use crate::laws::{DRAFTERS, Drafter, SHAPES, World, distance, plain};

/// A rule for a transform.
pub type Make = dyn Fn(Transform) -> Box<dyn AcceptanceRule>;

pub const ALL_SCHEMES: [SamplingScheme; 3] =
    [SamplingScheme::Independent, SamplingScheme::WithoutReplacement, SamplingScheme::Deterministic];

/// How many tokens the joint law covers: the drafts of the deepest shape and a token more.
const HORIZON: usize = 4;

/// All worlds in which children are taken by one of `schemes`.
pub fn worlds(schemes: &[SamplingScheme]) -> Vec<World> {
    let sharper = Transform::new(0.6, None, None).unwrap();
    let cut = Transform::new(1.2, Some(2), Some(0.9)).unwrap();
    let mut worlds = Vec::new();
    for (index, &shape) in SHAPES.iter().enumerate() {
        for drafter in DRAFTERS {
            for &scheme in schemes {
                let world = |transform| World { seed: 11 + index as u64, drafter, scheme, shape, transform };
                worlds.push(world(Transform::IDENTITY));
                if drafter == Drafter::Random && shape.len() > 1 {
                    worlds.extend([world(sharper), world(cut)]);
                }
            }
        }
    }
    worlds
}

/// The first world in which the rule's output law is not the target's.
pub fn first_failure(make: &Make, worlds: &[World]) -> Option<String> {
    worlds.iter().find_map(|world| {
        let wanted = |prefix: &[u32]| world.wanted(prefix);
        let rule = make(world.transform);
        let error = distance(&world.emitted(&*rule, HORIZON, &wanted), &plain(HORIZON, &wanted));
        (error > 1e-12).then(|| format!("error {error:e} in {world:?}"))
    })
}

#[test]
fn sampling_emits_the_targets_law() {
    let make = |transform| Box::new(Sampling { transform }) as Box<dyn AcceptanceRule>;
    assert_eq!(first_failure(&make, &worlds(&ALL_SCHEMES)), None);
}

#[test]
fn k_seq_emits_the_targets_law() {
    let make = |transform| Box::new(KSeq { transform }) as Box<dyn AcceptanceRule>;
    // Other schemes are not k-SEQ's, and fall back to the rounds of sampling.
    assert_eq!(first_failure(&make, &worlds(&ALL_SCHEMES)), None);
}

#[test]
fn nucleus_emits_the_targets_law() {
    let make = |transform| Box::new(Nucleus { transform }) as Box<dyn AcceptanceRule>;
    assert_eq!(first_failure(&make, &worlds(&[SamplingScheme::Independent])), None);
}

#[test]
fn greedy_emits_the_argmax() {
    let make = |_| Box::new(Greedy) as Box<dyn AcceptanceRule>;
    assert_eq!(first_failure(&make, &greedy_worlds()), None);
}

#[test]
fn every_lossless_choice_emits_the_greedy_text_at_temperature_0() {
    for name in ["auto", "sampling", "nucleus", "k-seq"] {
        let choice: RuleChoice = name.parse().unwrap();
        let make = move |transform| choice.rule(transform) as Box<dyn AcceptanceRule>;
        assert_eq!(first_failure(&make, &greedy_worlds()), None, "{name}");
    }
    // The rules themselves agree with the shortcut that the choice takes at temperature 0.
    let sampling = |transform| Box::new(Sampling { transform }) as Box<dyn AcceptanceRule>;
    let nucleus = |transform| Box::new(Nucleus { transform }) as Box<dyn AcceptanceRule>;
    let k_seq = |transform| Box::new(KSeq { transform }) as Box<dyn AcceptanceRule>;
    for make in [&sampling as &Make, &nucleus, &k_seq] {
        assert_eq!(first_failure(make, &greedy_worlds()), None);
    }
}

/// Worlds at temperature 0, whose drafters draw from a law of their own all the same: rules at temperature 0 must not
/// care where tokens come from.
pub fn greedy_worlds() -> Vec<World> {
    let at_zero = |world: World| World { transform: Transform::GREEDY, ..world };
    let kinds = |world: &World| matches!(world.drafter, Drafter::Random | Drafter::Absent | Drafter::Broken);
    worlds(&[SamplingScheme::Independent, SamplingScheme::Deterministic])
        .into_iter()
        .filter(kinds)
        .map(at_zero)
        .collect()
}
