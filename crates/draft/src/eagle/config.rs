//! Trained parameters of an EAGLE layer: sizes and tensor names.

use crate::layer::LayerShape;
use crate::parameter::ParameterSpec;
use crate::settings::{SettingsCheck, SettingsErrors};
use gorgon_model::config::ModelConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An EAGLE draft layer (EAGLE-1 and EAGLE-2).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EagleConfig {
    /// Whether `fc` has a bias. Layers without one load in every engine.
    pub fc_bias: bool,
    /// Half-width of the uniform noise on the features that are read, `U(-noise, noise)`.
    /// It is one number for all conversations, as in the paper. The reference scales it by 512 over their length.
    pub noise: f64,
    /// Weight of the cross-entropy relative to the regression.
    pub cross_entropy: f64,
}

impl Default for EagleConfig {
    /// The paper's.
    fn default() -> Self {
        Self { fc_bias: false, noise: 0.1, cross_entropy: 0.1 }
    }
}

impl EagleConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("eagle");
        check.not_negative("noise", self.noise);
        check.not_negative("cross_entropy", self.cross_entropy);
        check.finish()
    }
}

/// Sizes of a draft layer.
#[derive(Clone, Debug, PartialEq)]
pub struct EagleShape {
    /// Those of the decoder layer.
    pub layer: LayerShape,
    /// Whether `fc` has a bias.
    pub fc_bias: bool,
}

impl EagleShape {
    /// The draft layer for a backbone: a layer of the backbone's own sizes.
    pub fn of(backbone: &ModelConfig, fc_bias: bool) -> Self {
        Self { layer: LayerShape::of(backbone), fc_bias }
    }

    /// All tensors, in the order in which [`super::EagleNetwork`] reads them. Every matrix starts as PyTorch's linear
    /// layers do, which the reference starts from.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let s = &self.layer;
        let (d, i) = (s.hidden_size, s.intermediate_size);
        let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let mut all = vec![ParameterSpec::matrix("fc.weight", d, 2 * d)];
        if self.fc_bias {
            all.push(ParameterSpec::zeros("fc.bias", &[d]));
        }
        all.extend([
            ParameterSpec::matrix("layers.0.self_attn.q_proj.weight", q, d),
            ParameterSpec::matrix("layers.0.self_attn.k_proj.weight", kv, d),
            ParameterSpec::matrix("layers.0.self_attn.v_proj.weight", kv, d),
            ParameterSpec::matrix("layers.0.self_attn.o_proj.weight", d, q),
            ParameterSpec::norm("layers.0.post_attention_layernorm.weight", d),
            ParameterSpec::matrix("layers.0.mlp.gate_proj.weight", i, d),
            ParameterSpec::matrix("layers.0.mlp.up_proj.weight", i, d),
            ParameterSpec::matrix("layers.0.mlp.down_proj.weight", d, i),
        ]);
        all
    }

    /// The `config.json` of a folder with this layer: the config of a Llama with one layer, and `bias` for `fc`.
    pub fn document(&self, base: &str) -> Value {
        let mut document = self.layer.document();
        let own = [
            ("architectures", json!(["LlamaForCausalLMEagle"])),
            ("bias", self.fc_bias.into()),
            ("base_model_name_or_path", base.into()),
        ];
        own.into_iter().for_each(|(key, value)| document[key] = value);
        document
    }
}
