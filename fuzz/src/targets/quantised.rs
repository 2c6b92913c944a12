//! Settings of quantised checkpoints, with the tensors they are about.

use super::sound::written;
use gorgon_model::config::ModelConfig;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::weights::Checkpoint;
use gorgon_runs::tensors::{Stored, write};
use safetensors::Dtype;
use serde_json::{Value, json};

/// A line of settings, then a file of tensors; the module is `m`.
pub(super) fn checkpoint(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (settings, tensors) = bytes.split_at(end);
    let Ok(dir) = tempfile::tempdir() else { return };
    let config = [&b"{\"quantization_config\":"[..], settings, b"}"].concat();
    let written = std::fs::write(dir.path().join("config.json"), config).is_ok()
        && std::fs::write(dir.path().join("model.safetensors"), tensors.get(1..).unwrap_or_default()).is_ok();
    if !written {
        return;
    }
    let _ = ModelConfig::read(dir.path());
    let Ok(checkpoint) = Checkpoint::open(dir.path()) else { return };
    let _ = (checkpoint.loaded_bytes(&Compute::cpu(FloatFormat::F32)), checkpoint.quantised_bytes());
    if let Ok(config) = ModelConfig::read(super::sound::model()) {
        let _ = checkpoint.problems(&config);
    }
    let _ = checkpoint.read_all("m.weight");
}

/// Tensors of module `m` whose bytes count up.
fn seed(settings: Value, tensors: &[(&str, Dtype, &[usize])]) -> Vec<u8> {
    let stored = |&(suffix, dtype, shape): &(&str, Dtype, &[usize])| {
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let fill = match dtype {
            Dtype::F32 => (0..bytes).map(|i| [0, 0, 0x80, 0x3f][i % 4]).collect(),
            _ => (0..bytes).map(|i| (i % 7) as u8).collect(),
        };
        Stored { name: format!("m.{suffix}"), dtype, shape: shape.to_vec(), bytes: fill }
    };
    with(settings, tensors.iter().map(stored).collect())
}

fn with(settings: Value, tensors: Vec<Stored>) -> Vec<u8> {
    let file = written("t.safetensors", |path| {
        let _ = write(path, &tensors.iter().map(Stored::source).collect::<Vec<_>>());
    });
    [settings.to_string().into_bytes(), vec![b'\n'], file].concat()
}

fn compressed(format: &str, weights: Value) -> Value {
    json!({"quant_method": "compressed-tensors", "format": format, "ignore": ["re:.*head"],
           "config_groups": {"a": {"targets": ["Linear"], "weights": weights}}})
}

/// Three bits in 17 inputs, with zero points and an order of inputs.
fn packed() -> Vec<u8> {
    let weights = json!({"num_bits": 3, "type": "int", "strategy": "group", "group_size": 8, "symmetric": false,
                         "actorder": "group"});
    let tensor = |suffix: &str, dtype, shape: &[usize], bytes: Vec<u8>| Stored {
        name: format!("m.{suffix}"),
        dtype,
        shape: shape.to_vec(),
        bytes,
    };
    let words = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let index: Vec<u32> = (0..17).map(|k| k * 5 % 17 / 8).collect();
    let ones = [1f32; 9].iter().flat_map(|value| value.to_le_bytes()).collect();
    let shape = [3i64, 17].iter().flat_map(|size| size.to_le_bytes()).collect();
    let tensors = vec![
        tensor("weight_packed", Dtype::I32, &[3, 2], words(&[0x1234_5678, 9, 7, 3, 2, 1])),
        tensor("weight_scale", Dtype::F32, &[3, 3], ones),
        tensor("weight_zero_point", Dtype::I32, &[1, 3], words(&[1, 2, 3])),
        tensor("weight_g_idx", Dtype::I32, &[17], words(&index)),
        tensor("weight_shape", Dtype::I64, &[2], shape),
    ];
    with(compressed("pack-quantized", weights), tensors)
}

/// NF4 in blocks that run across rows.
fn four_bits() -> Vec<u8> {
    let state = json!({"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [5, 13]}).to_string();
    let tensor = |suffix: &str, dtype, shape: &[usize], bytes: Vec<u8>| Stored {
        name: format!("m.weight{suffix}"),
        dtype,
        shape: shape.to_vec(),
        bytes,
    };
    let ones = |count: usize| [0, 0, 0x80, 0x3f].repeat(count);
    let tensors = vec![
        tensor("", Dtype::U8, &[33, 1], (0..33).collect()),
        tensor(".absmax", Dtype::F32, &[2], ones(2)),
        tensor(".quant_map", Dtype::F32, &[16], ones(16)),
        tensor(".quant_state.bitsandbytes__nf4", Dtype::U8, &[state.len()], state.into_bytes()),
    ];
    let settings = json!({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"});
    with(settings, tensors)
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (i8s, words, floats) = (Dtype::I8, Dtype::I32, Dtype::F32);
    let channel = json!({"num_bits": 8, "type": "int", "strategy": "channel"});
    vec![
        packed(),
        four_bits(),
        seed(compressed("int-quantized", channel), &[("weight", i8s, &[3, 5]), ("weight_scale", floats, &[3, 1])]),
        seed(
            json!({"quant_method": "fp8", "weight_block_size": [2, 3]}),
            &[("weight", Dtype::F8_E4M3, &[5, 7]), ("weight_scale_inv", floats, &[3, 3])],
        ),
        seed(
            json!({"quant_method": "gptq", "bits": 4, "group_size": 8}),
            &[
                ("qweight", words, &[2, 8]),
                ("qzeros", words, &[2, 1]),
                ("scales", floats, &[2, 8]),
                ("g_idx", words, &[16]),
            ],
        ),
        seed(
            json!({"quant_method": "awq", "bits": 4, "group_size": 8, "version": "gemm"}),
            &[("qweight", words, &[16, 2]), ("qzeros", words, &[2, 2]), ("scales", floats, &[2, 16])],
        ),
        seed(
            json!({"quant_method": "bitsandbytes", "load_in_8bit": true}),
            &[("weight", i8s, &[3, 5]), ("SCB", floats, &[3])],
        ),
    ]
}
