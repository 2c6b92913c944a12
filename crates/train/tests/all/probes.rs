//! Fitting probes: losses and gradients of another implementation, packed positions against separate passes, slopes, and
//! training that neither threads nor interruptions change by a bit.

use crate::on_backbone;
use crate::shared;

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_draft::fitting::HeadLabels;
use gorgon_draft::layer::LayerShape;
use gorgon_draft::medusa::HeadOutput;
use gorgon_draft::probes::{
    PassConfig, PpdConfig, ProbeBatch, ProbeCriterion, ProbeNetwork, ProbeTraining, SpaceConfig, losses,
};
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::read;
use gorgon_model::weights::Checkpoint;
use gorgon_train::evaluation::Metrics;
use gorgon_train::llama::Llama;
use gorgon_train::methods::{Conversations, ProbeFitting, lm_head as read_lm_head};
use gorgon_train::trainer::Objective;
use on_backbone::{assert_slopes, conversations, fitted, keeps_backbone, lm_head};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::Path;

/// A file of the fixtures.
pub struct Fixture {
    bytes: Vec<u8>,
    json: Value,
    pub decoder: Decoder,
    weights: Vec<Tensor<1>>,
    pub lm_head: Table,
}

impl Fixture {
    pub fn open(root: &Path) -> Self {
        let dir = root.join("model");
        let decoder = Decoder::load(&dir, &Compute::cpu(FloatFormat::F32)).unwrap();
        let (model, checkpoint) = (decoder.config().clone(), Checkpoint::open(&dir).unwrap());
        let llama = Llama::of(&model, 64, Device::flex()).unwrap();
        Self {
            bytes: std::fs::read(root.join("probes.safetensors")).unwrap(),
            json: serde_json::from_slice(&std::fs::read(root.join("probes.json")).unwrap()).unwrap(),
            weights: llama.load_layers(&checkpoint).unwrap(),
            lm_head: read_lm_head(&checkpoint, &model, &Device::flex(), Some(Frozen::default())).unwrap(),
            decoder,
        }
    }

    fn data(&self, name: &str) -> Vec<u8> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}")).data().to_vec()
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.data(name).chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn tokens(&self, name: &str) -> Vec<Token> {
        self.data(name).chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as Token).collect()
    }

    /// The hooked states of every layer, side by side, and those after the final norm.
    pub fn states(&self, ids: &[Token]) -> (Tensor<2>, Tensor<2>) {
        let layers = self.decoder.config().layers;
        let hooks = Hooks::new((0..layers).collect(), layers).unwrap();
        let mut cache = self.decoder.new_cache(ids.len());
        cache.reserve(ids.len()).unwrap();
        let mask = AttentionMask::Causal { rows: ids.len() };
        let output = self.decoder.forward(&PassPlan::of_tokens(ids, &mask), &mut cache, &hooks).unwrap();
        let flat = |states: Tensor<3>| {
            let [_, rows, d] = states.dims();
            states.reshape([rows, d])
        };
        let hooked = output.hooks.into_iter().map(|states| flat(states.into_tensor())).collect();
        (Tensor::cat(hooked, 1), flat(output.hidden.into_tensor()))
    }

    pub fn network(&self, training: &ProbeTraining) -> ProbeNetwork {
        ProbeNetwork::new(training.shape, &LayerShape::of(self.decoder.config()), self.weights.clone(), 64)
    }

    /// All positions at once; the labels are the model's own continuation or the text.
    pub fn batch(&self, training: &ProbeTraining, case: &str) -> ProbeBatch {
        let (ids, at) = (self.tokens("input_ids"), self.tokens("positions"));
        let places = training.shape.places;
        let continuation = if training.soft { self.tokens(&format!("{case}.continuation")) } else { vec![] };
        let mut labels = vec![HeadLabels::default(); places];
        let mut originals: Vec<Vec<Tensor<2>>> = vec![vec![]; places];
        for (row, &t) in at.iter().enumerate() {
            let t = t as usize;
            for (place, (labels, originals)) in labels.iter_mut().zip(&mut originals).enumerate() {
                labels.rows.push(row as u32);
                labels.tokens.push(ids.get(t + place + 2).copied().unwrap_or(0));
                if training.soft {
                    let own = &continuation[row * places..][..=place];
                    let (_, hidden) = self.states(&[&ids[..=t], own].concat());
                    let last = hidden.dims()[0] - 1;
                    originals.push(hidden.narrow(0, last, 1));
                }
            }
        }
        let originals = originals.into_iter().filter(|parts| !parts.is_empty()).map(|parts| Tensor::cat(parts, 0));
        let positions = vec![at.iter().map(|&t| t as usize).collect()];
        let context = std::iter::once(0..ids.len()).collect();
        ProbeBatch { hooks: self.states(&ids).0, context, positions, labels, originals: originals.collect() }
    }

    /// Losses by place, and the gradient of the mean over `total` positions.
    fn losses(
        &self,
        training: &ProbeTraining,
        case: &str,
        batch: &ProbeBatch,
        total: f64,
    ) -> (Vec<HeadOutput>, Vec<f32>) {
        let criterion = ProbeCriterion { lm_head: &self.lm_head, chunk_rows: 4, soft: training.soft };
        let scales: Vec<f32> =
            (0..training.shape.places).map(|place| (training.weight(place) / total) as f32).collect();
        let probes = flat(self.floats(&format!("{case}.P")));
        let (outputs, gradients) = losses(&self.network(training), &criterion, &[probes], batch, Some(&scales));
        (outputs, read(gradients[0].clone()))
    }
}

