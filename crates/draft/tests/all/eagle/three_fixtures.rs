//! EAGLE-3 against another implementation's values.

use crate::eagle::fixtures::{check_trees, close, segments};
use crate::eagle::random::{flat, tensor};
use crate::shared;
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::FeatureLayer;
use gorgon_draft::eagle::three::{
    Criterion, Eagle3Batch, Eagle3Drafter, Eagle3Model, Eagle3Network, Eagle3Shape, Eagle3Step, losses,
};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::layer::LayerShape;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::rope::{RopeConfig, RopeScaling};
use gorgon_model::target::{DecoderTarget, read};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

struct Fixture {
    dir: PathBuf,
    decoder: Arc<Decoder>,
    values: Vec<u8>,
}

impl Fixture {
    fn open(test: &str) -> Option<Self> {
        let dir = shared::shared("fixtures/eagle/eagle3_llama_7layer_bf16", test)?;
        let backbone = shared::shared("fixtures/backbones/llama_7layer_bf16", test)?;
        let decoder = Arc::new(Decoder::load(&backbone, &Compute::cpu(FloatFormat::F32)).unwrap());
        let values = std::fs::read(dir.join("expected.safetensors")).unwrap();
        Some(Self { dir, decoder, values })
    }

    fn model(&self) -> Eagle3Model {
        Eagle3Model::load(&HeadsFolder::open(&self.dir).unwrap(), self.decoder.clone()).unwrap()
    }

    /// A tensor `[batch, rows, width]` by sequence.
    fn floats(&self, name: &str) -> Vec<Vec<f32>> {
        let file = SafeTensors::deserialize(&self.values).unwrap();
        let view = file.tensor(name).unwrap();
        let values: Vec<f32> = view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        values.chunks(values.len() / view.shape()[0]).map(<[f32]>::to_vec).collect()
    }

    fn ids(&self, name: &str) -> Vec<Vec<Token>> {
        let file = SafeTensors::deserialize(&self.values).unwrap();
        let view = file.tensor(name).unwrap();
        let values: Vec<Token> =
            view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as Token).collect();
        values.chunks(view.shape()[1]).map(<[Token]>::to_vec).collect()
    }
}

fn rows(values: &[f32], rows: usize) -> HiddenStates {
    HiddenStates::Host { values: values.iter().copied().collect(), width: values.len() / rows }
}

/// The layer over a whole sequence, at once or in parts that the cache joins.
fn pass(model: &Eagle3Model, tokens: &[Token], states: &HiddenStates, parts: &[usize]) -> HiddenStates {
    let (mut cache, mut at, mut found) = (model.new_cache(3), 0, vec![]);
    for &n in parts {
        let part = states.narrow(at, n);
        found.push(model.forward(&tokens[at..at + n], &part, &AttentionMask::Causal { rows: n }, &mut cache).unwrap());
        cache.commit(&(0..n).collect::<Vec<_>>()).unwrap();
        at += n;
    }
    HiddenStates::concat(&found)
}

#[test]
fn fused_states_outputs_and_logits_are_the_references() {
    let Some(fixture) = Fixture::open("fused_states_outputs_and_logits_are_the_references") else { return };
    let model = fixture.model();
    assert_eq!(model.needs().hooks.layers(), [2, 3, 4]);
    assert_eq!(model.vocabulary().len(), 256);
    let (ids, shifted, again) =
        (fixture.ids("forward.input_ids"), fixture.ids("forward.shifted_ids"), fixture.ids("forward2.shifted_ids"));
    let fused = fixture.floats("forward.fused_features");
    for b in 0..ids.len() {
        let n = ids[b].len();
        // The features are the target's own hooked states.
        let mut target = DecoderTarget::new(fixture.decoder.clone(), n, model.needs().hooks);
        let output = target.prefill(&ids[b]).unwrap();
        close(&HiddenStates::concat_columns(&output.hooks).into_values(), &fused[b], "hooked states");
        let all: Vec<usize> = (0..n).collect();
        let states = model.states(&output, &all).unwrap();
        close(&states.clone().into_values(), &fixture.floats("forward.fc_out")[b], "fc");
        let width = fused[b].len() / n / 3;
        let hook = |hook: usize| fused[b].chunks_exact(3 * width).flat_map(move |row| &row[hook * width..][..width]);
        let hooks: Vec<HiddenStates> = (0..3).map(|i| rows(&hook(i).copied().collect::<Vec<_>>(), n)).collect();
        close(&model.fuse(&hooks).into_values(), &states.clone().into_values(), "fc of the given features");
        for parts in [vec![n], vec![5, 1, n - 6]] {
            let once = pass(&model, &shifted[b], &states, &parts);
            close(&once.clone().into_values(), &fixture.floats("forward.hidden_prenorm")[b], "output");
            close(&model.logits(&once), &fixture.floats("forward.draft_logits")[b], "logits");
            let twice = pass(&model, &again[b], &once, &parts);
            close(&twice.into_values(), &fixture.floats("forward2.hidden_prenorm")[b], "second output");
        }
    }
}

