//! Wrong use and damaged models: one clear line, exit code 2, nothing half-written.

use crate::gorgon;

use gorgon::{Model, gorgon as run, refused};
use serde_json::{Value, json};
use std::io::Write;

fn generate<'a>(model: &'a Model, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["generate", "--model", model.name(), "--ids", "1,2,3", "--max-new-tokens", "2"];
    args.extend(more);
    args
}

fn refused_model(model: &Model, words: &[&str]) {
    refused(&generate(model, &[]), words);
    let out = model.file("out.safetensors");
    refused(&["logits", "--model", model.name(), "--ids", "1,2", "--out", out.to_str().unwrap()], words);
    let left: Vec<_> = std::fs::read_dir(model.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("out")), "left behind: {left:?}");
}

#[test]
fn wrong_use() {
    let model = Model::new();
    let name = model.name();
    refused(&["generate", "--model", name], &["--prompt"]);
    refused(&["generate", "--model", name, "--prompt", ""], &["empty"]);
    refused(&["generate", "--model", name, "--ids", ""], &["empty"]);
    refused(&["generate", "--model", name, "--ids", "1,x"], &["\"x\""]);
    refused(&["generate", "--model", name, "--ids", "1,-2"], &["\"-2\""]);
    refused(&["generate", "--model", name, "--ids", "1", "--prompt", "hi"], &["--prompt"]);
    refused(&generate(&model, &["--temperature", "-1"]), &["-1"]);
    refused(&generate(&model, &["--temperature", "NaN"]), &["NaN"]);
    refused(&generate(&model, &["--top-p", "1.5"]), &["1.5"]);
    refused(&generate(&model, &["--top-k", "0"]), &["0"]);
    refused(&generate(&model, &["--accept", "hope"]), &["hope", "typical"]);
    refused(&generate(&model, &["--device", "tpu"]), &["tpu", "wgpu"]);
    refused(&generate(&model, &["--dtype", "f8"]), &["f8"]);
    refused(&generate(&model, &["--weights", "int3"]), &["--weights", "int3", "int8 or int4"]);
    refused(&generate(&model, &["--int8", "8"]), &["--int8"]);
    refused(&generate(&model, &["--compute-dtype", "f16"]), &["--compute-dtype", "f16", "bf16"]);
    refused(
        &generate(&model, &["--compute-dtype", "bf16", "--dtype", "f32"]),
        &["--compute-dtype bf16", "--dtype f32"],
    );
    refused(
        &generate(&model, &["--compute-dtype", "bf16", "--weights", "int8"]),
        &["--compute-dtype bf16", "--weights int8"],
    );
    refused(&generate(&model, &["--threads", "0"]), &["0"]);
    refused(&["generate", "--model", name, "--ids", "1", "--max-new-tokens", "0"], &["0"]);
    refused(&["inspect", "/no/such/folder"], &["/no/such/folder"]);
    refused(&["frobnicate"], &["frobnicate"]);
    if !cfg!(feature = "cuda") {
        refused(&generate(&model, &["--device", "cuda"]), &["cuda", "--features cuda"]);
    }
}

#[test]
fn models_that_are_not_there() {
    refused(&["generate", "--model", "./no-such-folder", "--ids", "1"], &["no-such-folder"]);
    refused(&["generate", "--model", "/no/such/folder", "--ids", "1"], &["/no/such/folder"]);
    refused(&["generate", "--model", "nobody/nothing", "--ids", "1", "--offline"], &["nobody/nothing"]);
    refused(&["fetch", "nobody/nothing", "--offline"], &["nobody/nothing"]);
    let empty = tempfile::tempdir().unwrap();
    refused(&["generate", "--model", empty.path().to_str().unwrap(), "--ids", "1"], &["config.json"]);
}

#[test]
fn prompts_that_do_not_fit() {
    let model = Model::new();
    let name = model.name();
    let long = (0..65).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    refused(&["generate", "--model", name, "--ids", &long], &["65", "64"]);
    let args = ["generate", "--model", name, "--ids", "1,2", "--ignore-eos", "--max-new-tokens", "64"];
    refused(&args, &["64", "63"]);
    refused(&["generate", "--model", name, "--ids", "1,300"], &["300", "vocabulary"]);
    refused(&["generate", "--model", name, "--ids", "4294967296"], &["4294967296"]);
    let out = model.file("o.safetensors");
    let out = out.to_str().unwrap();
    refused(&["logits", "--model", name, "--ids", &long, "--out", out], &["65", "64"]);
    refused(&["logits", "--model", name, "--ids", "999", "--out", out], &["999"]);
    refused(&["logits", "--model", name, "--ids", "1", "--out", "/no/such/folder/f"], &["/no/such/folder"]);
    assert!(!model.file("o.safetensors").exists());
}

