//! Parts of every generation's draft layer: its sizes, and its embedding.

use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::EagleSpec;
use burn::tensor::{Int, Tensor};
use gorgon_core::Token;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::embedding::Embedding;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::linear::Loader;
use gorgon_model::weights::WeightsError;
use serde_json::{Value, json};

/// Fails if a layer was made for another backbone than this one.
pub(super) fn check_backbone(
    folder: &HeadsFolder,
    hidden_size: usize,
    vocab_size: Option<usize>,
    backbone: &ModelConfig,
) -> Result<(), HeadsError> {
    let wrong = |reason: String| Err(HeadsError::Format { path: folder.path.clone(), reason });
    let (hidden, vocab) = (backbone.hidden_size, backbone.vocab_size);
    if hidden_size != hidden {
        return wrong(format!("a draft layer for a hidden size of {hidden_size}; the model's is {hidden}"));
    }
    match vocab_size.filter(|theirs| *theirs != vocab) {
        Some(theirs) => wrong(format!("a draft layer for a vocabulary of {theirs}; the model's is {vocab}")),
        None => Ok(()),
    }
}

/// The file's own table, if it has one; the backbone's serves where there is none.
pub(super) fn embedding(loader: &Loader<'_>, spec: &EagleSpec) -> Result<Option<Embedding>, WeightsError> {
    match spec.own_embedding {
        true => loader.weight(&["embed_tokens.weight".to_owned()]).map(|table| Some(Embedding::new(table, 1.0))),
        false => Ok(None),
    }
}

/// The embeddings of tokens.
pub(crate) fn embedded(
    decoder: &Decoder,
    own: Option<&Embedding>,
    tokens: &[Token],
) -> Result<HiddenStates, ModelError> {
    match own {
        None => decoder.embed(tokens),
        Some(table) => {
            decoder.check_tokens(tokens)?;
            Ok(table.look_up(tokens, decoder.compute().device()))
        }
    }
}

/// Embeds tokens that are on a GPU, `ids [tokens]`.
pub(super) fn embedded_on_device(decoder: &Decoder, own: Option<&Embedding>, ids: Tensor<1, Int>) -> HiddenStates {
    HiddenStates::on_device(match own {
        None => decoder.embed_on_device(ids),
        Some(table) => table.select(ids),
    })
}

/// The layer's config: what the file beside the weights says of a Llama, what the tensors say of biases.
pub(super) fn layer_config(
    folder: &HeadsFolder,
    spec: &EagleSpec,
    backbone: &ModelConfig,
) -> Result<ModelConfig, HeadsError> {
    let path = folder.path.join("config.json");
    let wrong = |reason: String| HeadsError::Config { path: path.clone(), reason };
    let mut object = folder::layer_document(folder)?;
    // Draft layers carry class names of their own, or their target's, and are Llama layers all the same.
    object.remove("architectures");
    // It ends no text either.
    object.remove("eos_token_id");
    object.insert("model_type".into(), "llama".into());
    object.insert("num_hidden_layers".into(), 1.into());
    object.entry("vocab_size").or_insert_with(|| backbone.vocab_size.into());
    object.entry("max_position_embeddings").or_insert_with(|| backbone.max_positions.into());
    object.entry("intermediate_size").or_insert_with(|| json!(spec.layer.intermediate_size));
    let config = ModelConfig::from_json(&Value::Object(object)).map_err(wrong)?;
    let found = (config.hidden_size, config.intermediate_size, config.heads * config.head_dim);
    let stored = (spec.hidden_size, spec.layer.intermediate_size, spec.layer.query_size);
    let keys = (config.kv_heads * config.head_dim, spec.layer.key_value_size);
    if found != stored || keys.0 != keys.1 {
        return Err(wrong(format!(
            "sizes {found:?} and {} of keys; the tensors say {stored:?} and {}",
            keys.0, keys.1
        )));
    }
    let biases = ModelConfig { qkv_bias: spec.layer.qkv_bias, o_bias: false, mlp_bias: false, experts: None, ..config };
    Ok(ModelConfig { qk_norm: spec.layer.qk_norm.is_some(), ..biases })
}
