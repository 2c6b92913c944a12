//! Settings that are not supported and tensors that lie: one line that names the place.

use super::folder::Folder;
use super::formats::{compressed, four_bits};
use crate::shared;
use gorgon_model::config::ModelConfig;
use gorgon_model::random::LlamaShape;
use gorgon_model::weights::Checkpoint;
use safetensors::Dtype;
use serde_json::{Value, json};

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 16,
    intermediate_size: 24,
    layers: 1,
    heads: 2,
    kv_heads: 1,
    vocab_size: 260,
    max_positions: 32,
};

fn with(mut settings: Value, key: &str, value: Value) -> Value {
    settings[key] = value;
    settings
}

fn other_settings() -> Vec<(Value, &'static str)> {
    let gptq = json!({"quant_method": "gptq", "bits": 4, "group_size": 128});
    let awq = json!({"quant_method": "awq", "bits": 4, "group_size": 128});
    let fp8 = json!({"quant_method": "fp8"});
    let bnb = json!({"quant_method": "bitsandbytes", "load_in_4bit": true});
    vec![
        (json!({"quant_method": "hqq"}), "quant_method is \"hqq\""),
        (json!({}), "quant_method is missing"),
        (json!([1]), "no JSON object"),
        (with(gptq.clone(), "bits", json!(5)), "bits is 5"),
        (with(gptq.clone(), "bits", json!("4")), "bits is \"4\""),
        (with(gptq.clone(), "group_size", json!(0)), "group_size is 0"),
        (with(gptq.clone(), "checkpoint_format", json!("marlin")), "checkpoint_format is \"marlin\""),
        (with(gptq.clone(), "dynamic", json!({"+:a": {"bits": 8}})), "dynamic is"),
        (with(gptq, "pack_dtype", json!("int64")), "pack_dtype is \"int64\""),
        (with(awq.clone(), "version", json!("gemv")), "version is \"gemv\""),
        (with(awq.clone(), "zero_point", json!(false)), "zero_point is false"),
        (with(awq, "bits", json!(8)), "bits is 8"),
        (with(fp8.clone(), "fmt", json!("e5m2")), "fmt is \"e5m2\""),
        (with(fp8, "weight_block_size", json!([128, 0])), "weight_block_size is [128,0]"),
        (with(bnb.clone(), "bnb_4bit_quant_type", json!("af4")), "bnb_4bit_quant_type is \"af4\""),
        (with(bnb, "load_in_8bit", json!(true)), "load_in_8bit"),
    ]
}

fn compressed_settings() -> Vec<(Value, &'static str)> {
    let int4 = json!({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128});
    let packed = |key: &str, value: Value| compressed("pack-quantized", &with(int4.clone(), key, value));
    vec![
        (compressed("nvfp4-pack-quantized", &int4), "format is \"nvfp4-pack-quantized\""),
        (compressed("marlin-24", &int4), "format is \"marlin-24\""),
        (packed("num_bits", json!(9)), "config_groups.group_0.weights.num_bits is 9"),
        (packed("strategy", json!("block")), "strategy is \"block\""),
        (packed("actorder", json!("random")), "actorder is \"random\""),
        (compressed("float-quantized", &int4), "weights of type int"),
        (with(packed("num_bits", json!(4)), "sparsity_config", json!({"format": "sparse-24"})), "sparsity_config is"),
        (with(packed("num_bits", json!(4)), "ignore", json!(["re:(?!x)"])), "ignore has \"re:(?!x)\""),
        (with(packed("num_bits", json!(4)), "ignore", json!([1])), "ignore is [1]"),
        (with(packed("num_bits", json!(4)), "transform_config", json!({"a": 1})), "transform_config is"),
        (with(packed("num_bits", json!(4)), "quantization_status", json!("calibration")), "quantization_status is"),
    ]
}