#[test]
fn damaged_weights() {
    let whole = Model::new();
    let bytes = std::fs::read(whole.file("model.safetensors")).unwrap();
    let with = |bytes: &[u8]| {
        let model = Model::new();
        std::fs::write(model.file("model.safetensors"), bytes).unwrap();
        model
    };
    refused_model(&with(&bytes[..bytes.len() - 10]), &["model.safetensors", "truncated"]);
    refused_model(&with(&bytes[..4]), &["model.safetensors"]);
    refused_model(&with(&bytes[..100]), &["model.safetensors", "header"]);
    refused_model(&with(b""), &["model.safetensors"]);
    let mut lying = bytes.clone();
    lying[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    refused_model(&with(&lying), &["header claims 18446744073709551615 bytes"]);
    let mut noise = bytes.clone();
    noise[8..40].fill(b'x');
    refused_model(&with(&noise), &["header"]);
    let mut longer = bytes.clone();
    longer.extend([0; 12]);
    refused_model(&with(&longer), &["12 bytes follow"]);
    let model = Model::new();
    std::fs::remove_file(model.file("model.safetensors")).unwrap();
    refused_model(&model, &["no model.safetensors"]);
    std::fs::write(model.file("pytorch_model.bin"), b"").unwrap();
    refused_model(&model, &["converted to safetensors"]);
}

#[test]
fn lying_headers() {
    let damage = |change: &dyn Fn(&mut Value)| {
        let model = Model::new();
        model.edit_header(change);
        model
    };
    let q = "model.layers.0.self_attn.q_proj.weight";
    let k = "model.layers.0.self_attn.k_proj.weight";
    refused_model(&damage(&|h| h[q]["data_offsets"] = h[k]["data_offsets"].clone()), &["offset"]);
    refused_model(&damage(&|h| h[q]["data_offsets"] = json!([0, u64::MAX])), &["header"]);
    refused_model(&damage(&|h| h[q]["shape"] = json!([1u64 << 40, 1u64 << 40])), &["header"]);
    refused_model(&damage(&|h| h[q]["shape"] = json!([16, 64])), &[q, "[16, 64]", "[32, 32]"]);
    refused_model(&damage(&|h| h[q]["dtype"] = json!("I32")), &[q, "I32"]);
    refused_model(&damage(&|h| h[q]["dtype"] = json!("F7")), &["F7"]);
    let renamed = |h: &mut Value| {
        let entry = h.as_object_mut().unwrap().remove(q).unwrap();
        h["model.layers.0.self_attn.query.weight"] = entry;
    };
    refused_model(&damage(&renamed), &["1 missing", q, "1 unexpected", "self_attn.query.weight"]);
}

#[test]
fn an_index_must_stay_in_its_folder() {
    let model = Model::new();
    let outside = tempfile::tempdir().unwrap();
    let stolen = outside.path().join("stolen.safetensors");
    std::fs::rename(model.file("model.safetensors"), &stolen).unwrap();
    let header = std::fs::read(&stolen).unwrap();
    let size = u64::from_le_bytes(header[..8].try_into().unwrap()) as usize;
    let names: serde_json::Map<String, Value> = serde_json::from_slice(&header[8..8 + size]).unwrap();
    let index = |file: &str| {
        let map: serde_json::Map<String, Value> =
            names.keys().filter(|name| *name != "__metadata__").map(|name| (name.clone(), file.into())).collect();
        let index = json!({ "metadata": {}, "weight_map": map }).to_string();
        std::fs::write(model.file("model.safetensors.index.json"), index).unwrap();
    };
    for file in ["../stolen.safetensors", stolen.to_str().unwrap(), "sub/../../stolen.safetensors", "..", ""] {
        index(file);
        refused_model(&model, &["weight_map", file]);
    }
    index("absent.safetensors");
    refused_model(&model, &["absent.safetensors"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&stolen, model.file("link.safetensors")).unwrap();
        index("link.safetensors");
        refused_model(&model, &["link.safetensors", "leaves"]);
    }
    std::fs::copy(&stolen, model.file("part.safetensors")).unwrap();
    index("part.safetensors");
    assert!(run(&generate(&model, &[])).status.success());
    std::fs::write(model.file("model.safetensors.index.json"), "{}").unwrap();
    refused_model(&model, &["weight_map"]);
}

#[test]
fn absurd_configs() {
    let changed: [(&str, Value); 22] = [
        ("hidden_size", json!(0)),
        ("hidden_size", json!(-32)),
        ("hidden_size", json!("32")),
        ("hidden_size", json!(1u64 << 60)),
        ("num_hidden_layers", json!(0)),
        ("num_hidden_layers", json!(1_000_000_000)),
        ("num_attention_heads", json!(0)),
        ("num_attention_heads", json!(5)),
        ("num_key_value_heads", json!(3)),
        ("head_dim", json!(7)),
        ("vocab_size", json!(0)),
        ("vocab_size", json!(1u64 << 40)),
        ("intermediate_size", json!(0)),
        ("max_position_embeddings", json!(0)),
        ("rms_norm_eps", json!(-1.0)),
        ("rope_theta", json!(0)),
        ("rope_scaling", json!({"type": "longrope", "factor": 2})),
        ("rope_scaling", json!({"type": "linear"})),
        ("hidden_act", json!("relu")),
        ("eos_token_id", json!("</s>")),
        ("quantization_config", json!({"quant_method": "gptq"})),
        ("tie_word_embeddings", json!("yes")),
    ];
    for (key, value) in changed {
        let model = Model::new();
        model.edit("config.json", |config| config[key] = value.clone());
        let word = if key == "rope_scaling" { "rope_scaling" } else { key };
        refused_model(&model, &["config.json", word]);
    }
    let model = Model::new();
    model.edit("config.json", |config| {
        config["architectures"] = json!(["MambaForCausalLM"]);
        config["model_type"] = json!("mamba");
    });
    refused_model(&model, &["MambaForCausalLM", "supported: llama, mistral, qwen2, qwen3, gemma2, phi3, mixtral"]);
    std::fs::write(model.file("config.json"), "{").unwrap();
    refused_model(&model, &["config.json"]);
    std::fs::write(model.file("config.json"), "[1]").unwrap();
    refused_model(&model, &["config.json"]);
}

#[test]
fn tokenizers_and_templates() {
    let model = Model::new();
    let prompt = ["generate", "--model", model.name(), "--prompt", "hi", "--max-new-tokens", "2"];
    assert!(run(&prompt).status.success());
    // A template that loops or recurses without end.
    for template in [
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(t='x') %}{% for i in range(100) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t }}",
        "{{ undefined.field.field }}",
        "{% if %}",
        "{{ raise_exception('no system please') }}",
    ] {
        model.edit("tokenizer_config.json", |config| config["chat_template"] = template.into());
        refused(&prompt, &["tokenizer_config.json"]);
    }
    model.edit("tokenizer_config.json", |config| config["chat_template"] = Value::Null);
    refused(&[&prompt[..], &["--system", "be kind"]].concat(), &["chat template"]);
    // A tokenizer with more tokens than the model.
    model.edit("tokenizer.json", |tokenizer| {
        tokenizer["model"]["vocab"]["zz"] = 5000.into();
    });
    refused(&prompt, &["tokenizer.json", "5000"]);
    let mut file = std::fs::File::create(model.file("tokenizer.json")).unwrap();
    file.write_all(b"{\"version\": ").unwrap();
    refused(&prompt, &["tokenizer.json"]);
    std::fs::remove_file(model.file("tokenizer.json")).unwrap();
    refused(&prompt, &["tokenizer.json"]);
    assert!(run(&generate(&model, &[])).status.success(), "ids need no tokenizer");
}

