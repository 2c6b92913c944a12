//! Configs of encoder-decoder models.

use super::sound::with;
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_infer::{Limits, decode};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::T5Shape;
use gorgon_model::target::DecoderTarget;
use serde_json::json;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

const SHAPE: T5Shape = T5Shape {
    hidden_size: 16,
    intermediate_size: 24,
    encoder_layers: 1,
    layers: 1,
    heads: 2,
    head_dim: 8,
    vocab_size: 260,
    gated: true,
};

/// The file of weights in a model folder.
const WEIGHTS: &str = "model.safetensors";
/// The text that the encoder reads.
const SOURCE: [Token; 4] = [72, 105, 3, 257];
/// Tokens of an answer.
const NEW_TOKENS: usize = 4;

/// Sound models: version 1.0 and version 1.1.
fn models() -> [&'static Path; 2] {
    static MODELS: OnceLock<[tempfile::TempDir; 2]> = OnceLock::new();
    let write = |gated| {
        let dir = tempfile::tempdir().expect("a folder for a model");
        T5Shape { gated, ..SHAPE }.write(dir.path(), 1).expect("a model");
        dir
    };
    MODELS.get_or_init(|| [false, true].map(write)).each_ref().map(tempfile::TempDir::path)
}

/// Loads a folder's config with the weights of a sound model.
fn load(dir: &Path, model: &Path) -> Result<Decoder, String> {
    std::fs::copy(model.join(WEIGHTS), dir.join(WEIGHTS)).map_err(|error| error.to_string())?;
    Decoder::load(dir, &Compute::cpu(FloatFormat::F32)).map_err(|error| error.to_string())
}

/// A config beside the weights of both sound models. Where they fit, a source is read and answered.
pub(super) fn config(bytes: &[u8]) {
    with("config.json", bytes, |dir| {
        let Ok(config) = ModelConfig::read(dir) else { return };
        for decoder in models().into_iter().filter_map(|model| load(dir, model).ok()) {
            assert_eq!(decoder.has_encoder(), config.encoder.is_some());
            answer(Arc::new(decoder));
        }
    });
}

/// An answer has tokens of the model only, and no more than were asked for.
fn answer(decoder: Arc<Decoder>) {
    let (prompt, vocab) = (decoder.config().prompt(SOURCE.to_vec()), decoder.config().vocab_size);
    let mut target = DecoderTarget::new(decoder, prompt.len() + NEW_TOKENS, Hooks::none());
    let limits = Limits { max_new_tokens: NEW_TOKENS, end_tokens: vec![] };
    let (random, observe) = (&mut SeededRandom::new(1), &mut |_| ControlFlow::Continue(()));
    if let Ok(answer) = decode(&mut target, &prompt, &Greedy, random, &limits, observe) {
        let known = |id: &Token| (*id as usize) < vocab;
        assert!((1..=NEW_TOKENS).contains(&answer.ids.len()) && answer.ids.iter().all(known), "{:?}", answer.ids);
    }
}

/// The configs of the sound models, and one with the keys of a published FLAN-T5.
pub(super) fn config_seeds() -> Vec<Vec<u8>> {
    let published = json!({
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": true, "d_model": 16,
        "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "vocab_size": 260,
        "feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new", "is_gated_act": true, "dropout_rate": 0.1,
        "tie_word_embeddings": false, "layer_norm_epsilon": 1e-6, "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
        "n_positions": 512, "output_past": true, "use_cache": true, "torch_dtype": "float32",
        "task_specific_params": {"summarization": {"num_beams": 4, "prefix": "summarize: "}}
    });
    let published = published.to_string().into_bytes();
    // A config that does not load would leave all that is behind the loading untried.
    with("config.json", &published, |dir| drop(load(dir, models()[1]).expect("a model of these sizes")));
    let sound = models().map(|model| std::fs::read(model.join("config.json")).unwrap_or_default());
    sound.into_iter().chain([published]).collect()
}