pub fn flat(values: Vec<f32>) -> Tensor<1> {
    let n = values.len();
    Tensor::from_data(TensorData::new(values, [n]), &Device::flex())
}

/// The fixtures' cases: PPD with and without an ensemble, and PaSS.
fn cases(fixture: &Fixture) -> Vec<(&'static str, ProbeTraining, Value)> {
    let (d, vocab) = (fixture.decoder.config().hidden_size, fixture.decoder.config().vocab_size);
    let of = |config: &Value| config["e"].as_u64().unwrap() as usize;
    let json = &fixture.json;
    let ppd =
        |ensemble| ProbeTraining::ppd(&PpdConfig { prompt_tokens: 3, ensemble, ..PpdConfig::default() }, d, vocab);
    let pass = ProbeTraining::pass(&PassConfig { look_ahead: 3, ..PassConfig::default() }, d, vocab);
    let mut all = vec![("pass", pass, json["pass"].clone())];
    for case in json["ppd"].as_array().unwrap() {
        let name = if of(case) == 1 { "ppd_e1" } else { "ppd_e2" };
        all.push((name, ppd(of(case)), case.clone()));
    }
    all
}

/// Probes of PPD: their targets are distributions over the vocabulary.
pub fn soft_cases(fixture: &Fixture) -> Vec<(&'static str, ProbeTraining, Value)> {
    cases(fixture).into_iter().filter(|(_, training, _)| training.soft).collect()
}

pub fn close(got: &[f32], want: &[f32], (relative, absolute): (f32, f32), what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs() - relative * b.abs()).fold(0.0, f32::max);
    assert!(worst <= absolute, "{what}: off by {worst}");
}

