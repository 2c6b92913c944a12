//! Readers of configs, adapters and chat input.

use super::sound::{with, written};
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_train::checkpoint::{MODEL_FILE, read_parameters, write_parameters};
use gorgon_train::lora::{Lora, LoraConfig};
use gorgon_train::parameters::{Parameter, Role};
use gorgon_workflows::chat::{command, saved};

/// An adapter for one matrix of 4 rows and 3 columns.
fn lora() -> Lora {
    let compute = Compute::cpu(FloatFormat::F32);
    let matrix = Parameter::new("layers.0.q_proj.weight", &[4, 3], Role::Matrix, vec![0.5; 12], compute.device());
    Lora::new(LoraConfig { rank: 2, ..LoraConfig::default() }, vec![matrix])
}

pub(super) fn adapter(bytes: &[u8]) {
    with(MODEL_FILE, bytes, |dir| {
        let mut parameters = lora().parameters(1);
        let _ = read_parameters(&dir.join(MODEL_FILE), &mut parameters, &[]);
    });
}

pub(super) fn adapter_seeds() -> Vec<Vec<u8>> {
    vec![written(MODEL_FILE, |path| {
        if let Some(dir) = path.parent() {
            let _ = write_parameters(dir, &lora().parameters(1), &[]);
        }
    })]
}

pub(super) fn job_config(bytes: &[u8]) {
    with("config.toml", bytes, |dir| drop(gorgon_workflows::config::check(&dir.join("config.toml"), &[])));
    if let Some((line, text)) = std::str::from_utf8(bytes).ok().and_then(|text| text.split_once('\n')) {
        with("config.toml", text.as_bytes(), |dir| {
            let _ = gorgon_workflows::config::check(&dir.join("config.toml"), &[line.to_owned()]);
        });
    }
}

pub(super) fn job_config_seeds() -> Vec<Vec<u8>> {
    let configs = [
        include_str!("../../../configs/recipes/llama-3.1-8b/distill.toml"),
        include_str!("../../../configs/recipes/llama-3.1-8b/medusa.toml"),
        include_str!("../../../configs/recipes/llama-3.1-8b/eagle3.toml"),
        include_str!("../../../configs/compare/tiny.toml"),
        "training.learning_rate=1e-3\nmethod = \"mtp\"\nmodel = \"m\"\ndata = \"d\"\n[mtp]\nmodules = 2\n",
    ];
    configs.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// One input, and a saved conversation.
pub(super) fn chat_input(bytes: &[u8]) {
    let _ = command::parse(&String::from_utf8_lossy(bytes));
    with("chat.json", bytes, |dir| drop(saved::load(&dir.join("chat.json"))));
}

pub(super) fn chat_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "/set temperature 0.7",
        "/set tree dynamic:60,5,10",
        "/compare \"\"\"two\nlines\"\"\"",
        "/drafter auto",
        "/laod file.json",
        "\"\"\"\nseveral\nlines\n\"\"\"",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).to_vec()
}
