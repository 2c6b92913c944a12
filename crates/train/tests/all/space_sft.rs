//! SPACE with its backbone: losses and gradients of another implementation, where masks stand, slopes, limits, and
//! training that neither threads nor interruptions change by a bit.

use crate::on_backbone;
use crate::shared;

use burn::tensor::{Device, Tensor};
use gorgon_data::render::Example;
use gorgon_draft::probes::{ProbeTraining, SpaceConfig};
use gorgon_kernels::Frozen;
use gorgon_model::config::ModelConfig;
use gorgon_model::target::read;
use gorgon_model::weights::Checkpoint;
use gorgon_train::config::{FittedWeights, SpaceSftConfig, TrainConfig};
use gorgon_train::evaluation::Metrics;
use gorgon_train::llama::{Llama, Packed};
use gorgon_train::lora::{Lora, LoraConfig, NetworkWeights};
use gorgon_train::methods::space_sft::Masked;
use gorgon_train::methods::{OnBackbone, SpaceSftFitting, lm_head};
use gorgon_train::trainer::Objective;
use on_backbone::{SHAPE, assert_slopes, conversations, fitted, step, stirred};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::Path;

fn fitting(dir: &Path, weights: FittedWeights, cut: f64) -> SpaceSftFitting {
    let data = conversations(dir);
    let base = Checkpoint::open(dir).unwrap();
    let model = data.features.decoder.config().clone();
    let llama = Llama::of(&model, 64, Device::flex()).unwrap();
    let start = llama.load(&base).unwrap();
    let lora = LoraConfig { rank: 3, ..LoraConfig::default() };
    let config = SpaceSftConfig { weights, lora: lora.clone(), masks: 3, cut, ..SpaceSftConfig::default() };
    let probes = SpaceConfig { masks: 3, ..SpaceConfig::default() };
    let training = ProbeTraining::space(&probes, model.hidden_size, model.vocab_size);
    SpaceSftFitting {
        weights: match weights {
            FittedWeights::Full => NetworkWeights::Full(start),
            FittedWeights::Lora => NetworkWeights::Lora(Lora::new(lora, start)),
        },
        lm_head: lm_head(&base, &model, &Device::flex(), Some(Frozen::default())).unwrap(),
        llama,
        base,
        chunk_rows: 16,
        config,
        shape: training.shape,
        start: training.start.unwrap(),
        seed: 3,
        data,
    }
}

/// Masks follow the cut as far as the assistant goes on, and mask `j` is about the token `j + 1` places on.
#[test]
fn masks_stand_behind_the_cut() {
    let own = |marks: &str| marks.bytes().map(|mark| mark == b'1').collect::<Vec<bool>>();
    let example = Example { ids: (10..20).collect(), assistant: own("0011111011"), corrected: None };
    let mut masked = Masked::default();
    masked.push(&example, Some(3), 3, true);
    masked.push(&example, Some(1), 2, false);
    masked.push(&example, None, 3, true);
    assert_eq!(masked.packed.segments, [0..6, 6..10, 10..20]);
    assert_eq!(masked.packed.tokens[..10], [10, 11, 12, 13, 0, 0, 10, 11, 0, 0]);
    assert_eq!(masked.masks[..10], [false, false, false, false, true, true, false, false, true, true]);
    assert!(masked.masks[10..].iter().all(|mask| !mask));
    // The text up to the token behind the cut, then x_5 and x_6; x_7 is not the assistant's.
    assert_eq!(masked.rows[..5], [1, 2, 3, 4, 5]);
    assert_eq!(masked.tokens[..5], [12, 13, 14, 15, 16]);
    assert_eq!(masked.places[..5], [0, 0, 0, 1, 2]);
    assert_eq!(
        (&masked.rows[5..7], &masked.tokens[5..7], &masked.places[5..7]),
        (&[8, 9][..], &[13, 14][..], &[1, 2][..])
    );
    assert_eq!(masked.tokens[7..], [12, 13, 14, 15, 16, 18, 19]);
    assert_eq!(masked.rows[7..], [11, 12, 13, 14, 15, 17, 18]);
}

