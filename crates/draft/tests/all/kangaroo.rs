//! Kangaroo's adapter against another implementation: features, logits, losses and gradients; and what is refused.

use crate::shared;

use burn::tensor::{Device, Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::kangaroo::{KangarooBatch, KangarooConfig, KangarooModel, KangarooNetwork, KangarooShape};
use gorgon_draft::layer::LayerShape;
use gorgon_draft::parameter::ParameterSpec;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, read};
use gorgon_model::weights::Checkpoint;
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct File(Vec<u8>);

impl File {
    fn open(path: &Path) -> Self {
        Self(std::fs::read(path).unwrap())
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        tensor.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn numbers(&self, name: &str) -> Vec<u32> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        tensor.data().chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()) as u32).collect()
    }
}

fn close(got: &[f32], want: &[f32], (relative, absolute): (f32, f32), what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (a, b) in got.iter().zip(want) {
        assert!((a - b).abs() <= absolute + relative * b.abs(), "{what}: {a} {b}");
    }
}

struct Fixture {
    decoder: Arc<Decoder>,
    folder: PathBuf,
    expected: File,
    lm_head: Table,
    shape: KangarooShape,
}

impl Fixture {
    fn open(test: &str) -> Option<Self> {
        let root = shared::shared("fixtures/early_exit", test)?;
        let (model, folder) = (root.join("model"), root.join("kangaroo"));
        let decoder = Arc::new(Decoder::load(&model, &Compute::cpu(FloatFormat::F32)).unwrap());
        let expected = File::open(&folder.join("expected.safetensors"));
        let table = Checkpoint::open(&model).unwrap().read_all("lm_head.weight").unwrap();
        let d = decoder.config().hidden_size;
        let table: Tensor<2> = Tensor::from_data(TensorData::new(table.clone(), [table.len() / d, d]), &Device::flex());
        let lm_head = Table::frozen(table, Frozen::default()).unwrap();
        let config = KangarooConfig { exit_layer: 2, stop: 0.6 };
        let shape = KangarooShape { config, layer: LayerShape::of(decoder.config()) };
        Some(Self { decoder, folder, expected, lm_head, shape })
    }

    /// The target's states of a sample: in front of the exit layer, and after the final norm.
    fn states(&self, ids: &[Token]) -> [Vec<f32>; 2] {
        let layers = self.decoder.config().layers;
        let mut target = DecoderTarget::new(self.decoder.clone(), 64, Hooks::new(vec![2], layers).unwrap());
        let output = target.prefill(ids).unwrap();
        [output.hooks[0].clone().into_values().into_vec(), output.hidden.into_values().into_vec()]
    }
}

fn tensor(values: Vec<f32>, width: usize) -> Tensor<2> {
    let rows = values.len() / width;
    Tensor::from_data(TensorData::new(values, [rows, width]), &Device::flex())
}

/// The samples with what counts of them, and features and logits as they are checked on the way.
fn checked_batch(fixture: &Fixture, weights: &[Tensor<1>], network: &KangarooNetwork) -> KangarooBatch {
    let Fixture { decoder, folder, expected, shape, .. } = fixture;
    let d = shape.layer.hidden_size;
    let model = KangarooModel::load(&HeadsFolder::open(folder).unwrap(), decoder.clone()).unwrap();
    let (mut exits, mut targets, mut segments, mut counted, mut first) = (vec![], vec![], vec![], vec![], 0);
    for sample in 0..2 {
        let name = |part: &str| format!("sample{sample}.{part}");
        let ids = expected.numbers(&name("ids"));
        let [exit, hidden] = fixture.states(&ids);
        close(&exit, &expected.floats(&name("hidden_exit")), (0.0, 1e-3), "hidden_exit");
        let rows = ids.len();
        // The adapter that decodes, and the one that is fitted.
        let states = HiddenStates::Host { values: exit.clone().into(), width: d };
        let decoded = model.forward(&states, &AttentionMask::Causal { rows }, &mut model.new_cache()).unwrap();
        let logits = model.logits(&decoded);
        let segment = 0..rows;
        let exits_of = tensor(exit.clone(), d).autodiff();
        let fitted = network.features(weights, exits_of, std::slice::from_ref(&segment)).inner();
        for (got, what) in [(decoded.into_values().into_vec(), "decoded"), (read(fitted), "fitted")] {
            close(&got, &expected.floats(&name("features")), (0.0, 1e-3), what);
        }
        close(&logits, &expected.floats(&name("logits")), (0.0, 1e-3), "logits");
        let mask = expected.numbers(&name("loss_mask"));
        let own: Vec<usize> = (0..rows).filter(|&row| mask[row] != 0).collect();
        counted.extend(own.iter().map(|row| (first + row) as u32));
        own.iter().for_each(|row| targets.extend_from_slice(&hidden[row * d..(row + 1) * d]));
        exits.extend(exit);
        segments.push(first..first + rows);
        first += rows;
    }
    KangarooBatch { exits: tensor(exits, d), segments, counted, targets: tensor(targets, d) }
}

