//! Consistency training: losses and gradients of another implementation, what must be zero, and slopes.

use crate::cllm_fitting::fitting;
use crate::on_backbone;
use crate::shared;

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::trajectory::iterate;
use gorgon_kernels::Table;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target, read};
use gorgon_model::weights::Checkpoint;
use gorgon_train::config::Consistency;
use gorgon_train::llama::{Llama, Packed};
use gorgon_train::methods::cllm::{ConsistencyLoss, Sample, augmented};
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::Objective;
use on_backbone::stirred;
use safetensors::SafeTensors;
use serde_json::Value;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

fn tokens(value: &Value) -> Vec<Token> {
    value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as Token).collect()
}

struct Fixture {
    bytes: Vec<u8>,
    json: Value,
    decoder: Arc<Decoder>,
    llama: Llama,
    parameters: Vec<Parameter>,
}

impl Fixture {
    fn open(root: &Path) -> Self {
        let dir = root.join("model");
        let decoder = Arc::new(Decoder::load(&dir, &Compute::cpu(FloatFormat::F32)).unwrap());
        let llama = Llama::of(decoder.config(), 128, Device::flex()).unwrap();
        Self {
            bytes: std::fs::read(root.join("cllm.safetensors")).unwrap(),
            json: serde_json::from_slice(&std::fs::read(root.join("cllm.json")).unwrap()).unwrap(),
            parameters: llama.load(&Checkpoint::open(&dir).unwrap()).unwrap(),
            decoder,
            llama,
        }
    }

    fn floats(&self, name: &str) -> Option<Vec<f32>> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let bytes = file.tensor(name).ok()?.data().to_vec();
        Some(bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect())
    }

    /// The weighted loss of a sample and its gradients of all weights.
    fn losses(&self, sample: Sample<'_>, [consistency, text, smoothing]: [f64; 3]) -> (f64, Vec<Vec<f32>>) {
        let weights: Vec<Tensor<1>> = self.parameters.iter().map(|p| p.value.clone()).collect();
        let leaves: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff().require_grad()).collect();
        let (s, head) = (self.llama.shape(), self.llama.lm_head());
        let lm_head = Table::from(weights[head].clone().reshape([s.vocab_size, s.hidden_size]));
        let (llama, chunk_rows) = (&self.llama, 5);
        let with =
            ConsistencyLoss { llama, lm_head: &lm_head, fits_lm_head: true, chunk_rows, consistency, text, smoothing };
        let found = with.of(&leaves, &[sample]);
        let mut gradients = found.carry.of_leaves(&leaves, &weights);
        if let Some(d_lm_head) = found.d_lm_head {
            gradients[head] = gradients[head].clone() + d_lm_head.reshape([-1]);
        }
        let loss = consistency * found.consistency[0] + text * found.text[0];
        (loss, gradients.into_iter().map(read).collect())
    }
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt()
}

/// Checks a loss within the fixtures' tolerance.
fn check_loss(loss: f64, want: &Value, name: &str) {
    let want = want.as_f64().unwrap();
    assert!((loss - want).abs() <= 1e-5 * want.abs(), "{name}: {loss} {want}");
}

/// Norms of all gradients, and every value of those that the fixtures hold in full.
fn check_gradients(fixture: &Fixture, (number, name): (usize, &str), gradients: &[Vec<f32>], expected: &Value) {
    for (parameter, gradient) in fixture.parameters.iter().zip(gradients) {
        let what = format!("{name} of {number}: {}", parameter.name);
        let want = expected["gradient_norms"][&parameter.name].as_f64().unwrap();
        assert!((norm(gradient) - want).abs() < 1e-3 * want + 1e-6, "{what}: {} {want}", norm(gradient));
        let Some(whole) = fixture.floats(&format!("t{number}.{name}.grad.{}", parameter.name)) else { continue };
        // The losses are sums over positions, so what rounding leaves is measured by the largest value: in f32 it is 6e-7
        // of it at most.
        let bound = 1e-6 * whole.iter().fold(0f32, |most, value| most.max(value.abs()));
        let worst = gradient.iter().zip(&whole).map(|(a, b)| (a - b).abs() - 1e-3 * b.abs()).fold(0.0, f32::max);
        assert!(worst <= bound, "{what}: off by {worst}");
    }
}

/// The states of a block, its prefix first.
fn block_states(block: &Value) -> (Vec<Token>, Vec<Vec<Token>>) {
    (tokens(&block["prefix"]), block["states"].as_array().unwrap().iter().map(tokens).collect())
}

