//! Reference values of speculative sampling, multi-round sampling and cascades, in double precision.

use std::fs;

use gorgon_core::accept::random::enumerate;
use gorgon_core::accept::{
    AcceptanceRule, Beta, Cascade, Deferral, DraftRows, KSeq, Lossy, RandomSource, Rows, Sampling, SamplingScheme,
    TargetRows, balanced_beta, lossy_distribution,
};
use gorgon_core::dist::{Transform, normalise, overlap, residual, total_variation};
use gorgon_core::tree::TokenTree;
use serde_json::Value;

use crate::accept::settings::distance;
use crate::shared::shared;

const TOLERANCE: f64 = 1e-9;

/// The cases of a fixture file, or `None` if it is not there.
fn cases(file: &str, test: &str) -> Option<Vec<Value>> {
    let text = fs::read_to_string(shared(&format!("fixtures/sampling/{file}"), test)?).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    Some(json["cases"].as_array().unwrap().clone())
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A random source that branches on flips but only notes the weights of the last pick, which is the bonus.
struct NotesBonus<'a> {
    random: &'a mut dyn RandomSource,
    bonus: Vec<f64>,
}

impl RandomSource for NotesBonus<'_> {
    fn flip(&mut self, probability: f64) -> bool {
        self.random.flip(probability)
    }

    fn pick(&mut self, weights: &[f64]) -> usize {
        self.bonus = weights.to_vec();
        assert!(normalise(&mut self.bonus));
        0
    }
}

/// Behaviour of a rule at one position with `k` drafts.
struct Position {
    /// The distribution of the emitted token.
    output: Vec<f64>,
    /// Probability that a token is emitted because it was drafted and accepted.
    accepted: Vec<f64>,
    /// Probability that draft i is the one accepted.
    by_round: Vec<f64>,
}

fn position(rule: &dyn AcceptanceRule, p: &[f64], q: &[f64], scheme: SamplingScheme, k: usize) -> Position {
    let (vocab, nodes) = (p.len(), k + 1);
    let (target, draft) = (p.repeat(nodes), q.repeat(nodes));
    let mut result = Position { output: vec![0.0; vocab], accepted: vec![0.0; vocab], by_round: vec![0.0; k] };
    let runs = enumerate(|random| {
        let tokens = scheme.children(q, k, random);
        let mut tree = TokenTree::root(0);
        for &token in &tokens {
            tree.push(0, token);
        }
        let draft = DraftRows::single(Some(Rows::Probabilities { data: &draft, vocab }), scheme);
        let mut random = NotesBonus { random, bonus: Vec::new() };
        let verdict =
            rule.accept(&tree, draft, TargetRows::Probabilities { data: &target, vocab }, &mut random).unwrap();
        (tokens, verdict.path.get(1).copied(), random.bonus)
    });
    for (probability, (tokens, child, bonus)) in runs {
        if let Some(child) = child {
            let token = tokens[child - 1] as usize;
            result.by_round[child - 1] += probability;
            result.accepted[token] += probability;
            result.output[token] += probability;
        } else {
            result.output.iter_mut().zip(bonus).for_each(|(output, bonus)| *output += probability * bonus);
        }
    }
    result
}

const SAMPLING: Sampling = Sampling { transform: Transform::IDENTITY };

#[test]
fn single_draft() {
    let Some(cases) = cases("single_draft.json", "single_draft") else { return };
    for case in cases {
        let (p, q) = (numbers(&case["p"]), numbers(&case["q"]));
        let rate = number(&case["acceptance_rate"]);
        assert!((overlap(&p, &q) - rate).abs() < TOLERANCE);
        assert!((total_variation(&p, &q) - number(&case["total_variation"])).abs() < TOLERANCE);
        if rate < 1.0 - TOLERANCE {
            assert!(distance(&residual(&p, &q).unwrap(), &numbers(&case["residual"])) < TOLERANCE);
        }
        for rule in [&SAMPLING as &dyn AcceptanceRule, &KSeq { transform: Transform::IDENTITY }] {
            let position = position(rule, &p, &q, SamplingScheme::Independent, 1);
            assert!(distance(&position.output, &numbers(&case["output_distribution"])) < TOLERANCE);
            assert!(distance(&position.accepted, &numbers(&case["accepted_token_mass"])) < TOLERANCE);
            assert!((position.by_round[0] - rate).abs() < TOLERANCE);
        }
    }
}

#[test]
fn multi_round() {
    let Some(cases) = cases("multi_round.json", "multi_round") else { return };
    for case in cases {
        let (p, q) = (numbers(&case["p"]), numbers(&case["q"]));
        let scheme = match case["mode"].as_str().unwrap() {
            "iid" => SamplingScheme::Independent,
            "no_replacement" => SamplingScheme::WithoutReplacement,
            "top_k_fixed" => SamplingScheme::Deterministic,
            other => panic!("unknown mode {other}"),
        };
        let position = position(&SAMPLING, &p, &q, scheme, case["k"].as_u64().unwrap() as usize);
        assert!(distance(&position.output, &numbers(&case["output_distribution"])) < TOLERANCE, "{}", case["id"]);
        let by_round = numbers(&case["accept_prob_by_round"]);
        assert!(distance(&position.by_round, &by_round) < TOLERANCE, "{}", case["id"]);
        let any: f64 = position.by_round.iter().sum();
        assert!((any - number(&case["accept_prob_any"])).abs() < TOLERANCE, "{}", case["id"]);
    }
}