#[test]
fn features_losses_and_gradients_are_the_fixtures() {
    let Some(fixture) = Fixture::open("kangaroo") else { return };
    let Fixture { folder, expected, lm_head, shape, .. } = &fixture;
    let adapter = Checkpoint::open(folder).unwrap();
    let weight = |spec: &ParameterSpec| {
        let values = adapter.read_all(&spec.name).unwrap();
        let n = values.len();
        Tensor::<1>::from_data(TensorData::new(values, [n]), &Device::flex())
    };
    let weights: Vec<Tensor<1>> = shape.parameters().iter().map(weight).collect();
    let network = KangarooNetwork::new(shape.clone(), 24);
    let batch = checked_batch(&fixture, &weights, &network);
    let n = batch.counted.len() as f32;
    let (output, gradients) = network.losses(&weights, (lm_head, 7), &batch, Some(1.0 / n));
    let document: Value = serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let loss = output.losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / f64::from(n);
    let want = document["loss"].as_f64().unwrap();
    assert!((loss - want).abs() < 1e-5 * want, "{loss} {want}");
    for (spec, gradient) in shape.parameters().iter().zip(gradients) {
        let want = expected.floats(&format!("grad.{}", spec.name));
        close(&read(gradient), &want, (1e-3, 1e-6), &spec.name);
    }
    let (again, none) = network.losses(&weights, (lm_head, 100), &batch, None);
    assert!(none.is_empty());
    close(&again.losses, &output.losses, (1e-6, 0.0), "without gradients");
    let nothing = KangarooBatch { counted: vec![], targets: batch.targets.clone().select(0, none_of()), ..batch };
    let (output, zeros) = network.losses(&weights, (lm_head, 7), &nothing, Some(1.0));
    assert!(output.losses.is_empty() && zeros.into_iter().all(|zero| read(zero).iter().all(|&v| v == 0.0)));
}

fn none_of() -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(Vec::<i32>::new(), [0]), &Device::flex())
}

/// A folder that is not what it says is refused in a line that names what is wrong.
#[test]
fn wrong_folders_are_refused_by_name() {
    let Some(fixture) = Fixture::open("kangaroo") else { return };
    let dir = tempfile::tempdir().unwrap();
    let weights = std::fs::read(fixture.folder.join("model.safetensors")).unwrap();
    std::fs::write(dir.path().join("model.safetensors"), weights).unwrap();
    let config = std::fs::read(fixture.folder.join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let said = |key: &str, value: Value| {
        let mut config = config.clone();
        config[key] = value;
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let model =
            HeadsFolder::open(dir.path()).and_then(|folder| KangarooModel::load(&folder, fixture.decoder.clone()));
        model.map(|model| model.stop()).map_err(|error| error.to_string())
    };
    assert_eq!(said("draft_stop", json!(0.25)), Ok(0.25));
    for (key, value, word) in [
        ("exit_layer", json!(null), "exit_layer is missing"),
        ("exit_layer", json!(6), "an adapter on 6 layers; the model has 6"),
        ("exit_layer", json!("two"), "not a count of 1 or more"),
        ("draft_stop", json!(2), "draft_stop is 2, not a number from 0 to 1"),
        ("num_attention_heads", json!(3), "num_attention_heads"),
        ("hidden_size", json!(32), "hidden_size is 32"),
    ] {
        let error = said(key, value).unwrap_err();
        assert!(error.contains(word) && error.contains(&dir.path().display().to_string()), "{error}");
    }
}
