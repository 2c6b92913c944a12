//! Trained parameters of an EAGLE-3 layer: sizes and tensor names.

use crate::format::HeadsFormat;
use crate::layer::LayerShape;
use crate::parameter::{Init, ParameterSpec};
use crate::settings::{SettingsCheck, SettingsError, SettingsErrors};
use gorgon_model::config::ModelConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// An EAGLE-3 draft layer.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Eagle3Config {
    /// Applications of the layer in training, 1 to 32. From the second on it reads its own outputs.
    pub steps: usize,
    /// Weight of an application's loss relative to the one before, from 0 to 1.
    pub decay: f64,
    /// Tokens that can be drafted: at most this many, the most frequent ones of the training data.
    pub draft_vocab: usize,
    /// Layers whose input hidden states are read; the number of layers itself stands for the last output. If it is not
    /// set: an early, a middle and a late layer, as in the reference.
    #[serde(rename = "aux_hidden_state_layers")]
    pub hooks: Option<Vec<usize>>,
}

impl Default for Eagle3Config {
    /// The paper's.
    fn default() -> Self {
        Self { steps: 7, decay: 0.8, draft_vocab: 32_000, hooks: None }
    }
}

/// The most steps that are unrolled.
const MOST_STEPS: usize = 32;
/// The most states that are fused.
const MOST_HOOKS: usize = 16;
/// The key of the hooked layers.
const LAYERS: &str = "aux_hidden_state_layers";

impl Eagle3Config {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("eagle3");
        let steps = (1..=MOST_STEPS).contains(&self.steps);
        check.require(steps, "steps", self.steps, format_args!("it has to be from 1 to {MOST_STEPS}"));
        check.decay("decay", self.decay);
        check.at_least("draft_vocab", self.draft_vocab, 1);
        if let Some(hooks) = &self.hooks {
            let valid = (1..=MOST_HOOKS).contains(&hooks.len());
            check.require(valid, LAYERS, format_args!("{hooks:?}"), format_args!("expected 1 to {MOST_HOOKS} layers"));
        }
        check.finish()
    }

    /// The hooked layers of a backbone.
    ///
    /// # Errors
    /// When it has no such layer.
    pub fn hooks_of(&self, layers: usize) -> Result<Vec<usize>, SettingsError> {
        let hooks = self.hooks.clone().unwrap_or_else(|| default_hooks(layers).into());
        match hooks.iter().find(|&&hook| hook > layers) {
            None => Ok(hooks),
            Some(hook) => {
                let reason = format!("the model has {layers} layers, so they go from 0 to {layers}, not {hook}");
                Err(SettingsError::new(format!("eagle3.{LAYERS}"), format_args!("{hooks:?}"), reason))
            }
        }
    }

    /// Weight of step `i` in the loss, `decay^i`.
    pub fn weight(&self, step: usize) -> f64 {
        self.decay.powi(step as i32)
    }
}

/// Sizes of a draft layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Eagle3Shape {
    /// Those of the decoder layer.
    pub layer: LayerShape,
    /// The layers of the backbone whose entering states are read.
    pub hooks: Vec<usize>,
    /// Tokens that can be drafted, D.
    pub draft_vocab: usize,
}

impl Eagle3Shape {
    /// The draft layer for a backbone: a layer of the backbone's own sizes.
    pub fn of(backbone: &ModelConfig, hooks: Vec<usize>, draft_vocab: usize) -> Self {
        Self { layer: LayerShape::of(backbone), hooks, draft_vocab }
    }