/// A mask with the embedding of a token is that token.
#[test]
fn a_mask_that_equals_a_token_is_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(dir.path(), FittedWeights::Full, 0.5);
    let parameters = objective.parameters(0);
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone().autodiff()).collect();
    let (network, mask) = weights.split_at(weights.len() - 1);
    let token = SHAPE.vocab_size as u32 - 1;
    let of = |tokens: &[u32]| Packed { tokens: tokens.into(), segments: vec![0..3, 3..6] };
    let masks = [false, false, true, false, true, true];
    let masked = objective.llama.hidden_masked(network, &of(&[1, 2, 0, 3, 0, 0]), (&mask[0], &masks));
    let plain = objective.llama.hidden(network, &of(&[1, 2, token, 3, token, token]));
    for (a, b) in read(masked.inner()).iter().zip(read(plain.inner())) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}

/// Loss and gradients of another implementation, for a text with masks behind it.
struct Fixture {
    bytes: Vec<u8>,
    expected: Value,
}

impl Fixture {
    fn open(root: &Path) -> Self {
        let bytes = std::fs::read(root.join("probes.safetensors")).unwrap();
        let json: Value = serde_json::from_slice(&std::fs::read(root.join("probes.json")).unwrap()).unwrap();
        Self { bytes, expected: json["space_train"].clone() }
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let data = file.tensor(&format!("space_train.{name}")).unwrap().data();
        data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn numbers(&self, name: &str) -> Vec<i64> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let data = file.tensor(&format!("space_train.{name}")).unwrap().data();
        data.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    /// The text with its labels, and the token that the masks are.
    fn masked(&self) -> (Masked, usize) {
        let (ids, labels) = (self.numbers("input_ids"), self.numbers("labels"));
        let text = ids.len() - self.expected["k"].as_u64().unwrap() as usize - 1;
        let mut masked = Masked::default();
        masked.packed.tokens.extend(ids.iter().map(|&id| id as u32));
        masked.packed.segments.push(0..ids.len());
        masked.masks.extend((0..ids.len()).map(|row| row >= text));
        for (row, &label) in labels.iter().enumerate().filter(|(_, label)| **label >= 0) {
            masked.rows.push(row as i32);
            masked.tokens.push(label as u32);
        }
        (masked, ids[text] as usize)
    }
}

fn close(got: f64, want: f64, relative: f64) -> bool {
    (got - want).abs() < relative * want.abs() + 1e-6
}

/// Loss and gradients of another implementation: of the whole model, and of the mask, which is a token of its table.
#[test]
fn losses_and_gradients_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/probes", "space_sft") else { return };
    let (fixture, folder, dir) = (Fixture::open(&root), root.join("model"), tempfile::tempdir().unwrap());
    let (base, model) = (Checkpoint::open(&folder).unwrap(), ModelConfig::read(&folder).unwrap());
    let llama = Llama::of(&model, 64, Device::flex()).unwrap();
    let parameters = llama.load(&base).unwrap();
    let weights = NetworkWeights::Full(parameters.clone());
    // Losses do not ask for the conversations.
    let objective = SpaceSftFitting { llama, weights, base, ..fitting(dir.path(), FittedWeights::Full, 0.5) };
    let place = |name: &str| parameters.iter().position(|p| p.name == name).unwrap();
    let ((masked, mask), table, d) = (fixture.masked(), place("model.embed_tokens.weight"), model.hidden_size);
    let own = parameters[table].value.clone().narrow(0, mask * d, d);
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).chain([own]).collect();
    let scale = 1.0 / masked.rows.len() as f64;
    let (output, gradients) = objective.losses(&weights, &masked, Some(scale));
    let loss = scale * output.losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
    assert!(close(loss, fixture.expected["loss"].as_f64().unwrap(), 1e-5), "{loss}");
    let mut gradients: Vec<Vec<f32>> = gradients.into_iter().map(read).collect();
    let of_mask = gradients.pop().unwrap();
    gradients[table][mask * d..(mask + 1) * d].iter_mut().zip(&of_mask).for_each(|(sum, &part)| *sum += part);
    for (parameter, gradient) in parameters.iter().zip(&gradients) {
        let norm = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
        let want = fixture.expected["gradient_norms"][&parameter.name].as_f64().unwrap();
        assert!(close(norm, want, 1e-3), "{}: {norm} {want}", parameter.name);
    }
    let values = "model.layers.1.self_attn.v_proj.weight";
    for (name, got) in [("grad_mask_embedding".into(), &of_mask), (format!("grad.{values}"), &gradients[place(values)])]
    {
        for (&a, &b) in got.iter().zip(&fixture.floats(&name)) {
            assert!(close(f64::from(a), f64::from(b), 1e-3), "{name}: {a} {b}");
        }
    }
}