#[test]
fn weights_that_are_no_numbers() {
    let model = Model::new();
    let mut bytes = std::fs::read(model.file("model.safetensors")).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(model.file("model.safetensors"), bytes).unwrap();
    refused_model(&model, &["tensor lm_head.weight", "element 9599 is not finite"]);
}

#[test]
fn a_context_that_no_memory_holds() {
    let model = Model::new();
    model.edit("config.json", |config| config["max_position_embeddings"] = (1 << 30).into());
    let args = ["generate", "--model", model.name(), "--ids", "1", "--max-new-tokens", "1000000000"];
    refused(&args, &["memory"]);
    model.edit("config.json", |config| {
        config["architectures"] = json!(["MixtralForCausalLM"]);
        config["model_type"] = json!("mixtral");
        config["num_local_experts"] = json!(4096);
        config["num_hidden_layers"] = json!(4096);
    });
    refused_model(&model, &["config.json", "networks"]);
}

#[test]
fn messages_hold_no_control_characters() {
    let model = Model::new();
    model.edit("config.json", |config| {
        config["architectures"] = json!(["\u{1b}[2JEvil"]);
        config["model_type"] = json!("evil");
    });
    let output = run(&generate(&model, &[]));
    assert_eq!(output.status.code(), Some(2));
    assert!(!gorgon::stderr(&output).contains('\u{1b}'));
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::{Command, Stdio};

    #[test]
    fn paths_and_prompts_that_are_no_text() {
        for args in [["inspect", "d"], ["fetch", "r"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gorgon"));
            let output = command.arg(args[0]).arg(OsStr::from_bytes(b"\xff\xfe")).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{}", gorgon::stderr(&output));
            assert!(gorgon::stderr(&output).starts_with("error: "));
        }
        let model = Model::new();
        let dir = model.path().join(OsStr::from_bytes(b"\xff"));
        gorgon::SHAPE.write(&dir, gorgon_model::device::FloatFormat::F32, 1).unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_gorgon")).arg("inspect").arg(&dir).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", gorgon::stderr(&output));
    }

    #[test]
    fn devices_and_pipes_are_not_files() {
        let model = Model::new();
        let null = model.file("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        let out = null.to_str().unwrap();
        refused(&["logits", "--model", model.name(), "--ids", "1", "--out", out], &["no ordinary file"]);
        refused(&["logits", "--model", model.name(), "--ids", "1", "--out", model.name()], &["a folder"]);
        for name in ["tokenizer_config.json", "generation_config.json", "config.json", "model.safetensors"] {
            let model = Model::new();
            let _ = std::fs::remove_file(model.file(name));
            std::os::unix::fs::symlink("/dev/zero", model.file(name)).unwrap();
            refused(&["generate", "--model", model.name(), "--prompt", "x"], &[name, "not an ordinary file"]);
        }
    }

    #[test]
    fn output_that_cannot_be_written_is_a_failure() {
        let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        if !std::path::Path::new("/dev/full").exists() {
            return;
        }
        let model = Model::new();
        let status = |out: Stdio, err: Stdio, model: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gorgon"));
            command.args([
                "generate",
                "--model",
                model,
                "--ids",
                "1",
                "--max-new-tokens",
                "2",
                "--print-ids",
                "--offline",
            ]);
            command.stdout(out).stderr(err).status().unwrap().code()
        };
        assert_eq!(status(full(), Stdio::null(), model.name()), Some(1));
        assert_eq!(status(Stdio::null(), full(), model.name()), Some(0));
        assert_eq!(status(Stdio::null(), full(), "no/such"), Some(2));
    }
}

