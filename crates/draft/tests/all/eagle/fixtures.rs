//! Against another implementation's values.

use crate::eagle::random::tensor;
use crate::shared;
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_core::tree::{DynamicTree, TokenTree};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::eagle::{
    Criterion, EagleBatch, EagleDrafter, EagleModel, EagleNetwork, EagleShape, FeatureLayer, losses,
};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::layer::LayerShape;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::target::{DecoderTarget, read};
use gorgon_model::weights::Checkpoint;
use safetensors::SafeTensors;
use serde_json::Value;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

struct Fixture {
    dir: PathBuf,
    backbone: PathBuf,
    decoder: Arc<Decoder>,
    folder: HeadsFolder,
    values: Vec<u8>,
    expected: Value,
}

impl Fixture {
    fn open(test: &str) -> Option<Self> {
        let dir = shared::shared("fixtures/eagle/eagle1_llama_mha", test)?;
        let backbone = shared::shared("fixtures/backbones/llama_mha", test)?;
        let decoder = Arc::new(Decoder::load(&backbone, &Compute::cpu(FloatFormat::F32)).unwrap());
        let folder = HeadsFolder::open(&dir).unwrap();
        let values = std::fs::read(dir.join("expected.safetensors")).unwrap();
        let expected = serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap();
        Some(Self { dir, backbone, decoder, folder, values, expected })
    }

    fn model(&self) -> EagleModel {
        EagleModel::load(&self.folder, self.decoder.clone()).unwrap()
    }

    fn floats(&self, name: &str) -> (Vec<usize>, Vec<f32>) {
        let file = SafeTensors::deserialize(&self.values).unwrap();
        let view = file.tensor(name).unwrap();
        let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        (view.shape().to_vec(), values.collect())
    }

    fn longs(&self, name: &str) -> Vec<usize> {
        let file = SafeTensors::deserialize(&self.values).unwrap();
        let view = file.tensor(name).unwrap();
        view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as usize).collect()
    }

    /// The differentiable layer and its weights.
    fn network(&self, longest: usize) -> (EagleNetwork, Vec<Tensor<1>>) {
        let config: Value = serde_json::from_slice(&std::fs::read(self.dir.join("config.json")).unwrap()).unwrap();
        let layer = LayerShape {
            norm_eps: config["rms_norm_eps"].as_f64().unwrap() as f32,
            intermediate_size: config["intermediate_size"].as_u64().unwrap() as usize,
            ..LayerShape::of(self.decoder.config())
        };
        let shape = EagleShape { layer, fc_bias: true };
        let read = |name: &str| self.folder.checkpoint.read_all(name).unwrap();
        let flat = |values: Vec<f32>| {
            let n = values.len();
            tensor(values, [1, n]).reshape([n])
        };
        let weights = shape.parameters().iter().map(|p| flat(read(&p.name))).collect();
        (EagleNetwork::new(shape, longest), weights)
    }

    /// Rows of the file's own embedding.
    fn embedded(&self, tokens: &[usize]) -> Tensor<2> {
        let table = self.folder.checkpoint.read_all("embed_tokens.weight").unwrap();
        let d = self.decoder.config().hidden_size;
        tensor(tokens.iter().flat_map(|&t| table[t * d..][..d].to_vec()).collect(), [tokens.len(), d])
    }
}

pub fn close(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-4, "{what}: off by {worst}");
}

/// Sequences of a right-padded batch: where each lies, and how many pairs it has.
pub fn segments(lengths: &[usize]) -> Vec<Range<usize>> {
    let starts = lengths.iter().scan(0, |next, &n| {
        *next += n;
        Some(*next - n..*next)
    });
    starts.collect()
}

/// Features, ids and wanted outputs of a case, its padding left out.
struct Case {
    lengths: Vec<usize>,
    tokens: Vec<usize>,
    features: Tensor<2>,
    predicted: Vec<f32>,
}