#[test]
fn gradients_are_slopes() {
    let dir = tempfile::tempdir().unwrap();
    for weights in [FittedWeights::Lora, FittedWeights::Full] {
        let objective = fitting(dir.path(), weights, 0.7);
        assert_slopes(&objective, &stirred(objective.parameters(3)), 2);
    }
}

/// Without cuts the loss is the text's, and the mask has no gradient; with cuts it has one.
#[test]
fn without_cuts_there_are_no_masks() {
    let dir = tempfile::tempdir().unwrap();
    let mask = |cut: f64| {
        let objective = fitting(dir.path(), FittedWeights::Full, cut);
        let masks: usize = (0..3)
            .flat_map(|number| objective.batches(number).unwrap())
            .map(|batch| objective.masked(&batch).masks.iter().filter(|mask| **mask).count())
            .sum();
        let gradient = step(&objective, &objective.parameters(0), 1).1.pop().unwrap();
        (masks, gradient.iter().all(|&g| g == 0.0))
    };
    assert_eq!(mask(0.0), (0, true));
    let (masks, zero) = mask(1.0);
    assert!(masks > 20 && !zero, "{masks}");
}

#[test]
fn threads_and_interruptions_change_no_bit() {
    for weights in [FittedWeights::Lora, FittedWeights::Full] {
        let (dir, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let objective = fitting(model.path(), weights, 0.5);
        let one = fitted(&objective, dir.path(), 1, None);
        assert_eq!(one, fitted(&objective, dir.path(), 3, Some(5)));
    }
}

/// The published model has the fitted weights, and its mask drafts for it; the original is watched.
#[test]
fn the_published_model_drafts_with_its_mask() {
    let (model, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objective = fitting(model.path(), FittedWeights::Lora, 0.5);
    let near = objective.evaluate(&objective.parameters(3)).unwrap().metrics;
    let Metrics::SpaceSft(near) = near else { panic!("{near:?}") };
    assert!(near.kl.abs() < 1e-4 && !near.degraded && near.tau.unwrap() >= 1.0, "{near:?}");
    assert_eq!(near.ranks.head_loss.len(), 3);
    let parameters = stirred(objective.parameters(0));
    let far = objective.evaluate(&parameters).unwrap().metrics;
    assert!(matches!(&far, Metrics::SpaceSft(far) if far.kl > near.kl), "{far:?}");
    let step = run.path().join("step");
    std::fs::create_dir(&step).unwrap();
    gorgon_train::checkpoint::write_parameters(&step, &parameters, &[]).unwrap();
    objective.publish(&step, run.path()).unwrap();
    assert!(run.path().join("adapter/adapter_config.json").is_file());
    let heads = gorgon_draft::folder::HeadsFolder::open(&run.path().join("heads")).unwrap();
    assert_eq!(heads.detected.format.method().name(), "space");
    let served = objective.served(run.path()).unwrap().unwrap();
    let published = objective.llama.load(&Checkpoint::open(&run.path().join("merged")).unwrap()).unwrap();
    let expected = objective.weights.whole(&parameters[..parameters.len() - 1]);
    for (got, want) in published.into_iter().zip(expected) {
        assert_eq!(read(got.value), read(want.value), "{}", got.name);
    }
    assert_eq!(served.features.decoder.config().layers, 2);
}

#[test]
fn settings_are_checked() {
    let of = |more: &str| {
        let text = format!(r#"{{"method": "space-sft", "model": "m", "data": "d", "space_sft": {{{more}}}}}"#);
        serde_json::from_str::<TrainConfig>(&text).unwrap().check().map_err(|error| error.to_string())
    };
    assert_eq!(of(""), Ok(()));
    for (more, word) in [
        (r#""masks": 0"#, "space_sft.masks = 0"),
        (r#""cut": 1.5"#, "space_sft.cut = 1.5"),
        (r#""lora": {"rank": 0}"#, "space_sft.lora.rank = 0"),
    ] {
        assert!(of(more).unwrap_err().contains(word), "{}", of(more).unwrap_err());
    }
}