/// The tokenizer library alone would panic on this file.
#[test]
fn a_tokenizer_that_is_no_json_is_refused() {
    let model = Model::new();
    let text = std::fs::read_to_string(model.file("tokenizer.json")).unwrap();
    let at = text.find("\"decoder\"").unwrap();
    let broken = format!("{}\"decoder\": {{\"type\" 1}},{}", &text[..at], &text[at..]);
    std::fs::write(model.file("tokenizer.json"), broken).unwrap();
    refused(&["generate", "--model", model.name(), "--prompt", "Hi"], &["tokenizer.json", "expected `:` at line"]);
}

/// Options that depend on the weights or on the temperature.
#[test]
fn options_without_an_effect_are_refused() {
    let (model, dir) = (Model::new(), tempfile::tempdir().unwrap());
    let prompts = dir.path().join("prompts.txt");
    std::fs::write(&prompts, "one\n").unwrap();
    let base = ["--model", model.name(), "--max-new-tokens", "4"];
    let bits = ["generate", "--ids", "1", "--activation-bits", "16"];
    refused(&[&bits[..], &base].concat(), &["--activation-bits 16", "no weights in integers"]);
    assert!(run(&[&bits[..], &base, &["--weights", "int8"]].concat()).status.success());
    let verify = ["verify", "--prompts", prompts.to_str().unwrap(), "--drafter", "ngram:2", "--samples", "3"];
    refused(&[&verify[..], &base].concat(), &["--samples 3", "temperature 0"]);
}