#[test]
fn cascades() {
    let Some(cases) = cases("cascades.json", "cascades") else { return };
    for case in cases {
        let (p, q, alpha) = (numbers(&case["p"]), numbers(&case["q"]), number(&case["alpha"]));
        let distance_pq = total_variation(&p, &q);
        assert!((distance_pq - number(&case["total_variation"])).abs() < TOLERANCE);
        for (name, expected) in case["rules"].as_object().unwrap() {
            let deferral = match name.as_str() {
                "Chow" => Deferral::Chow,
                "Diff" => Deferral::Diff,
                "OPT" => Deferral::Opt,
                "TokenV1" => Deferral::TokenV1,
                "TokenV2" => Deferral::TokenV2,
                "TokenV3" => Deferral::TokenV3,
                other => panic!("unknown rule {other}"),
            };
            let defers = deferral.defers(alpha, &p, &q, distance_pq);
            let as_numbers: Vec<f64> = defers.iter().map(|&defers| f64::from(u8::from(defers))).collect();
            assert_eq!(as_numbers, numbers(&expected["defer"]), "{name} of case {}", case["id"]);
            let aim = Deferral::mix(&defers, &p, &q);
            assert!(distance(&aim, &numbers(&expected["target"])) < TOLERANCE);
            let rate = number(&expected["acceptance_rate"]);
            assert!((overlap(&aim, &q) - rate).abs() < TOLERANCE);
            if rate < 1.0 - TOLERANCE {
                assert!(distance(&residual(&aim, &q).unwrap(), &numbers(&expected["residual"])) < TOLERANCE);
            }
            let rule = Cascade { deferral, alpha, transform: Transform::IDENTITY };
            let position = position(&rule, &p, &q, SamplingScheme::Independent, 1);
            assert!(distance(&position.output, &aim) < TOLERANCE);
            assert!((position.by_round[0] - rate).abs() < TOLERANCE);
        }
    }
}

#[test]
fn lossy() {
    let Some(cases) = cases("cascades.json", "lossy") else { return };
    for case in cases {
        let (p, q) = (numbers(&case["p"]), numbers(&case["q"]));
        for kind in ["lossy_balanced", "lossy_beta_1"] {
            let expected = &case[kind];
            let (alpha, beta) = (number(&expected["alpha"]), number(&expected["beta"]));
            let output = numbers(&expected["output_distribution"]);
            assert!(
                distance(&lossy_distribution(&p, &q, alpha, beta), &output) < TOLERANCE,
                "{kind} of {}",
                case["id"]
            );
            let mut weighings = vec![Beta::Fixed(beta)];
            if kind == "lossy_balanced" && expected["beta_is_balanced"] == true {
                assert!((balanced_beta(&p, &q, alpha).unwrap() - beta).abs() < TOLERANCE * beta);
                assert!(distance(&output, &numbers(&expected["target"])) < TOLERANCE);
                weighings.push(Beta::Balanced);
            }
            for beta in weighings {
                let rule = Lossy { alpha, beta, transform: Transform::IDENTITY };
                let position = position(&rule, &p, &q, SamplingScheme::Independent, 1);
                assert!(distance(&position.output, &output) < TOLERANCE, "{kind} of {}", case["id"]);
                assert!((position.by_round[0] - number(&expected["acceptance_rate"])).abs() < TOLERANCE);
                let chances = numbers(&expected["accept_prob"]);
                let mass: Vec<f64> = chances.iter().zip(&q).map(|(chance, q)| chance * q).collect();
                assert!(distance(&position.accepted, &mass) < TOLERANCE);
            }
        }
    }
}

#[test]
fn multi_round_sampling_and_k_seq_emit_the_same_law_but_accept_differently() {
    let (p, q) = ([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]);
    let k_seq = position(&KSeq { transform: Transform::IDENTITY }, &p, &q, SamplingScheme::Independent, 3);
    let rounds = position(&SAMPLING, &p, &q, SamplingScheme::Independent, 3);
    assert!(distance(&k_seq.output, &rounds.output) < 1e-12 && distance(&k_seq.output, &p) < 1e-12);
    assert!(distance(&k_seq.by_round, &rounds.by_round) > 1e-3);
    // Every one of the k tries of k-SEQ is accepted with the same probability, given that it is made.
    let beta = k_seq.by_round[0];
    let expected: Vec<f64> = (0..3).map(|round| beta * (1.0 - beta).powi(round)).collect();
    assert!(distance(&k_seq.by_round, &expected) < 1e-12);
}