impl Case {
    fn read(fixture: &Fixture, name: &str) -> Self {
        let (shape, features) = fixture.floats(&format!("{name}.features"));
        let (rows, length, d) = (shape[0], shape[1], shape[2]);
        let lengths = match name {
            "forward" => vec![length; rows],
            _ => {
                let mask = fixture.longs(&format!("{name}.attention_mask"));
                mask.chunks(length).map(|row| row.iter().sum()).collect()
            }
        };
        let ids = fixture.longs(&format!("{name}.shifted_ids"));
        let (_, predicted) = fixture.floats(&format!("{name}.predicted"));
        let tokens = lengths.iter().enumerate().flat_map(|(b, &n)| ids[b * length..][..n].to_vec()).collect();
        let rows = |from: &[f32]| -> Vec<f32> {
            lengths.iter().enumerate().flat_map(|(b, &n)| from[b * length * d..][..n * d].to_vec()).collect()
        };
        let (features, predicted) = (rows(&features), rows(&predicted));
        let feature_tokens = lengths.iter().sum();
        Self { lengths, tokens, features: tensor(features, [feature_tokens, d]), predicted }
    }
}

#[test]
fn guessed_features_are_the_references() {
    let Some(fixture) = Fixture::open("guessed_features_are_the_references") else { return };
    let model = fixture.model();
    for name in ["forward", "masked", "loss"] {
        let case = Case::read(&fixture, name);
        let d = case.features.dims()[1];
        let (network, weights) = fixture.network(64);
        let tracked: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff()).collect();
        let inputs = (fixture.embedded(&case.tokens).autodiff(), case.features.clone().autodiff());
        let all = network.predict(&tracked, inputs.0, inputs.1, &segments(&case.lengths)).inner();
        close(&read(all), &case.predicted, &format!("{name}, to be fitted"));
        for (b, rows) in segments(&case.lengths).into_iter().enumerate() {
            let tokens: Vec<Token> = case.tokens[rows.clone()].iter().map(|&t| t as Token).collect();
            let features = HiddenStates::from(case.features.clone().narrow(0, rows.start, rows.len()).unsqueeze::<3>());
            // At once, and in parts that the cache joins.
            for parts in [vec![rows.len()], vec![5, 1, rows.len() - 6]] {
                let (mut cache, mut at, mut found) = (model.new_cache(3), 0, vec![]);
                for n in parts {
                    let part = features.narrow(at, n);
                    let visible = AttentionMask::Causal { rows: n };
                    let output = model.forward(&tokens[at..at + n], &part, &visible, &mut cache).unwrap();
                    cache.commit(&(0..n).collect::<Vec<_>>()).unwrap();
                    if name == "forward" && at + n == rows.len() {
                        let vocab = model.vocab_size();
                        let (_, want) = fixture.floats("forward.predicted_logits_last");
                        let last = output.narrow(n - 1, 1);
                        close(&model.logits(&last), &want[b * vocab..][..vocab], "logits");
                    }
                    found.extend_from_slice(&output.into_values());
                    at += n;
                }
                close(&found, &case.predicted[rows.start * d..rows.end * d], name);
            }
        }
    }
}

/// The pairs of the loss case that count, with the features that they should lead to.
fn loss_batch(fixture: &Fixture) -> EagleBatch {
    let case = Case::read(fixture, "loss");
    let (shape, mask) = fixture.floats("loss.loss_mask");
    let (_, targets) = fixture.floats("loss.target_features");
    let (length, d) = (shape[1], case.features.dims()[1]);
    let (mut counted, mut wanted) = (vec![], vec![]);
    for (b, rows) in segments(&case.lengths).iter().enumerate() {
        for i in (0..length).filter(|i| mask[b * length + i] != 0.0) {
            counted.push((rows.start + i) as u32);
            wanted.extend_from_slice(&targets[(b * length + i) * d..][..d]);
        }
    }
    let n = counted.len();
    assert_eq!(n as f32, mask.iter().sum::<f32>());
    EagleBatch {
        embedded: fixture.embedded(&case.tokens),
        features: case.features,
        segments: segments(&case.lengths),
        counted,
        targets: tensor(wanted, [n, d]),
    }
}

