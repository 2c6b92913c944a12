//! Where the adapter reads, and what its tensors are called.

use crate::layer::LayerShape;
use crate::parameter::ParameterSpec;
use crate::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Prefix of the attention's tensors.
pub(super) const PREFIX: &str = "layers.0.";
/// The adapter's last norm.
pub(super) const LAST_NORM: &str = "norm.weight";
/// The probability below which a draft ends its path, unless a config names another: the paper's.
pub(super) const STOP: f64 = 0.6;
/// Its key in a folder's `config.json`.
pub(super) const STOP_KEY: &str = "draft_stop";

/// An adapter on an early exit, as in Kangaroo.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KangarooConfig {
    /// Layers of the backbone below the exit, `E`: the adapter reads what leaves them.
    pub exit_layer: usize,
    /// The probability `η` of a draft below which its path ends after it, 0 to 1. It is written to the heads'
    /// `config.json` as `draft_stop` and changes no weight.
    pub stop: f64,
}

impl Default for KangarooConfig {
    /// The paper's for a model of 7 billion parameters.
    fn default() -> Self {
        Self { exit_layer: 2, stop: STOP }
    }
}

impl KangarooConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("kangaroo");
        check.at_least("exit_layer", self.exit_layer, 1);
        check.share("stop", self.stop);
        check.finish()
    }

    /// Fails if a model has too few layers.
    ///
    /// # Errors
    /// One line with the key and the number of layers.
    pub fn check_layers(&self, layers: usize) -> Result<(), String> {
        match self.exit_layer < layers {
            true => Ok(()),
            false => Err(format!(
                "kangaroo.exit_layer = {}: the model has {layers} layers, and the exit is below the last one",
                self.exit_layer
            )),
        }
    }
}

/// Sizes of the adapter for a backbone.
#[derive(Clone, Debug, PartialEq)]
pub struct KangarooShape {
    /// Where it reads.
    pub config: KangarooConfig,
    /// The backbone's sizes, which are also the adapter's.
    pub layer: LayerShape,
}

impl KangarooShape {
    /// All tensors: the norm in front of the attention, its four projections, the last norm. What the attention adds
    /// to the residual stream starts as nothing.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let mut all = self.layer.attention_parameters(PREFIX);
        all.push(ParameterSpec::norm(LAST_NORM, self.layer.hidden_size));
        all
    }

    /// The `config.json` of a folder with this adapter.
    pub fn document(&self, base: &str) -> Value {
        let mut document = self.layer.document();
        document["architectures"] = vec!["KangarooAdapter"].into();
        document["exit_layer"] = self.config.exit_layer.into();
        document[STOP_KEY] = self.config.stop.into();
        document["base_model_name_or_path"] = base.into();
        document
    }
}
