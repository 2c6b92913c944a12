//! The tables `[ppd]`, `[pass]` and `[space]`, and the sizes of probes.

use crate::format::{MAX_MEMBERS, MAX_PLACES, ProbeKind};
use crate::parameter::{Init, ParameterSpec};
use crate::settings::{SettingsCheck, SettingsErrors};
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, OwnTree, TreeChoice};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Positions of a conversation that a step probes by default.
const POSITIONS: usize = 128;
/// Rows of a step's tree unless another is named, the root and probes included.
const ROWS: usize = 24;

/// Parallel prompt decoding: prompt tokens behind every candidate.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PpdConfig {
    /// Prompt tokens, `n`, 1 to 16: one for every token beyond the next one.
    pub prompt_tokens: usize,
    /// Members of each prompt token's ensemble, `e`, 1 to 16. Their logits are averaged.
    pub ensemble: usize,
    /// Factor by which each further prompt token counts less in the loss.
    pub decay: f64,
    /// Positions of a conversation that a step probes, at most.
    pub positions: usize,
}

impl Default for PpdConfig {
    /// The authors'.
    fn default() -> Self {
        Self { prompt_tokens: 3, ensemble: 1, decay: 0.8, positions: POSITIONS }
    }
}

/// PaSS: look-ahead embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PassConfig {
    /// Look-ahead embeddings, `L`, 1 to 16.
    pub look_ahead: usize,
    /// If true, decoding looks ahead in a pass of its own, as published. If false, embeddings stand behind every
    /// candidate, and one pass does both.
    pub two_pass: bool,
    /// Positions of a conversation that a step probes, at most.
    pub positions: usize,
}

impl Default for PassConfig {
    fn default() -> Self {
        Self { look_ahead: 4, two_pass: false, positions: POSITIONS }
    }
}

/// SPACE: one mask token in all places.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpaceConfig {
    /// Masks behind every candidate, `k`, 1 to 16.
    pub masks: usize,
    /// The token whose embedding the mask starts from; the backbone's last one if it is not set.
    pub mask_token: Option<Token>,
    /// Positions of a conversation that a step probes, at most.
    pub positions: usize,
}

impl Default for SpaceConfig {
    /// The authors'.
    fn default() -> Self {
        Self { masks: 5, mask_token: None, positions: POSITIONS }
    }
}

impl PpdConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("ppd");
        check.within("prompt_tokens", self.prompt_tokens as u64, 1..=MAX_PLACES as u64);
        check.within("ensemble", self.ensemble as u64, 1..=MAX_MEMBERS as u64);
        check.decay("decay", self.decay);
        check.at_least("positions", self.positions, 1);
        check.finish()
    }
}

impl PassConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("pass");
        check.within("look_ahead", self.look_ahead as u64, 1..=MAX_PLACES as u64);
        check.at_least("positions", self.positions, 1);
        check.finish()
    }
}

impl SpaceConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table("space");
        check.within("masks", self.masks as u64, 1..=MAX_PLACES as u64);
        check.at_least("positions", self.positions, 1);
        check.finish()
    }
}

/// How probes are fitted, whatever their kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeTraining {
    /// The probes; the width of the backbone comes later.
    pub shape: ProbeShape,
    /// If true, the loss compares with the backbone's own distribution, otherwise with the text's token.
    pub soft: bool,
    /// Factor by which each further place counts less.
    pub decay: f64,
    /// Positions of a conversation that a step probes, at most.
    pub positions: usize,
    /// The token whose embedding all probes start from; random ones where it is not set.
    pub start: Option<Token>,
}

impl ProbeTraining {
    /// PPD on a backbone of these sizes.
    pub fn ppd(config: &PpdConfig, hidden_size: usize, vocab_size: usize) -> Self {
        let PpdConfig { prompt_tokens: places, ensemble: members, decay, positions } = *config;
        let shape = ProbeShape { kind: ProbeKind::Ppd, places, members, hidden_size, vocab_size, two_pass: false };
        Self { shape, soft: true, decay, positions, start: None }
    }

    /// PaSS on a backbone of these sizes.
    pub fn pass(config: &PassConfig, hidden_size: usize, vocab_size: usize) -> Self {
        let PassConfig { look_ahead: places, two_pass, positions } = *config;
        let shape = ProbeShape { kind: ProbeKind::Pass, places, members: 1, hidden_size, vocab_size, two_pass };
        Self { shape, soft: false, decay: 1.0, positions, start: None }
    }

    /// SPACE on a backbone of these sizes.
    pub fn space(config: &SpaceConfig, hidden_size: usize, vocab_size: usize) -> Self {
        let SpaceConfig { masks: places, mask_token, positions } = *config;
        let shape = ProbeShape { kind: ProbeKind::Space, places, members: 1, hidden_size, vocab_size, two_pass: false };
        let start = mask_token.or((vocab_size as Token).checked_sub(1));
        Self { shape, soft: false, decay: 1.0, positions, start }
    }

    /// Weight of place `place` (from 0) in the loss: `decay^place / n`.
    pub fn weight(&self, place: usize) -> f64 {
        self.decay.powi(place as i32) / self.shape.places as f64
    }
}

/// Sizes of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeShape {
    /// Their kind.
    pub kind: ProbeKind,
    /// Places behind a candidate, `n`.
    pub places: usize,
    /// Members of an ensemble, `e`.
    pub members: usize,
    /// Width of the backbone.
    pub hidden_size: usize,
    /// The backbone's vocabulary.
    pub vocab_size: usize,
    /// If true, candidates carry no probes: the step after them looks ahead.
    pub two_pass: bool,
}

impl ProbeShape {
    /// Rows of the table.
    pub fn rows(&self) -> usize {
        if self.kind.is_shared() { 1 } else { self.places * self.members }
    }

    /// The row of the table that a member reads in a place, both from 0.
    pub fn row(&self, place: usize, member: usize) -> usize {
        if self.kind.is_shared() { 0 } else { place * self.members + member }
    }

    /// The one tensor.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let shape = vec![self.rows(), self.hidden_size];
        vec![ParameterSpec { name: self.kind.tensor().into(), shape, init: Init::Zero }]
    }

    /// The `config.json` beside it.
    pub fn document(&self, base: &str) -> Value {
        let mut document = json!({
            "model_type": self.kind.name(), "num_probes": self.places, "hidden_size": self.hidden_size,
            "vocab_size": self.vocab_size, "base_model_name_or_path": base
        });
        if self.members > 1 {
            document["ensemble"] = self.members.into();
        }
        if self.two_pass {
            document["two_pass"] = true.into();
        }
        document
    }
}

/// Rows of a tree of so many candidates, the root included, with at most `each` probes behind every one of them.
pub fn most_rows(kind: ProbeKind, each: usize, nodes: usize) -> usize {
    match kind {
        ProbeKind::Ppd => nodes + nodes.max(each),
        ProbeKind::Pass | ProbeKind::Space => nodes * (1 + each),
    }
}

/// The tree of probes unless another is named: a budget of rows for PPD, a chain of as many drafts as there are places
/// for the others.
pub fn default_tree(kind: ProbeKind, places: usize) -> TreeChoice {
    match kind {
        ProbeKind::Ppd => OwnTree::new(ROWS, places).map_or(TreeChoice::None, TreeChoice::Own),
        ProbeKind::Pass | ProbeKind::Space => ChainTree::new(places).map_or(TreeChoice::None, TreeChoice::Chain),
    }
}
