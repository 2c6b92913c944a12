//! Models that are written in integers, read back.

use super::folder::{Folder, streams};
use crate::shared;
use gorgon_kernels::few_row_matmul::RowSource;
use gorgon_kernels::quantised_matmul::{CodeBits, Rounding, ScaleFormat, ScaleSearch};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::layout;
use gorgon_model::quantisation::{Plan, Scheme, Written};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use gorgon_model::weight_rows::WeightRows;
use gorgon_model::weights::Checkpoint;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Widths of 192 and 320, both divided by 64.
const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 192,
    intermediate_size: 320,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 64,
};

const INT4: Scheme = Scheme { bits: CodeBits::Four, group: Some(128), search: ScaleSearch::Clipped };
const INT8: Scheme = Scheme { bits: CodeBits::Eight, group: None, search: ScaleSearch::Clipped };

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A random model, changed by `edit`, and its quantised copy beside it.
struct Pair {
    dir: tempfile::TempDir,
    plan: Plan,
    written: Written,
}

impl Pair {
    fn new(shape: LlamaShape, format: FloatFormat, scheme: Scheme, largest_file: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (model, out) = (dir.path().join("model"), dir.path().join("out"));
        shape.write(&model, format, 5).unwrap();
        std::fs::create_dir(&out).unwrap();
        let checkpoint = Checkpoint::open(&model).unwrap().finite();
        let plan = Plan::new(&ModelConfig::read(&model).unwrap(), &checkpoint, scheme);
        let written = plan.write(&checkpoint, &out, largest_file, &|_, _| Ok(())).unwrap();
        let mut config = json(&model.join("config.json"));
        config["quantization_config"] = plan.settings();
        std::fs::write(out.join("config.json"), config.to_string()).unwrap();
        Self { dir, plan, written }
    }

    fn model(&self) -> Checkpoint {
        Checkpoint::open(&self.dir.path().join("model")).unwrap()
    }

    fn out(&self) -> Checkpoint {
        let out = self.dir.path().join("out");
        let checkpoint = Checkpoint::open(&out).unwrap();
        checkpoint.check(&ModelConfig::read(&out).unwrap()).unwrap();
        checkpoint
    }
}

/// Codes and scales that are read are those that rounding gives, in the layout of compressed-tensors: `q + 2^(bits - 1)`
/// along the inputs, low bits first; scales by output and group, in the weights' own format.
#[test]
fn what_is_read_is_what_was_rounded() {
    for (scheme, format, dtype) in [
        (INT4, FloatFormat::Bf16, Dtype::BF16),
        (INT4, FloatFormat::F32, Dtype::F32),
        (INT8, FloatFormat::F16, Dtype::F16),
        (Scheme { search: ScaleSearch::Greatest, group: Some(32), ..INT4 }, FloatFormat::F16, Dtype::F16),
    ] {
        let pair = Pair::new(SHAPE, format, scheme, usize::MAX);
        let (model, out) = (pair.model(), pair.out());
        let mut stored = Folder::read(&pair.dir.path().join("out"));
        assert_eq!(pair.plan.matrices.len(), 14);
        for matrix in &pair.plan.matrices {
            let names = [format!("{}.weight", matrix.module)];
            let rows = WeightRows::new(&model, &names).unwrap();
            let [d_out, d_in] = matrix.shape;
            let scale_format = ScaleFormat::of(&rounded_scales(format));
            let rounding = Rounding { bits: scheme.bits, group: matrix.group, scale_format, search: scheme.search };
            let rounded = rounding.round(d_in, d_out, &rows).unwrap();
            let read = WeightRows::new(&out, &names).unwrap();
            let codes = read.codes().unwrap();
            let mut values = vec![0u8; d_out * d_in];
            read.read_codes(0..d_out, &mut values).unwrap();
            assert_eq!(values, rounded.values, "{names:?}");
            assert_eq!((codes.scale_dtype, codes.group), (dtype, matrix.group.unwrap_or(d_in)));
            let groups = codes.groups();
            let by_group = (0..groups * d_out).map(|i| rounded.codes.scales[i % d_out * groups + i / d_out]);
            assert_eq!(codes.scales, by_group.collect::<Vec<f32>>());
            // The layout, bit by bit.
            let packed = stored.tensor(&format!("{}.weight_packed", matrix.module));
            let words: Vec<u8> =
                streams(&values, d_in, scheme.bits.bits()).iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!((packed.dtype, &packed.bytes), (Dtype::I32, &words));
            let scales = stored.tensor(&format!("{}.weight_scale", matrix.module));
            assert_eq!((scales.dtype, &scales.shape), (dtype, &vec![d_out, groups]));
            // The error that is reported is that of the weights as they are read.
            let (mut before, mut after) = (vec![0f32; d_out * d_in], vec![0f32; d_out * d_in]);
            rows.read_rows(0..d_out, &mut before).unwrap();
            read.read_rows(0..d_out, &mut after).unwrap();
            let error: f64 = before.iter().zip(&after).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            assert!((error - rounded.squared_error).abs() < 1e-9 * error, "{error} {}", rounded.squared_error);
        }
    }
}

