//! How many heads, and what their tensors are called.

use crate::format::HydraNaming;
use crate::layer::LayerShape;
use crate::medusa::{MAX_BLOCKS, MAX_HEADS};
use crate::parameter::{Init, ParameterSpec};
use crate::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Hydra heads: each reads the tokens drafted before its own.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HydraConfig {
    /// Number of heads, `K`: the tokens drafted in a step, 1 to 8.
    pub heads: usize,
    /// Residual blocks of each head, 1 to 8; 4 in Hydra++.
    pub blocks: usize,
    /// Whether the blocks after a head's first one share their weights, as the original loader has it.
    pub tied_blocks: bool,
    /// Whether each head has an LM head of its own, which starts as the backbone's. Otherwise all share the backbone's.
    pub own_lm_heads: bool,
    /// Whether a decoder layer over all committed tokens makes the state that heads read (Hydra++).
    pub prefix_attention: bool,
    /// Whether heads are fitted to the backbone's distribution instead of the text's tokens (Hydra++).
    pub soft_targets: bool,
    /// Weight of head `k` in the loss: `decay^k`, from 0 to 1.
    pub decay: f64,
}

impl Default for HydraConfig {
    /// Plain Hydra.
    fn default() -> Self {
        Self {
            heads: 4,
            blocks: 1,
            tied_blocks: false,
            own_lm_heads: false,
            prefix_attention: false,
            soft_targets: false,
            decay: 0.8,
        }
    }
}

impl HydraConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("hydra");
        let heads = (1..=MAX_HEADS).contains(&self.heads);
        check.require(heads, "heads", self.heads, format_args!("1 to {MAX_HEADS} can be trained"));
        let blocks = (1..=MAX_BLOCKS).contains(&self.blocks);
        check.require(blocks, "blocks", self.blocks, format_args!("a head has 1 to {MAX_BLOCKS}"));
        check.decay("decay", self.decay);
        check.used(self.blocks > 1, "tied_blocks", &self.tied_blocks, &false, "it is for more than one block");
        let reason = "not with hydra.soft_targets: the backbone's distribution is compared through the shared LM head";
        check.require(!(self.soft_targets && self.own_lm_heads), "own_lm_heads", self.own_lm_heads, reason);
        check.finish()
    }

    /// Weight of head `head` (from 0) in the loss: `decay^k`, `k = head + 1`.
    pub fn weight(&self, head: usize) -> f64 {
        self.decay.powi(head as i32 + 1)
    }
}

/// Sizes of heads for a backbone.
#[derive(Clone, Debug, PartialEq)]
pub struct HydraShape {
    /// The heads.
    pub config: HydraConfig,
    /// The backbone's sizes, which are also the prefix layer's.
    pub layer: LayerShape,
}

impl HydraShape {
    /// How the tensors are called.
    pub fn naming(&self) -> HydraNaming {
        HydraNaming { dropouts: self.config.prefix_attention }
    }

    /// All tensors: the prefix layer, its norm, then head by head the blocks (weight, bias; of the first also those of
    /// the way around it) and the own LM head. Heads start as the LM head of the state they read.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let (config, naming) = (&self.config, self.naming());
        let (d, vocab) = (self.layer.hidden_size, self.layer.vocab_size);
        let mut all = vec![];
        if config.prefix_attention {
            all.extend(self.layer.parameters(&naming.prefix_layer()));
            all.push(ParameterSpec::norm(naming.prefix_norm(), d));
        }
        let mut linear = |name: String, shape: [usize; 2], init: Init| {
            all.push(ParameterSpec { name: format!("{name}.weight"), shape: shape.into(), init });
            all.push(ParameterSpec::zeros(format!("{name}.bias"), &shape[..1]));
        };
        for head in 0..config.heads {
            let width = (head + 2) * d;
            linear(naming.block(head, 0), [d, width], Init::Zero);
            linear(naming.residual(head), [d, width], Init::Identity);
            for block in 1..config.blocks {
                linear(naming.block(head, block), [d, d], Init::Zero);
            }
            if config.own_lm_heads {
                linear(naming.lm_head(head), [vocab, d], Init::LmHead);
            }
        }
        all
    }

    /// The `config.json` of a folder with these heads.
    pub fn document(&self, base: &str) -> Value {
        json!({
            "hydra_num_heads": self.config.heads, "hydra_num_layers": self.config.blocks,
            "hydra_head_arch": if self.config.prefix_attention { "prefix-mlp" } else { "mlp" },
            "grounded_heads": true, "hidden_state_offset": 0, "base_model_name_or_path": base,
            "hidden_size": self.layer.hidden_size, "vocab_size": self.layer.vocab_size
        })
    }
}