#[test]
fn losses_and_gradients_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/probes", "probes") else { return };
    let fixture = Fixture::open(&root);
    let at = fixture.tokens("positions").len();
    for (case, training, expected) in cases(&fixture) {
        let batch = fixture.batch(&training, case);
        let probes = flat(fixture.floats(&format!("{case}.P"))).autodiff();
        let network = fixture.network(&training);
        let states = network.forward(&probes, &batch.hooks.clone().autodiff(), &batch.context, &batch.positions);
        let logits = read(fixture.lm_head.logits(states.inner()));
        close(&logits, &fixture.floats(&format!("{case}.logits")), (0.0, 1e-3), case);
        let (outputs, gradient) = fixture.losses(&training, case, &batch, at as f64);
        let rows = expected.get("kl").or(expected.get("cross_entropy")).unwrap().as_array().unwrap();
        for (place, output) in outputs.iter().enumerate() {
            let want: Vec<f32> = rows.iter().map(|row| row[place].as_f64().unwrap() as f32).collect();
            close(&output.losses, &want, (1e-5, 1e-5), case);
        }
        let sum = |output: &HeadOutput| output.losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
        let loss: f64 = outputs.iter().enumerate().map(|(k, output)| training.weight(k) * sum(output)).sum();
        let want = expected["loss"].as_f64().unwrap();
        assert!((loss / at as f64 - want).abs() < 1e-5 * want, "{case}: {} {want}", loss / at as f64);
        close(&gradient, &fixture.floats(&format!("{case}.grad_P")), (1e-3, 1e-6), case);
    }
}

/// Positions of one pass do not see each other.
#[test]
fn packed_positions_are_separate_passes() {
    let Some(root) = shared::shared("fixtures/probes", "probes") else { return };
    let fixture = Fixture::open(&root);
    for (case, training, _) in cases(&fixture) {
        let all = fixture.batch(&training, case);
        let (together, gradient) = fixture.losses(&training, case, &all, all.positions[0].len() as f64);
        let mut sum = vec![0f32; gradient.len()];
        for (row, &t) in all.positions[0].iter().enumerate() {
            let one = |labels: &HeadLabels| HeadLabels { rows: vec![0], tokens: vec![labels.tokens[row]] };
            let alone = ProbeBatch {
                // Nothing behind the position is needed.
                hooks: all.hooks.clone().narrow(0, 0, t + 1),
                context: std::iter::once(0..t + 1).collect(),
                positions: vec![vec![t]],
                labels: all.labels.iter().map(one).collect(),
                originals: all.originals.iter().map(|states| states.clone().narrow(0, row, 1)).collect(),
            };
            let (outputs, part) = fixture.losses(&training, case, &alone, all.positions[0].len() as f64);
            for (place, output) in outputs.iter().enumerate() {
                close(&output.losses, &together[place].losses[row..=row], (1e-5, 1e-6), case);
            }
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        }
        close(&sum, &gradient, (1e-4, 1e-6), case);
    }
}

/// Masks behind a cut text: loss and gradient of the mask's embedding. Rows of the text see no mask.
#[test]
fn masks_behind_a_cut_text_are_the_fixtures() {
    let Some(root) = shared::shared("fixtures/probes", "probes") else { return };
    let fixture = Fixture::open(&root);
    let (ids, labels) = (fixture.tokens("space_train.input_ids"), fixture.tokens("space_train.labels"));
    let masks = fixture.json["space_train"]["k"].as_u64().unwrap() as usize + 1;
    let (text, mask) = (ids.len() - masks, ids[ids.len() - 1]);
    let (d, vocab) = (fixture.decoder.config().hidden_size, fixture.decoder.config().vocab_size);
    let training = ProbeTraining::space(&SpaceConfig { masks, ..SpaceConfig::default() }, d, vocab);
    let (hooks, hidden) = fixture.states(&ids[..text]);
    let counted: Vec<usize> = (0..ids.len()).filter(|&row| labels[row] as usize <= vocab).collect();
    let total = counted.len() as f32;
    let label = |place: usize| HeadLabels { rows: vec![0], tokens: vec![labels[text + place]] };
    let batch = ProbeBatch {
        hooks,
        context: std::iter::once(0..text).collect(),
        positions: vec![vec![text - 1]],
        labels: (0..masks).map(label).collect(),
        originals: vec![],
    };
    let criterion = ProbeCriterion { lm_head: &fixture.lm_head, chunk_rows: 4, soft: false };
    let embedding = flat(fixture.decoder.embed(&[mask]).unwrap().into_values().into_vec());
    let scales = vec![1.0 / total; masks];
    let (outputs, gradients) = losses(&fixture.network(&training), &criterion, &[embedding], &batch, Some(&scales));
    close(&read(gradients[0].clone()), &fixture.floats("space_train.grad_mask_embedding"), (1e-3, 1e-6), "mask");
    let rows: Vec<usize> = counted.into_iter().filter(|&row| row < text).collect();
    let tokens: Vec<Token> = rows.iter().map(|&row| labels[row]).collect();
    let own = hidden.narrow(0, rows[0], rows.len());
    let zeros = vec![0.0; tokens.len()];
    let of_text = linear_cross_entropy(&own, &fixture.lm_head, Labels { tokens: &tokens, scales: &zeros }, 4, false);
    let sum = |losses: &[f32]| losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
    let loss = sum(&of_text.losses) + outputs.iter().map(|output| sum(&output.losses)).sum::<f64>();
    let want = fixture.json["space_train"]["loss"].as_f64().unwrap();
    assert!((loss / f64::from(total) - want).abs() < 1e-5 * want, "{} {want}", loss / f64::from(total));
}

