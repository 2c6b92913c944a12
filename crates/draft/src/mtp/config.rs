//! How many modules, and what their tensors are called.

use crate::format::mtp_prefix;
use crate::layer::LayerShape;
use crate::parameter::ParameterSpec;
use crate::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most modules that can be trained.
const MAX_DEPTHS: usize = 8;

/// Multi-token-prediction modules, as in DeepSeek-V3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MtpConfig {
    /// Number of modules, `D`, 1 to 8: one for every token beyond the next one.
    pub depths: usize,
}

impl Default for MtpConfig {
    /// DeepSeek-V3's.
    fn default() -> Self {
        Self { depths: 1 }
    }
}

impl MtpConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("mtp");
        let depths = (1..=MAX_DEPTHS).contains(&self.depths);
        check.require(depths, "depths", self.depths, format_args!("1 to {MAX_DEPTHS} can be trained"));
        check.finish()
    }
}

/// Sizes of the modules for a backbone.
#[derive(Clone, Debug, PartialEq)]
pub struct MtpShape {
    /// How many there are.
    pub config: MtpConfig,
    /// The backbone's sizes, which are also the modules'.
    pub layer: LayerShape,
    /// Layers of the backbone: the number of the first module.
    pub first_layer: usize,
}

impl MtpShape {
    /// All tensors, module by module: norms of embedding and state, projection, layer, last norm.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        (0..self.config.depths).flat_map(|module| self.module(module)).collect()
    }

    /// The tensors of a module (from 0).
    fn module(&self, module: usize) -> Vec<ParameterSpec> {
        let (d, prefix) = (self.layer.hidden_size, mtp_prefix(self.first_layer + module));
        let mut all = vec![
            ParameterSpec::norm(format!("{prefix}enorm.weight"), d),
            ParameterSpec::norm(format!("{prefix}hnorm.weight"), d),
            ParameterSpec::matrix(format!("{prefix}eh_proj.weight"), d, 2 * d),
        ];
        all.extend(self.layer.parameters(&prefix));
        all.push(ParameterSpec::norm(format!("{prefix}shared_head.norm.weight"), d));
        all
    }

    /// The `config.json` of a folder with these modules: that of a backbone of their sizes which they come after.
    pub fn document(&self, base: &str) -> Value {
        let mut document = self.layer.document();
        document["num_hidden_layers"] = self.first_layer.into();
        document["num_nextn_predict_layers"] = self.config.depths.into();
        document["base_model_name_or_path"] = base.into();
        document
    }
}