fn check_gradients(fixture: &Fixture, network: &EagleNetwork, gradients: Vec<Tensor<1>>) {
    let mut compared = 0;
    let file = SafeTensors::deserialize(&fixture.values).unwrap();
    for (parameter, gradient) in network.shape().parameters().iter().zip(gradients) {
        let name = format!("loss.grad.{}", parameter.name);
        if file.tensor(&name).is_ok() {
            for (a, b) in read(gradient).iter().zip(fixture.floats(&name).1) {
                assert!((a - b).abs() <= 1e-6 + 1e-3 * b.abs(), "{}: {a}, not {b}", parameter.name);
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 5);
}

#[test]
fn losses_and_gradients_are_the_references() {
    let Some(fixture) = Fixture::open("losses_and_gradients_are_the_references") else { return };
    let batch = loss_batch(&fixture);
    let config = fixture.decoder.config();
    let table = Checkpoint::open(&fixture.backbone).unwrap().read_all("lm_head.weight").unwrap();
    let lm_head = &tensor(table, [config.vocab_size, config.hidden_size]);
    let (network, weights) = fixture.network(64);
    let scale = 1.0 / (batch.counted.len() as f64 + 1e-5);
    for chunk_rows in [3, 1000] {
        let criterion = Criterion {
            lm_head: &Table::frozen(lm_head.clone(), Frozen::default()).unwrap(),
            cross_entropy: 0.1,
            chunk_rows,
        };
        let (output, gradients) = losses(&network, &criterion, &weights, &batch, Some(scale as f32));
        let mean = |of: &[f32]| of.iter().map(|&l| f64::from(l)).sum::<f64>() * scale;
        let found = (mean(&output.regression), mean(&output.cross_entropy));
        let loss = |key: &str| fixture.expected["loss"][key].as_f64().unwrap();
        let total = found.0 + 0.1 * found.1;
        for (got, key) in [(found.0, "smooth_l1"), (found.1, "soft_cross_entropy"), (total, "total_w_cls_0.1")] {
            assert!((got - loss(key)).abs() < 1e-5 * loss(key), "{key}: {got}, not {}", loss(key));
        }
        check_gradients(&fixture, &network, gradients);
    }
}

pub fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect()
}

pub fn check_tree(tree: &TokenTree, case: &Value, what: &str) {
    let tokens: Vec<i64> = tree.tokens().iter().map(|&t| i64::from(t)).collect();
    assert_eq!(tokens, numbers(&case["draft_tokens"]), "{what}: tokens");
    let depths: Vec<i64> = tree.depths().iter().map(|&d| d as i64).collect();
    assert_eq!(depths, numbers(&case["position_ids"]), "{what}: positions");
    let sees = |node: usize, other: usize| tree.path(node).contains(&other);
    let row = |node| (0..tree.len()).map(|other| if sees(node, other) { '1' } else { '0' }).collect::<String>();
    let rows: Vec<String> = (0..tree.len()).map(row).collect();
    let want: Vec<&str> = case["tree_mask"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
    assert_eq!(rows, want, "{what}: mask");
    let mut paths: Vec<Vec<i64>> =
        tree.leaf_paths().into_iter().map(|path| path.into_iter().map(|node| node as i64).collect()).collect();
    if case["sorted_retrieve"] == true {
        paths.sort();
    }
    let retrieve = case["retrieve_indices"].as_array().unwrap().iter();
    let want: Vec<Vec<i64>> = retrieve.map(|row| numbers(row).into_iter().filter(|&n| n >= 0).collect()).collect();
    assert_eq!(paths, want, "{what}: retrieve indices");
}

#[test]
fn dynamic_trees_are_the_references_entry_by_entry() {
    let Some(fixture) = Fixture::open("dynamic_trees_are_the_references_entry_by_entry") else { return };
    let cases = fixture.expected["trees"].as_array().unwrap();
    assert!(cases.len() >= 16, "{}", fixture.dir.display());
    check_trees(&fixture.decoder, EagleDrafter::new(fixture.model()), cases);
}

/// Every recorded tree, entry by entry.
pub fn check_trees<M: FeatureLayer>(decoder: &Arc<Decoder>, mut drafter: EagleDrafter<M>, cases: &[Value]) {
    let mut target = DecoderTarget::new(decoder.clone(), 200, drafter.needs().hooks);
    for (i, case) in cases.iter().enumerate() {
        let size = |key: &str| case[key].as_u64().unwrap() as usize;
        let builder = DynamicTree::new(size("total_tokens"), size("depth"), size("top_k")).unwrap();
        let prompt: Vec<Token> = numbers(&case["prompt"]).into_iter().map(|t| t as Token).collect();
        target.reset();
        drafter.reset();
        let output = target.prefill(&prompt).unwrap();
        let rows: Vec<usize> = (0..prompt.len()).collect();
        drafter.observe(VerifiedPass::prompt(&prompt, &output, &rows)).unwrap();
        let proposal = drafter.propose(size("sampled_token") as Token, &builder).unwrap();
        check_tree(proposal.draft.tree(), case, &format!("tree {i}"));
        assert_eq!(drafter.cached(), prompt.len());
    }
}