/// One value that only this format holds.
fn rounded_scales(format: FloatFormat) -> Vec<f32> {
    match format {
        FloatFormat::F32 => vec![0.1],
        FloatFormat::F16 => vec![half::f16::from_f32(0.1).to_f32()],
        FloatFormat::Bf16 => vec![half::bf16::from_f32(0.1).to_f32()],
    }
}

/// One size of groups divides all widths; matrices that none divides are named and copied.
#[test]
fn the_config_says_what_is_where() {
    let pair = Pair::new(SHAPE, FloatFormat::Bf16, INT4, usize::MAX);
    let settings = pair.plan.settings();
    assert_eq!(settings["ignore"], json!(["lm_head"]));
    assert_eq!(settings["config_groups"].as_object().unwrap().len(), 1);
    assert_eq!(settings["config_groups"]["group_0"]["targets"], json!(["Linear"]));
    assert_eq!(settings["config_groups"]["group_0"]["weights"]["group_size"], 64);
    let mixed = LlamaShape { hidden_size: 128, intermediate_size: 96, ..SHAPE };
    let settings = Pair::new(mixed, FloatFormat::F32, INT4, usize::MAX).plan.settings();
    assert_eq!(settings["config_groups"]["group_0"]["weights"]["group_size"], 32);
    let shape = LlamaShape { hidden_size: 128, intermediate_size: 172, ..SHAPE };
    let pair = Pair::new(shape, FloatFormat::F32, INT4, usize::MAX);
    let settings = pair.plan.settings();
    let ignored = json!(["lm_head", "model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"]);
    assert_eq!(
        (&settings["ignore"], &settings["config_groups"]["group_0"]["weights"]["group_size"]),
        (&ignored, &json!(128))
    );
    let name = "model.layers.1.mlp.down_proj.weight";
    assert_eq!(pair.out().read_stored(name).unwrap(), pair.model().read_stored(name).unwrap());
    let eight = Pair::new(shape, FloatFormat::F32, INT8, usize::MAX).plan.settings();
    assert_eq!(eight["ignore"], json!(["lm_head"]));
    let weights = &eight["config_groups"]["group_0"]["weights"];
    assert_eq!(
        (&weights["strategy"], &weights["group_size"], &weights["num_bits"]),
        (&json!("channel"), &Value::Null, &json!(8))
    );
}

/// A model with experts has one size of group, and routers stay as they are.
#[test]
fn experts_are_alike() {
    let Some(dir) = shared::shared("fixtures/backbones/mixtral_sharded", "experts in integers") else { return };
    let (config, checkpoint) = (ModelConfig::read(&dir).unwrap(), Checkpoint::open(&dir).unwrap());
    let plan = Plan::new(&config, &checkpoint, INT4);
    assert_eq!((config.hidden_size, config.intermediate_size), (64, 96));
    assert_eq!(plan.matrices.len(), 2 * (4 + 4 * 3));
    assert!(plan.matrices.iter().all(|matrix| matrix.group == Some(32)));
    let routers = (0..2).map(|layer| format!("model.layers.{layer}.block_sparse_moe.gate"));
    assert_eq!(plan.ignored, ["lm_head".to_owned()].into_iter().chain(routers).collect::<Vec<_>>());
}