#[test]
fn dynamic_trees_of_eagle3_are_the_references_entry_by_entry() {
    let Some(fixture) = Fixture::open("dynamic_trees_of_eagle3_are_the_references_entry_by_entry") else { return };
    let expected: Value = serde_json::from_slice(&std::fs::read(fixture.dir.join("expected.json")).unwrap()).unwrap();
    let drafter: Eagle3Drafter = Eagle3Drafter::new(fixture.model());
    assert_eq!(drafter.name(), "eagle");
    check_trees(&fixture.decoder, drafter, expected["trees"].as_array().unwrap());
}

/// The training case: two sequences of one length.
struct Training {
    document: Value,
    bytes: Vec<u8>,
}

impl Training {
    fn size(&self, key: &str) -> usize {
        self.document[key].as_u64().unwrap() as usize
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = file.tensor(name).unwrap();
        view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn longs(&self, name: &str) -> Vec<usize> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = file.tensor(name).unwrap();
        view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as usize).collect()
    }

    fn shape(&self) -> Eagle3Shape {
        let (d, heads) = (self.size("hidden"), self.size("num_attention_heads"));
        let theta = self.document["rope_theta"].as_f64().unwrap();
        let layer = LayerShape {
            hidden_size: d,
            intermediate_size: self.size("intermediate_size"),
            heads,
            kv_heads: self.size("num_key_value_heads"),
            head_dim: d / heads,
            vocab_size: self.size("vocab"),
            max_positions: 64,
            norm_eps: self.document["rms_norm_eps"].as_f64().unwrap() as f32,
            rope: RopeConfig { theta, rotary_dim: d / heads, scaling: RopeScaling::None },
        };
        Eagle3Shape { layer, hooks: vec![1, 2, 3], draft_vocab: self.size("draft_vocab") }
    }

    /// Where the sequences lie once their padding is left out.
    fn segments(&self) -> Vec<std::ops::Range<usize>> {
        let (seen, length) = (self.longs("attention_mask"), self.size("seq"));
        let lengths: Vec<usize> = seen.chunks(length).map(|row| row.iter().sum()).collect();
        segments(&lengths)
    }

    /// Rows of the padded batch that are no padding.
    fn rows(&self) -> Vec<usize> {
        let seen = self.longs("attention_mask");
        (0..seen.len()).filter(|&row| seen[row] == 1).collect()
    }

    fn check_gradients(&self, gradients: Vec<Tensor<1>>) {
        for (parameter, gradient) in self.shape().parameters().iter().zip(gradients) {
            for (a, b) in read(gradient).iter().zip(self.floats(&format!("grad.{}", parameter.name))) {
                assert!((a - b).abs() <= 1e-6 + 1e-3 * b.abs(), "{}: {a}, not {b}", parameter.name);
            }
        }
    }

    /// Everything a step reads, shifted as the fixtures say, zeros filling the end.
    fn step(&self, step: usize) -> Eagle3Step {
        let (length, d, vocab) = (self.size("seq"), self.size("hidden"), self.size("vocab"));
        let (ids, mask) = (self.longs("input_ids"), self.longs("loss_mask"));
        let (table, logits) = (self.floats("weights.embed_tokens.weight"), self.floats("target_logits"));
        let drafted: Vec<usize> = self.longs("d2t").into_iter().enumerate().map(|(id, offset)| id + offset).collect();
        let (mut embedded, mut counted, mut targets) = (vec![], vec![], vec![]);
        let rows = self.rows();
        for (at, (row, sequence)) in rows.iter().map(|&row| (row, row / length)).enumerate() {
            let shifted = |by: usize| Some(row + by).filter(|at| at / length == sequence);
            let token = shifted(step + 1).map_or(0, |at| ids[at]);
            embedded.extend_from_slice(&table[token * d..][..d]);
            let target = shifted(step + 1).map_or(vec![0.0; vocab], |at| logits[at * vocab..][..vocab].to_vec());
            let most = target.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let best = target.iter().position(|&logit| logit == most).unwrap();
            if shifted(step).is_some_and(|at| mask[at] == 1) && drafted.contains(&best) {
                counted.push(at as u32);
                targets.extend(target);
            }
        }
        let n = counted.len();
        Eagle3Step { embedded: tensor(embedded, [rows.len(), d]), counted, targets: tensor(targets, [n, vocab]) }
    }
}

