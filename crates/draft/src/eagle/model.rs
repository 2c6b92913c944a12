//! A draft layer that was loaded for decoding.

use crate::folder::{self, HeadsError, HeadsFolder};
use crate::format::{EagleFacts, Facts, HeadsFormat};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_kernels::tree_attention::Visible;
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::layer::LoneLayer;
use gorgon_model::linear::{Embedding, Linear, Loader};
use gorgon_model::target::read;
use serde_json::{Value, json};
use std::sync::Arc;

/// A draft layer on a device, beside its backbone.
#[derive(Debug)]
pub struct EagleModel {
    decoder: Arc<Decoder>,
    /// The file's own table; the backbone's serves where there is none.
    embedding: Option<Embedding>,
    fc: Linear,
    layer: LoneLayer,
}

impl EagleModel {
    /// Loads a recognised EAGLE-1/2 draft layer for `decoder`.
    ///
    /// # Errors
    /// When the heads are of another kind, were made for another backbone, come without a usable config, or cannot be
    /// read.
    pub fn load(folder: &HeadsFolder, decoder: Arc<Decoder>) -> Result<Self, HeadsError> {
        let wrong = |reason: String| HeadsError::Format { path: folder.path.clone(), reason };
        let facts = match (&folder.detected.facts, folder.detected.format) {
            (Facts::Eagle(facts), HeadsFormat::Eagle1) => facts,
            (_, format) => return Err(wrong(format!("{format} heads, not an EAGLE-1 draft layer"))),
        };
        let backbone = decoder.config();
        if facts.hidden_size != backbone.hidden_size {
            let (theirs, ours) = (facts.hidden_size, backbone.hidden_size);
            return Err(wrong(format!("a draft layer for a hidden size of {theirs}; the model's is {ours}")));
        }
        if let Some(theirs) = facts.vocab_size.filter(|vocab| *vocab != backbone.vocab_size) {
            let ours = backbone.vocab_size;
            return Err(wrong(format!("a draft layer for a vocabulary of {theirs}; the model's is {ours}")));
        }
        let config = layer_config(folder, facts, backbone)?;
        let compute = decoder.compute().clone();
        let loader = Loader { checkpoint: &folder.checkpoint, compute: &compute };
        let embedding = match facts.own_embedding {
            true => Some(Embedding::new(loader.weight(&["embed_tokens.weight".to_owned()])?, 1.0)),
            false => None,
        };
        let fc = loader.linear(&["fc".to_owned()], facts.fc_bias)?;
        let layer = LoneLayer::load_without_input_norm(&folder.checkpoint, config, "layers.0.", &compute)?;
        Ok(Self { decoder, embedding, fc, layer })
    }

    /// Size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.decoder.config().vocab_size
    }

    /// Bytes that one draft step reads: the layer, `fc` and the backbone's LM head apart.
    pub fn bytes(&self) -> usize {
        self.fc.bytes() + self.layer.bytes()
    }

    /// An empty cache with room for `capacity` pairs; it is given more as it needs it.
    pub fn new_cache(&self, capacity: usize) -> KvCache {
        self.layer.new_cache(capacity)
    }

    /// `f̂ = Layer(W [E(x); f] + b)` of some pairs, whose keys and values stay in flight in `cache`.
    ///
    /// # Shapes
    /// One of `tokens` per row of `features [1, rows, d]`; result the same.
    ///
    /// # Errors
    /// When a token is outside the vocabulary or rows are in flight that `visible` does not count.
    pub fn forward(
        &self,
        tokens: &[Token],
        features: Tensor<3>,
        visible: &Visible,
        cache: &mut KvCache,
    ) -> Result<Tensor<3>, ModelError> {
        let embedded = match &self.embedding {
            None => self.decoder.embed(tokens)?,
            Some(table) => {
                self.decoder.check_tokens(tokens)?;
                table.look_up(tokens, self.decoder.compute().device())
            }
        };
        self.layer.make_room(cache, tokens.len());
        cache.widen(tokens.len())?;
        let x = self.fc.forward(&Tensor::cat(vec![embedded, features], 2));
        Ok(self.layer.forward(x, visible, cache)?)
    }

    /// The LM head's logits of guessed features.
    ///
    /// # Shapes
    /// `features [1, rows, d]`, result `[rows · V]`, row-major.
    pub fn logits(&self, features: &Tensor<3>) -> Vec<f32> {
        read(self.decoder.logits(features))
    }
}

/// The layer's config: what the file beside the weights says of a Llama, what the tensors say of biases.
fn layer_config(folder: &HeadsFolder, facts: &EagleFacts, backbone: &ModelConfig) -> Result<ModelConfig, HeadsError> {
    let path = folder.path.join("config.json");
    let wrong = |reason: String| HeadsError::Config { path: path.clone(), reason };
    let config = folder::config(&folder.path)?;
    let Some(Value::Object(mut object)) = config else {
        return Err(wrong("it is missing, so that the number of attention heads is not known".into()));
    };
    // Draft layers carry class names of their own, or their target's, and are Llama layers all the same.
    object.remove("architectures");
    object.insert("model_type".into(), "llama".into());
    object.insert("num_hidden_layers".into(), 1.into());
    object.entry("vocab_size").or_insert_with(|| backbone.vocab_size.into());
    object.entry("max_position_embeddings").or_insert_with(|| backbone.max_positions.into());
    object.entry("intermediate_size").or_insert_with(|| json!(facts.layer.intermediate_size));
    let config = ModelConfig::from_json(&Value::Object(object)).map_err(wrong)?;
    let found = (config.hidden_size, config.intermediate_size, config.heads * config.head_dim);
    let stored = (facts.hidden_size, facts.layer.intermediate_size, facts.layer.query_size);
    let keys = (config.kv_heads * config.head_dim, facts.layer.key_value_size);
    if found != stored || keys.0 != keys.1 {
        return Err(wrong(format!(
            "sizes {found:?} and {} of keys; the tensors say {stored:?} and {}",
            keys.0, keys.1
        )));
    }
    Ok(ModelConfig { qkv_bias: facts.layer.qkv_bias, o_bias: false, mlp_bias: false, experts: None, ..config })
}