#[test]
fn losses_and_gradients_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/cllm", "cllm") else { return };
    let fixture = Fixture::open(&root);
    let omega = fixture.json["omega"].as_f64().unwrap();
    for (number, one) in fixture.json["trajectories"].as_array().unwrap().iter().enumerate() {
        let (prefix, states) = block_states(&one["blocks"][one["losses_for"]["block"].as_u64().unwrap() as usize]);
        let at = one["losses_for"]["state"].as_u64().unwrap() as usize;
        let fixed = &states[states.len() - 1];
        let none = vec![false; prefix.len()];
        let global = Sample { prefix: &prefix, text: fixed, labelled: None, target: fixed, state: &states[at] };
        let answer = Sample { labelled: Some(&none), ..global };
        let local = Sample { target: &states[at + 1], ..global };
        for (name, sample, parts) in [
            ("global", global, [1.0, 0.0, 0.0]),
            ("local", local, [1.0, 0.0, 0.0]),
            ("ar_all", global, [0.0, 1.0, 0.0]),
            // The text is `x` with `y*`, whatever the state is compared with.
            ("ar_all", local, [0.0, 1.0, 0.0]),
            ("ar_answer", answer, [0.0, 1.0, 0.0]),
            ("ar_all_smoothed_0.1", global, [0.0, 1.0, 0.1]),
            ("total", global, [1.0, omega, 0.0]),
        ] {
            let (loss, gradients) = fixture.losses(sample, parts);
            check_loss(loss, &one["losses"][name]["loss"], &format!("{name} of {number}"));
            check_gradients(&fixture, (number, name), &gradients, &one["losses"][name]);
        }
    }
}

/// Every state's loss, and where it is nothing.
#[test]
fn losses_of_all_states_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/cllm", "cllm") else { return };
    let fixture = Fixture::open(&root);
    let trajectories = fixture.json["trajectories"].as_array().unwrap().iter();
    for (number, block) in trajectories.flat_map(|one| one["blocks"].as_array().unwrap()).enumerate() {
        let (prefix, states) = block_states(block);
        let fixed = &states[states.len() - 1];
        let global = Sample { prefix: &prefix, text: fixed, labelled: None, target: fixed, state: fixed };
        for (state, want) in states.iter().zip(block["global_loss_by_state"].as_array().unwrap()) {
            let (loss, gradients) = fixture.losses(Sample { state, ..global }, [1.0, 0.0, 0.0]);
            check_loss(loss, want, &format!("global in block {number}"));
            if state == fixed {
                assert!(gradients.iter().flatten().all(|&value| value == 0.0), "the fixed point has a gradient");
            }
        }
        for (pair, want) in states.windows(2).zip(block["local_loss_by_pair"].as_array().unwrap()) {
            let sample = Sample { target: &pair[1], state: &pair[0], ..global };
            check_loss(fixture.losses(sample, [1.0, 0.0, 0.0]).0, want, &format!("local in block {number}"));
        }
    }
}

#[test]
fn trajectories_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/cllm", "cllm") else { return };
    let fixture = Fixture::open(&root);
    for one in fixture.json["trajectories"].as_array().unwrap() {
        for block in one["blocks"].as_array().unwrap() {
            let (prefix, states) = (tokens(&block["prefix"]), block["states"].as_array().unwrap());
            let (root, before) = prefix.split_last().unwrap();
            let mut target = DecoderTarget::new(fixture.decoder.clone(), 128, Hooks::none());
            target.extend(before).unwrap();
            let found = iterate(&mut target, *root, tokens(&states[0])).unwrap();
            assert_eq!(found, states.iter().map(tokens).collect::<Vec<_>>());
            assert_eq!(found.len() as u64 - 1, block["iterations"].as_u64().unwrap());
            assert_eq!(target.len(), before.len());
        }
    }
}

/// Half of a state's wrong tokens become right. The first wrong one stays: the state agrees with the fixed point as far
/// as the fixtures say of it.
#[test]
fn augmented_states_are_half_right() {
    let Some(root) = shared::shared("fixtures/cllm", "cllm") else { return };
    let fixture = Fixture::open(&root);
    let mut changed = 0;
    for block in
        fixture.json["trajectories"].as_array().unwrap().iter().flat_map(|one| one["blocks"].as_array().unwrap())
    {
        let states: Vec<Vec<Token>> = block["states"].as_array().unwrap().iter().map(tokens).collect();
        let fixed = &states[states.len() - 1];
        for (number, (state, first)) in states.iter().zip(tokens(&block["first_difference_by_state"])).enumerate() {
            let wrong = |state: &[Token]| (0..fixed.len()).filter(|&at| state[at] != fixed[at]).collect::<Vec<_>>();
            let before = wrong(state);
            for seed in 0..20 {
                let found = augmented(state, fixed, &mut SeededRandom::stream(seed, number as u64));
                let left = wrong(&found);
                assert_eq!(left.len(), before.len() - before.len() / 2);
                assert_eq!(left.first().map_or(fixed.len(), |&at| at), first as usize);
                assert!(left.iter().all(|&at| before.contains(&at) && found[at] == state[at]));
                changed += usize::from(found != *state);
            }
        }
    }
    assert!(changed > 0);
}

