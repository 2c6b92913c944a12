//! Trained parameters of a block drafter: sizes and tensor names.

use super::convolution;
use super::selector::SelectorConfig;
use crate::layer::LayerShape;
use crate::parameter::ParameterSpec;
use crate::settings::{SettingsCheck, SettingsError, SettingsErrors};
use gorgon_core::Token;
use gorgon_model::config::ModelConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A block drafter: all tokens of a draft in one parallel pass.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BlockConfig {
    /// Decoder layers, 1 to 16.
    pub layers: usize,
    /// Layers whose input hidden states are read, from 1 on; the number of layers itself stands for the last output. If
    /// it is not set: as many as the drafter has layers, evenly spread as in the reference, or all in backbones of less
    /// than eight layers.
    #[serde(rename = "aux_hidden_state_layers")]
    pub hooks: Option<Vec<usize>>,
    /// Slots, 2 to 64: the last emitted token and the tokens that are drafted after it.
    #[serde(rename = "block_size")]
    pub slots: usize,
    /// If true, a slot sees itself and the slots before it. If false, it sees all slots of its block.
    pub causal: bool,
    /// Positions that a slot sees, its own included. All if it is not set.
    pub window: Option<usize>,
    /// If true, each layer has two convolutions along the slots (DFlash 2): at its attention and at its feed-forward part.
    pub conv: bool,
    /// Scores of neighbouring tokens in pairs (DFlash 2). None if it is not set.
    pub selector: Option<SelectorConfig>,
    /// Token that stands in the slots that are to be guessed; it may occur in texts. The last one of the vocabulary if
    /// it is not set.
    pub mask_token: Option<Token>,
    /// Blocks of each conversation, or window of one, in a step, 1 to 65536: drawn anew in every step where there are more places for one.
    pub anchors: usize,
    /// Weights of the slots' losses.
    pub slot_weights: SlotWeights,
    /// D-PACE: share of a slot's probability that counts as 1, from 0 to 1.
    pub alpha: f64,
    /// Exponential weights: slots over which they fall by a factor of e.
    pub gamma: f64,
}

/// Weights of the slots of a block in its loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SlotWeights {
    /// How many more tokens are accepted if a slot is right, by the slots' present probabilities (arXiv 2605.18810).
    #[default]
    DPace,
    /// `exp(-(k - 1) / gamma)` for slot `k`, as in the paper.
    Exponential,
}

impl Default for BlockConfig {
    /// The paper's layers, the smaller block of newer checkpoints and its decay.
    fn default() -> Self {
        Self {
            layers: 5,
            hooks: None,
            slots: 8,
            causal: false,
            window: None,
            conv: false,
            selector: None,
            mask_token: None,
            anchors: 512,
            slot_weights: SlotWeights::default(),
            alpha: 0.5,
            gamma: 4.0,
        }
    }
}

/// The key of the hooked layers.
const LAYERS: &str = "aux_hidden_state_layers";
/// The most states that are read.
const MOST_HOOKS: usize = 16;
/// Backbones of fewer layers are read everywhere.
const FEW_LAYERS: usize = 8;

impl BlockConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("block");
        check.within("layers", self.layers as u64, 1..=16);
        if let Some(hooks) = &self.hooks {
            let valid = (1..=MOST_HOOKS).contains(&hooks.len()) && !hooks.contains(&0);
            let reason = format!("expected 1 to {MOST_HOOKS} layers, from 1 on: the format has no number for layer 0");
            check.require(valid, LAYERS, format_args!("{hooks:?}"), reason);
        }
        check.within("block_size", self.slots as u64, 2..=64);
        if let Some(window) = self.window {
            let reason = "a slot sees its block and at least one position before it";
            check.require(window > self.slots && window <= 1 << 30, "window", window, reason);
        }
        if let Some(selector) = &self.selector {
            check.include(selector.check().finish());
        }
        check.within("anchors", self.anchors as u64, 1..=1 << 16);
        check.share("alpha", self.alpha);
        check.positive("gamma", self.gamma);
        let (default, weighs) = (Self::default(), self.slot_weights == SlotWeights::DPace);
        check.used(weighs, "alpha", &self.alpha, &default.alpha, "it is for slot_weights = \"d-pace\"");
        check.used(!weighs, "gamma", &self.gamma, &default.gamma, "it is for slot_weights = \"exponential\"");
        check.finish()
    }

    /// The drafter for a backbone: layers of the backbone's own sizes.
    ///
    /// # Errors
    /// When the backbone has no such layer or token.
    pub fn shape(&self, backbone: &ModelConfig) -> Result<BlockShape, SettingsError> {
        let layers = backbone.layers;
        let hooks = self.hooks.clone().unwrap_or_else(|| default_hooks(layers, self.layers));
        if let Some(hook) = hooks.iter().find(|&&hook| hook > layers) {
            let reason = format!("the model has {layers} layers, so they go from 1 to {layers}, not {hook}");
            return Err(SettingsError::new(format!("block.{LAYERS}"), format_args!("{hooks:?}"), reason));
        }
        let vocab = backbone.vocab_size;
        let mask_token = self.mask_token.unwrap_or(vocab.saturating_sub(1) as Token);
        if mask_token as usize >= vocab {
            let reason = format!("the model has {vocab} tokens");
            return Err(SettingsError::new("block.mask_token", mask_token, reason));
        }
        let (width, group) = (backbone.hidden_size, convolution::GROUP);
        if self.conv && !width.is_multiple_of(group) {
            let reason = format!("the model's hidden size of {width} is no multiple of {group}");
            return Err(SettingsError::new("block.conv", self.conv, reason));
        }
        Ok(BlockShape {
            layer: LayerShape::of(backbone),
            layers: self.layers,
            hooks,
            slots: self.slots,
            causal: self.causal,
            window: self.window,
            conv: self.conv,
            selector: self.selector,
            mask_token,
            target_layers: layers,
        })
    }
}