fn of_space(masks: usize) -> ProbeTraining {
    let config = SpaceConfig { masks, positions: 4, ..SpaceConfig::default() };
    ProbeTraining::space(&config, on_backbone::SHAPE.hidden_size, on_backbone::SHAPE.vocab_size)
}

fn of_pass(look_ahead: usize) -> ProbeTraining {
    let config = PassConfig { look_ahead, ..PassConfig::default() };
    ProbeTraining::pass(&config, on_backbone::SHAPE.hidden_size, on_backbone::SHAPE.vocab_size)
}

fn of_ppd(ensemble: usize, positions: usize) -> ProbeTraining {
    let config = PpdConfig { prompt_tokens: 2, ensemble, positions, ..PpdConfig::default() };
    ProbeTraining::ppd(&config, on_backbone::SHAPE.hidden_size, on_backbone::SHAPE.vocab_size)
}

fn fitting(dir: &Path, training: ProbeTraining) -> ProbeFitting {
    let data: Conversations = conversations(dir);
    let llama = Llama::of(data.features.decoder.config(), 64, Device::flex()).unwrap();
    let weights = llama.load_layers(&Checkpoint::open(dir).unwrap()).unwrap();
    ProbeFitting::new(training, weights, data, lm_head(None).into(), 16, 3).unwrap()
}

#[test]
fn gradients_are_slopes() {
    let dir = tempfile::tempdir().unwrap();
    for training in [of_ppd(1, 100), of_ppd(2, 3), of_pass(3), of_space(3)] {
        let objective = fitting(dir.path(), training);
        assert_slopes(&objective, &objective.parameters(3), 4);
    }
}

#[test]
fn threads_and_interruptions_change_no_bit() {
    for training in [of_ppd(2, 3), of_pass(2), of_space(2)] {
        let (dir, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let objective = fitting(model.path(), training);
        let one = keeps_backbone(&objective, model.path(), || fitted(&objective, dir.path(), 1, None));
        assert_eq!(one, fitted(&objective, dir.path(), 3, None));
        assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    }
}

#[test]
fn evaluations_have_an_entry_per_place() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(dir.path(), of_ppd(1, 3));
    let metrics = objective.evaluate(&objective.parameters(3)).unwrap().metrics;
    let Metrics::Heads(heads) = &metrics else { panic!("{metrics:?}") };
    assert_eq!((heads.ranks.head_loss.len(), heads.ranks.top5.len()), (2, 2));
    assert!(metrics.tau().unwrap() >= 1.0 && heads.loss > 0.0, "{metrics:?}");
}

#[test]
fn a_mask_token_that_the_model_lacks_is_refused() {
    let training = ProbeTraining { start: Some(260), ..of_space(2) };
    let dir = tempfile::tempdir().unwrap();
    let data = conversations(dir.path());
    let error = ProbeFitting::new(training, vec![], data, lm_head(None).into(), 16, 3).err().unwrap().to_string();
    assert!(error.contains("space.mask_token = 260") && error.contains("260 tokens"), "{error}");
}