/// Every later wrong token is corrected as often as any other.
#[test]
fn augmentation_draws_evenly() {
    let (state, fixed) = ([9; 9], [9, 1, 2, 3, 4, 5, 6, 7, 8]);
    let mut right = [0; 9];
    for seed in 0..7000 {
        let found = augmented(&state, &fixed, &mut SeededRandom::new(seed));
        (1..9).filter(|&at| found[at] == fixed[at]).for_each(|at| right[at] += 1);
    }
    assert_eq!(right[1], 0, "the first wrong one stays");
    // Four of the other seven each time; five deviations.
    assert!(right[2..].iter().all(|&times: &i32| (times - 4000).abs() < 210), "{right:?}");
}

/// A state that differs from the fixed point in its last token has the fixed point's contexts everywhere.
#[test]
fn a_wrong_last_token_has_no_gradient() {
    let Some(root) = shared::shared("fixtures/cllm", "cllm") else { return };
    let fixture = Fixture::open(&root);
    let (prefix, target, state) = ([5, 6, 7], [8, 9, 10], [8, 9, 11]);
    let sample = Sample { prefix: &prefix, text: &target, labelled: None, target: &target, state: &state };
    let (loss, gradients) = fixture.losses(sample, [1.0, 0.0, 0.0]);
    assert_eq!(loss, 0.0);
    assert!(gradients.iter().flatten().all(|&value| value == 0.0));
}

/// `ln p` of the next token behind each of some rows, by a plain pass.
fn log_probabilities(llama: &Llama, weights: &[Tensor<1>], ids: &[Token], rows: Range<usize>) -> Vec<Vec<f64>> {
    let packed = Packed { tokens: ids.to_vec(), segments: std::iter::once(0..ids.len()).collect() };
    let head: &Tensor<2> = &llama.lm_head_of(weights);
    let logits = read(llama.hidden(weights, &packed).inner().matmul(head.clone().transpose()));
    let vocab = llama.shape().vocab_size;
    let of = |row: &[f32]| {
        let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
        row.iter().map(|&logit| f64::from(logit) - sum.ln()).collect()
    };
    logits.chunks_exact(vocab).map(of).skip(rows.start).take(rows.len()).collect()
}

/// The gradient of the global loss is the slope of the divergence from a teacher that stays as it is.
#[test]
fn gradients_of_the_consistency_are_slopes() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(dir.path(), true, Consistency::Global);
    let (decoder, parameters) = (objective.data.features.decoder.clone(), stirred(objective.parameters(3)));
    let fixture = Fixture { bytes: vec![], json: Value::Null, decoder, llama: objective.llama, parameters };
    let (prefix, target, state) = ([5, 6, 7], [8, 9, 10, 11, 12], [8, 3, 10, 20, 21]);
    let sample = Sample { prefix: &prefix, text: &target, labelled: None, target: &target, state: &state };
    let (loss, gradients) = fixture.losses(sample, [1.0, 0.0, 0.0]);
    let weights: Vec<Tensor<1>> = fixture.parameters.iter().map(|p| p.value.clone()).collect();
    // Contexts differ from the second place on: the row before it has read the first wrong token.
    let said = |weights: &[Tensor<1>], block: &[Token]| {
        let weights: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff()).collect();
        log_probabilities(&fixture.llama, &weights, &[&prefix, block].concat(), 4..7)
    };
    let teacher = said(&weights, &target);
    let divergence = |weights: &[Tensor<1>]| -> f64 {
        let of = |(p, q): (&Vec<f64>, Vec<f64>)| p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
        teacher.iter().zip(said(weights, &state)).map(of).sum()
    };
    assert!((loss - divergence(&weights)).abs() < 1e-4 * loss, "{loss} {}", divergence(&weights));
    for (i, (parameter, gradient)) in fixture.parameters.iter().zip(&gradients).enumerate() {
        let direction: Vec<f32> = (0..gradient.len()).map(|j| ((j + 3 * i) * 7919 % 101) as f32 / 50.0 - 1.0).collect();
        let expected: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let moved = |by: f32| {
            let mut moved = weights.clone();
            let direction = TensorData::new(direction.clone(), [direction.len()]);
            moved[i] = moved[i].clone() + Tensor::<1>::from_data(direction, &Device::flex()) * by;
            divergence(&moved)
        };
        let by = 2e-3;
        let slope = (moved(by) - moved(-by)) / f64::from(2.0 * by);
        assert!((slope - expected).abs() < 0.02 * (0.05 + slope.abs()), "{}: {expected} {slope}", parameter.name);
    }
}