#[test]
fn unrolled_losses_and_gradients_are_the_references() {
    let test = "unrolled_losses_and_gradients_are_the_references";
    let Some(path) = shared::shared("fixtures/eagle/eagle3_train_loss.json", test) else { return };
    let document = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let case = Training { document, bytes: std::fs::read(path.with_extension("safetensors")).unwrap() };
    let (shape, steps, length) = (case.shape(), case.size("steps"), case.size("seq"));
    let rows = case.size("batch") * length;
    let weights: Vec<Tensor<1>> =
        shape.parameters().iter().map(|p| flat(case.floats(&format!("weights.{}", p.name)))).collect();
    let (wide, fused, kept) = (3 * shape.layer.hidden_size, case.floats("fused_features"), case.rows());
    let batch = Eagle3Batch {
        hooks: tensor(kept.iter().flat_map(|&row| fused[row * wide..][..wide].to_vec()).collect(), [kept.len(), wide]),
        segments: case.segments(),
        steps: (0..steps).map(|step| case.step(step)).collect(),
    };
    // The logits are given, so that the target's head only picks those of the draft vocabulary.
    let (drafted, vocab) = (case.longs("d2t"), case.size("vocab"));
    let n = drafted.len();
    let pick = |(id, offset): (usize, usize)| (0..vocab).map(move |v| f32::from(u8::from(v == id + offset)));
    let lm_head = &tensor(drafted.into_iter().enumerate().flat_map(pick).collect(), [n, vocab]);
    let network = Eagle3Network::new(shape.clone(), length, steps);
    let scales: Vec<f32> = (0..steps).map(|step| 0.8f32.powi(step as i32) / rows as f32).collect();
    for chunk_rows in [3, 1000] {
        let criterion = Criterion { lm_head: &Table::frozen(lm_head.clone(), Frozen::default()).unwrap(), chunk_rows };
        let (outputs, gradients) = losses(&network, &criterion, &weights, &batch, Some(&scales));
        let mut total = 0.0;
        for (step, output) in outputs.iter().enumerate() {
            let loss = output.losses.iter().map(|&l| f64::from(l)).sum::<f64>() / rows as f64;
            let want = case.document["step_losses"][step].as_f64().unwrap();
            assert!((loss - want).abs() < 1e-5 * want, "step {step}: {loss}, not {want}");
            total += 0.8f64.powi(step as i32) * loss;
        }
        let want = case.document["total_0.8_pow_i"].as_f64().unwrap();
        assert!((total - want).abs() < 1e-5 * want, "{total}, not {want}");
        case.check_gradients(gradients);
        let (without, none) = losses(&network, &criterion, &weights, &batch, None);
        assert!(none.is_empty());
        assert!(without.iter().zip(&outputs).all(|(a, b)| a.losses == b.losses && a.ranks == b.ranks));
    }
}