#[test]
fn settings_that_are_not_supported() {
    for (settings, words) in other_settings().into_iter().chain(compressed_settings()) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = SHAPE.config(gorgon_model::device::FloatFormat::F32);
        config["quantization_config"] = settings;
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let error = ModelConfig::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("config.json: quantization_config") && error.contains(words), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// Changes a folder of a fixture, and expects words in the message that opening a module gives.
fn refused(fixture: &str, words: &str, change: impl Fn(&mut Folder, &str)) {
    let Some(dir) = shared::shared(&format!("fixtures/quantised/{fixture}"), "damaged tensors") else { return };
    let mut folder = Folder::read(&dir);
    let module = "model.layers.0.self_attn.k_proj";
    change(&mut folder, module);
    let config: Value = serde_json::from_slice(&std::fs::read(dir.join("config.json")).unwrap()).unwrap();
    let out = tempfile::tempdir().unwrap();
    folder.write(out.path(), &config);
    let checkpoint = Checkpoint::open(out.path()).unwrap();
    let error = checkpoint.read_all(&format!("{module}.weight")).unwrap_err().to_string();
    assert!(error.contains(words) && error.contains("k_proj"), "{fixture}: {error}");
    let problems = checkpoint.problems(&ModelConfig::read(out.path()).unwrap());
    // Numbers are looked at when they are read.
    assert_eq!(problems.is_empty(), words.starts_with("element"), "{fixture}: {problems}");
}

/// Writes bytes over a tensor's.
fn put(folder: &mut Folder, name: &str, at: usize, bytes: &[u8]) {
    folder.tensor(name).bytes[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn tensors_that_lie() {
    let gone = |suffix: &'static str| {
        move |folder: &mut Folder, m: &str| folder.tensors.retain(|tensor| tensor.name != format!("{m}.{suffix}"))
    };
    refused("ct_int4_g128_sym", "weight_scale", gone("weight_scale"));
    refused("ct_int4_g128_sym", "weight_shape", gone("weight_shape"));
    for huge in [i64::MAX, -1, 0, 1 << 40] {
        refused("ct_int4_g128_sym", "is not supported", |f, m| {
            put(f, &format!("{m}.weight_shape"), 8, &huge.to_le_bytes());
        });
    }
    refused("ct_int4_g128_sym", "weight_packed is [64, 16]", |f, m| {
        put(f, &format!("{m}.weight_shape"), 8, &120i64.to_le_bytes());
    });
    refused("ct_int4_g128_asym_actorder", "element 3 is 99", |f, m| {
        put(f, &format!("{m}.weight_g_idx"), 12, &99i32.to_le_bytes());
    });
    refused("gptq_asym_desc_act", "element 0 is -2", |f, m| put(f, &format!("{m}.g_idx"), 0, &(-2i32).to_le_bytes()));
    refused("gptq_asym_desc_act", "element 1 is NaN", |f, m| put(f, &format!("{m}.scales"), 2, &[0xff, 0x7f]));
    refused("ct_int8_channel", "weight_scale", gone("weight_scale"));
    refused("fp8_block128", "element 0 is inf", |f, m| {
        put(f, &format!("{m}.weight_scale_inv"), 0, &f32::INFINITY.to_le_bytes());
    });
    refused("awq_gemm_g128", "qzeros is I64", |f, m| {
        let tensor = f.tensor(&format!("{m}.qzeros"));
        (tensor.dtype, tensor.bytes) = (Dtype::I64, [tensor.bytes.clone(), tensor.bytes.clone()].concat());
    });
    refused("awq_gemm_g128", "scales", gone("scales"));
    refused("bnb_int8", "weight_format", |f, m| put(f, &format!("{m}.weight_format"), 0, &[2]));
    refused("bnb_nf4", "quant_state", |f, m| {
        let tensor = f.tensor(&format!("{m}.weight.quant_state.bitsandbytes__nf4"));
        tensor.bytes.truncate(40);
        tensor.shape = vec![40];
    });
}

#[test]
fn a_weight_that_is_no_number() {
    let Some(dir) = shared::shared("fixtures/quantised/fp8_block128", "weights that are no numbers") else { return };
    let mut folder = Folder::read(&dir);
    put(&mut folder, "model.layers.0.self_attn.k_proj.weight", 130, &[0x7f]);
    let error = folder.open().1.read_all("model.layers.0.self_attn.k_proj.weight").unwrap_err().to_string();
    assert!(error.contains("row 1, column 2 is NaN"), "{error}");
}

#[test]
fn settings_of_a_module_that_lie() {
    let state = "m.weight.quant_state.bitsandbytes__nf4";
    let changes = [
        ("shape", json!([13, 12]), "72 bytes"),
        ("shape", json!([u64::MAX, u64::MAX]), "not supported"),
        ("shape", json!([143]), "two sizes"),
        ("shape", json!([0, 11]), "not supported"),
        ("blocksize", json!(0), "blocks of"),
        ("blocksize", json!(u64::MAX), "blocks of"),
        ("blocksize", json!(32), "absmax"),
        ("blocksize", json!("64"), "quant_state"),
        ("quant_type", json!("fp4"), "quant_type is \"fp4\""),
        ("nested_offset", json!(1e300), "nested_offset"),
        ("nested_blocksize", json!(0), "blocks of"),
    ];
    for (key, value, words) in changes {
        let (mut folder, _) = four_bits(true);
        let tensor = folder.tensor(state);
        let mut settings: Value = serde_json::from_slice(&tensor.bytes).unwrap();
        settings[key] = value;
        tensor.bytes = settings.to_string().into_bytes();
        tensor.shape = vec![tensor.bytes.len()];
        let error = folder.matrix().unwrap_err();
        assert!(error.contains(words), "{key}: {error}");
    }
}