    /// All tensors that are fitted, in the order in which [`super::Eagle3Network`] reads them.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let s = &self.layer;
        let (d, i) = (s.hidden_size, s.intermediate_size);
        let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        vec![
            ParameterSpec::matrix("fc.weight", d, self.hooks.len() * d),
            ParameterSpec::norm("midlayer.input_layernorm.weight", d),
            ParameterSpec::norm("midlayer.hidden_norm.weight", d),
            ParameterSpec::matrix("midlayer.self_attn.q_proj.weight", q, 2 * d),
            ParameterSpec::matrix("midlayer.self_attn.k_proj.weight", kv, 2 * d),
            ParameterSpec::matrix("midlayer.self_attn.v_proj.weight", kv, 2 * d),
            ParameterSpec::matrix("midlayer.self_attn.o_proj.weight", d, q),
            ParameterSpec::norm("midlayer.post_attention_layernorm.weight", d),
            ParameterSpec::matrix("midlayer.mlp.gate_proj.weight", i, d),
            ParameterSpec::matrix("midlayer.mlp.up_proj.weight", i, d),
            ParameterSpec::matrix("midlayer.mlp.down_proj.weight", d, i),
            ParameterSpec::norm("norm.weight", d),
            ParameterSpec { name: "lm_head.weight".into(), shape: vec![self.draft_vocab, d], init: Init::LmHead },
        ]
    }

    /// The `config.json` of a folder with this layer, for the original names.
    pub fn document(&self, base: &str) -> Value {
        let mut document = self.layer.document();
        let own = [
            ("architectures", json!(["LlamaForCausalLMEagle3"])),
            ("draft_vocab_size", self.draft_vocab.into()),
            ("norm_before_residual", false.into()),
            ("base_model_name_or_path", base.into()),
        ];
        let own = own.into_iter().map(|(key, value)| (key.to_owned(), value));
        own.chain(hook_keys(&self.hooks)).for_each(|(key, value)| document[key] = value);
        document
    }
}

/// The layers whose entering states are read unless a config says otherwise: 2, the middle one and the last but two as
/// in the reference, or three other depths in backbones of less than seven layers, where these would meet.
pub fn default_hooks(layers: usize) -> [usize; 3] {
    match layers {
        0..=3 => [1.min(layers), layers.div_ceil(2), layers],
        4..=6 => [1, layers / 2, layers - 1],
        _ => [2, layers / 2, layers - 3],
    }
}

/// The config keys that name hooked layers. vLLM reads the layers that are entered at the top; SGLang, SpecForge and
/// ModelOpt read the layers that are left inside `eagle_config`, which cannot name the embedding.
pub(super) fn hook_keys(hooks: &[usize]) -> Map<String, Value> {
    let mut keys = Map::new();
    let ids = "eagle_aux_hidden_state_layer_ids";
    keys.insert(ids.into(), json!(hooks));
    if let Some(left) = layers_left(hooks) {
        keys.insert("eagle_config".into(), json!({ids: left, "use_aux_hidden_state": true}));
    }
    keys
}

/// Hooked layers as the layers that are left; `None` where one is the embedding, which leaves no layer.
pub(super) fn layers_left(hooks: &[usize]) -> Option<Vec<usize>> {
    hooks.iter().map(|hook| hook.checked_sub(1)).collect()
}

/// Prefix of the layer's tensor names; `None` for formats other than EAGLE-3.
pub(super) fn prefix(format: HeadsFormat) -> Option<&'static str> {
    match format {
        HeadsFormat::Eagle3 => Some("midlayer."),
        HeadsFormat::Eagle3Speculators | HeadsFormat::Eagle3ModelOpt => Some("layers.0."),
        HeadsFormat::Eagle1
        | HeadsFormat::MedusaV1
        | HeadsFormat::MedusaV2
        | HeadsFormat::MedusaVllm
        | HeadsFormat::MedusaModelOpt
        | HeadsFormat::MedusaInModel
        | HeadsFormat::Hydra
        | HeadsFormat::HydraPlusPlus
        | HeadsFormat::Mtp
        | HeadsFormat::DFlash
        | HeadsFormat::DFlashSpeculators
        | HeadsFormat::Kangaroo
        | HeadsFormat::Probes(_) => None,
    }
}