/// Sizes of a block drafter.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockShape {
    /// Sizes of each decoder layer.
    pub layer: LayerShape,
    /// Decoder layers.
    pub layers: usize,
    /// The layers of the backbone whose entering states are read.
    pub hooks: Vec<usize>,
    /// Slots, `B`.
    pub slots: usize,
    /// If true, a slot sees itself and the slots before it. If false, it sees all slots of its block.
    pub causal: bool,
    /// Positions that a slot sees, its own included.
    pub window: Option<usize>,
    /// If true, layers have convolutions along the slots.
    pub conv: bool,
    /// The selector, if there is one.
    pub selector: Option<SelectorConfig>,
    /// Token of the slots that are to be guessed.
    pub mask_token: Token,
    /// Layers of the backbone.
    pub target_layers: usize,
}

/// Tensors of a decoder layer without convolutions, and of both convolutions.
const LAYER_TENSORS: (usize, usize) = (11, 4);

impl BlockShape {
    /// All tensors, in the order in which [`super::BlockNetwork`] reads them. What layers add to the residual stream
    /// starts as nothing.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let d = self.layer.hidden_size;
        let mut all = vec![
            ParameterSpec::matrix("fc.weight", d, self.hooks.len() * d),
            ParameterSpec::norm("hidden_norm.weight", d),
        ];
        all.extend((0..self.layers).flat_map(|layer| self.layer_parameters(layer)));
        all.push(ParameterSpec::norm("norm.weight", d));
        all.extend(self.selector.iter().flat_map(|selector| selector.parameters(d, self.layer.vocab_size)));
        all
    }

    /// Tensors of a decoder layer.
    pub(super) fn layer_tensors(&self) -> usize {
        LAYER_TENSORS.0 + if self.conv { LAYER_TENSORS.1 } else { 0 }
    }

    /// Tensors of a layer in the order of the file: projections, norms of query and key heads, convolutions.
    fn layer_parameters(&self, layer: usize) -> Vec<ParameterSpec> {
        let prefix = format!("layers.{layer}.");
        let mut all = self.layer.parameters(&prefix);
        let norm = |name: &str| ParameterSpec::norm(format!("{prefix}self_attn.{name}.weight"), self.layer.head_dim);
        all.splice(4..4, [norm("q_norm"), norm("k_norm")]);
        let convolutions = ["attention_conv", "mlp_conv"].map(|name| format!("{prefix}{name}."));
        let of = |prefix: &String| convolution::parameters(prefix, self.layer.hidden_size);
        all.extend(convolutions.iter().filter(|_| self.conv).flat_map(of));
        all
    }

    /// The `config.json` of a folder with this drafter, as z-lab writes it.
    pub fn document(&self, base: &str) -> Value {
        let mut document = self.layer.document();
        let kind = if self.window.is_some() { "sliding_attention" } else { "full_attention" };
        // The format names layers that are left.
        let left: Vec<usize> = self.hooks.iter().map(|hook| hook.saturating_sub(1)).collect();
        let own = [
            ("architectures", json!(["DFlashDraftModel"])),
            ("model_type", "qwen3".into()),
            ("num_hidden_layers", self.layers.into()),
            ("num_target_layers", self.target_layers.into()),
            ("block_size", self.slots.into()),
            ("layer_types", vec![kind; self.layers].into()),
            ("sliding_window", self.window.into()),
            ("use_sliding_window", self.window.is_some().into()),
            ("attention_bias", false.into()),
            (
                "dflash_config",
                json!({"mask_token_id": self.mask_token, "target_layer_ids": left, "causal": self.causal}),
            ),
            ("base_model_name_or_path", base.into()),
        ];
        own.into_iter().for_each(|(key, value)| document[key] = value);
        self.second(&mut document);
        document
    }

    /// The keys of DFlash 2.
    fn second(&self, document: &mut Value) {
        if self.conv || self.selector.is_some() {
            document["architectures"] = json!(["DFlash2DraftModel"]);
        }
        let own = &mut document["dflash_config"];
        if self.conv {
            own["conv_group_size"] = convolution::GROUP.into();
            own["conv_kernel_size"] = 2.into();
        }
        if let Some(SelectorConfig { k, rank }) = self.selector {
            own["selector_top_k"] = k.into();
            own["selector_rank"] = rank.into();
        }
    }
}

/// The layers whose entering states are read unless a config says otherwise: those after the reference's
/// `round(1 + i (n - 4) / (count - 1))`, or all of a backbone of few layers.
fn default_hooks(layers: usize, count: usize) -> Vec<usize> {
    if layers < FEW_LAYERS {
        return (1..=layers).collect();
    }
    match count {
        1 => vec![layers / 2 + 1],
        count => (0..count).map(|i| 2 + ((i * (layers - 4)) as f64 / (count - 1) as f64).round() as usize).collect(),
    }
}