/// Shards hold the same tensors as one file, none is larger than allowed, and a module is in one of them.
#[test]
fn shards_hold_the_same_tensors() {
    let whole = Pair::new(SHAPE, FloatFormat::Bf16, INT4, usize::MAX);
    let parts = Pair::new(SHAPE, FloatFormat::Bf16, INT4, 150_000);
    assert_eq!(whole.written.files, ["model.safetensors"]);
    assert!(parts.written.files.len() > 2, "{:?}", parts.written.files);
    assert_eq!(
        (whole.written.bytes, whole.written.quantised_bytes),
        (parts.written.bytes, parts.written.quantised_bytes)
    );
    let (one, several) = (whole.out(), parts.out());
    assert_eq!((one.bytes(), one.quantised_bytes()), (whole.written.bytes, whole.written.quantised_bytes));
    assert!(one.entries().keys().eq(several.entries().keys()));
    for name in one.entries().keys() {
        assert_eq!(one.read_stored(name).unwrap(), several.read_stored(name).unwrap(), "{name}");
    }
    let index = json(&parts.dir.path().join("out/model.safetensors.index.json"));
    assert_eq!(index["metadata"]["total_size"], json!(parts.written.bytes));
    let module = |part: &str| &index["weight_map"][format!("model.layers.1.mlp.up_proj.{part}")];
    assert!(module("weight_packed") == module("weight_scale") && module("weight_scale") == module("weight_shape"));
}

fn logits(dir: &Path) -> Vec<f32> {
    let decoder = Arc::new(Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).unwrap());
    let mut target = DecoderTarget::new(decoder, 64, Hooks::none());
    let hidden = target.prefill(&(1..40).collect::<Vec<u32>>()).unwrap().hidden;
    target.logits(&hidden).to_vec()
}

/// The written model computes the bits of a model whose weights are the dequantised ones.
#[test]
fn logits_are_those_of_the_dequantised_weights() {
    for scheme in [INT4, INT8] {
        let pair = Pair::new(SHAPE, FloatFormat::F32, scheme, usize::MAX);
        let (out, dense) = (pair.out(), pair.dir.path().join("dense"));
        std::fs::create_dir(&dense).unwrap();
        let config = json(&pair.dir.path().join("model/config.json"));
        let specs = layout::tensors(&ModelConfig::from_json(&config).unwrap());
        let filled = |folder: Folder, spec: layout::TensorSpec| {
            folder.floats(&spec.name, &spec.shape, &out.read_all(&spec.name).unwrap())
        };
        specs.into_iter().fold(Folder::new(Value::Null), filled).write(&dense, &config);
        std::fs::write(dense.join("config.json"), config.to_string()).unwrap();
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(logits(&pair.dir.path().join("out"))), bits(logits(&dense)), "{scheme:?}");
    }
}

/// A weight that is not finite stops the writing, and is named.
#[test]
fn damaged_weights_are_named() {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 5).unwrap();
    let config = json(&dir.path().join("config.json"));
    let mut folder = Folder::read(dir.path());
    let damaged = folder.tensor("model.layers.1.mlp.down_proj.weight");
    damaged.bytes[400..404].copy_from_slice(&f32::NAN.to_le_bytes());
    folder.settings = Value::Null;
    folder.write(dir.path(), &config);
    let checkpoint = Checkpoint::open(dir.path()).unwrap().finite();
    let plan = Plan::new(&ModelConfig::read(dir.path()).unwrap(), &checkpoint, INT8);
    let out = tempfile::tempdir().unwrap();
    let error = plan.write(&checkpoint, out.path(), usize::MAX, &|_, _| Ok(())).unwrap_err().to_string();
    assert!(error.contains("model.layers.1.mlp.down_proj.weight") && error.contains("element 100"), "{error}");
    assert_eq!(out.path().read_dir().unwrap().count(), 0);
}
