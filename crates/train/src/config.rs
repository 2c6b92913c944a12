//! The config files of training.

mod cllm;
mod distill_spec;
mod fixed;
mod layerskip;
mod medusa_two;
mod method;
mod pretrain;
mod renamed;
mod schema;
mod space_sft;
mod training;

pub use cllm::{CllmConfig, Consistency, FittedWeights};
pub use distill_spec::{Answers, DistillSpecConfig, Measure};
pub use fixed::{changes_evaluation, fixed};
pub use layerskip::{Curriculum, LayerSkipConfig};
pub use medusa_two::{LanguageLoss, MedusaTwoConfig, Warmup};
pub use method::MethodConfig;
pub use pretrain::{Corpus, Finish, MOST_DIALOGUES, PretrainConfig, Shape, Vocabulary};
pub use renamed::renamed;
pub use space_sft::SpaceSftConfig;
pub use training::{MOST_TOKENS, Training, checkpoints};

use crate::methods::feature_format::FeatureFormat;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use gorgon_kernels::TableFormat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A training of draft heads: `gorgon train`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(transform = schema::one_object)]
pub struct TrainConfig {
    /// The training method, with the tables that belong to it.
    #[serde(flatten)]
    pub method: MethodConfig,
    /// Backbone: a model folder or a repo id on the hub.
    pub model: String,
    /// Folder of shards that `gorgon distill` wrote.
    pub data: PathBuf,
    /// Folder of heads, or run folder of a training, whose values training starts from. If it is not set, heads are
    /// initialised anew.
    #[serde(default)]
    pub init_from: Option<PathBuf>,
    /// Keeps what training starts from, which is `init_from` or `distill_spec.draft`, where no evaluation accepts more drafts
    /// on held-out text. The best checkpoint then is the one of the most acceptance, otherwise of the least loss.
    #[serde(default)]
    pub keep_start: bool,
    /// With `keep_start`: puts better weights in the place of those that training started from, once it has finished. A
    /// server or chat with `--learn` that decodes with them takes the new ones up.
    #[serde(default)]
    pub publish: bool,
    /// Tokens that losses count at.
    #[serde(default)]
    pub labels: Labels,
    /// Share of the conversations that is held out for evaluation, at least 0 and below 1.
    #[serde(default = "held_out_share")]
    pub held_out: f64,
    /// Folder of shards to evaluate on in place of held-out conversations.
    #[serde(default)]
    pub eval_data: Option<PathBuf>,
    /// Conversations that are fitted to, at most: the first of the data. All of them if it is not set.
    #[serde(default)]
    pub train_conversations: Option<usize>,
    /// Conversations that an evaluation reads, at most.
    #[serde(default = "held_out_most")]
    pub eval_conversations: usize,
    /// Held-out prompts that every evaluation decodes with the heads.
    #[serde(default = "decoded_prompts")]
    pub eval_decoded_prompts: usize,
    /// New tokens of each decoded prompt.
    #[serde(default = "decoded_tokens")]
    pub eval_decoded_tokens: usize,
    /// Folder in which run folders are made.
    #[serde(default = "checkpoints")]
    pub runs: PathBuf,
    /// Seed of the initial values, of the order of the data and of the held-out split.
    #[serde(default)]
    pub seed: u64,
    /// Whether hidden states are computed once and kept on disk.
    #[serde(default)]
    pub cache_features: bool,
    /// Number format of hidden states on disk.
    #[serde(default)]
    pub feature_format: FeatureFormat,
    /// Folder of hidden states on disk; a folder beside the data if it is not set. Setting it turns the cache on.
    #[serde(default)]
    pub features: Option<PathBuf>,
    /// Rows of logits in memory at once, at most.
    #[serde(default = "chunk_rows")]
    pub chunk_rows: usize,
    /// Number format of matmuls with the frozen LM head. On a GPU it is also that of Medusa's blocks.
    #[serde(default)]
    pub lm_head_format: LmHeadFormat,
    /// Steps, batches, optimizer, reports and checkpoints.
    #[serde(default)]
    pub training: Training,
}

/// Tokens that losses count at while heads or a draft model are fitted. Evaluations count at all answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Labels {
    /// All tokens of answers.
    #[default]
    Answers,
    /// In a log of `--learn`: those whose drafts were all rejected.
    Corrected,
}

/// Number format of matmuls with the frozen LM head while heads are fitted. Parameters, the optimizer's moments and
/// decoding keep 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LmHeadFormat {
    /// 32-bit numbers.
    #[default]
    F32,
    /// States, gradients and the LM head rounded to 8 significant bits, sums in 32 bits: faster where the device has
    /// such matmuls.
    Bf16,
}

impl From<LmHeadFormat> for TableFormat {
    fn from(format: LmHeadFormat) -> Self {
        match format {
            LmHeadFormat::F32 => Self::F32,
            LmHeadFormat::Bf16 => Self::Bf16,
        }
    }
}

fn held_out_share() -> f64 {
    0.05
}

fn held_out_most() -> usize {
    256
}

fn decoded_prompts() -> usize {
    16
}

fn decoded_tokens() -> usize {
    64
}

fn chunk_rows() -> usize {
    1024
}

impl TrainConfig {
    /// Copy with the method's own defaults filled in.
    #[must_use]
    pub fn resolved(self) -> Self {
        let (rates, shuffle_buffer) = (self.method.rates(), Some(self.shuffle_buffer()));
        Self { training: Training { shuffle_buffer, ..self.training.with_rates(rates) }, ..self }
    }

    /// Whether hidden states are kept on disk.
    pub fn caches_features(&self) -> bool {
        self.cache_features || self.features.is_some()
    }

    /// Positions in memory from which steps draw; 0 for steps of whole conversations.
    pub fn shuffle_buffer(&self) -> usize {
        self.training.shuffle_buffer.unwrap_or_else(|| self.method.shuffle_buffer())
    }

    /// The method, with the settings by which it reads sequences.
    fn sequences(&self) -> &'static str {
        match self.method.name() {
            "hydra" => "hydra with prefix_attention or soft_targets",
            name => name,
        }
    }

    /// Checks the settings that continue a training.
    fn check_start(&self, check: &mut SettingsCheck) {
        let starts = self.init_from.is_some() || matches!(self.method, MethodConfig::DistillSpec { .. });
        let reason = "there is nothing to keep: it needs init_from, or distill-spec";
        check.require(starts || !self.keep_start, "keep_start", self.keep_start, reason);
        let reason = "it needs keep_start, so that nothing worse is published";
        check.require(self.keep_start || !self.publish, "publish", self.publish, reason);
        let reason = format_args!("{} is fitted to whole answers", self.method.name());
        let fits = self.labels == Labels::Answers || self.method.takes_labels();
        check.require(fits, "labels", "\"corrected\"", reason);
    }

    /// Checks windows against the method: labels that lie behind a window's end are lost.
    fn check_windows(&self, check: &mut SettingsCheck) {
        let Some(tokens) = self.training.window_tokens else { return };
        let single = if self.shuffle_buffer() > 0 { ", since they draw single positions" } else { "" };
        let reason = format_args!("steps of {} read no windows of hidden states{single}", self.method.name());
        let reach = self.method.window_reach();
        check.require(reach.is_some(), "training.window_tokens", tokens, reason);
        let least = 2 * reach.unwrap_or(0);
        let reason = format_args!("it has to be at least {least}: labels reach {} tokens", least / 2);
        check.require(tokens >= least, "training.window_tokens", tokens, reason);
        let reason = "it needs cache_features = true, since hidden states depend on all tokens before a window";
        check.require(self.caches_features(), "training.window_tokens", tokens, reason);
    }

    /// The folder of what training starts from, if it starts from something.
    pub fn start(&self) -> Option<&Path> {
        match &self.method {
            MethodConfig::DistillSpec { distill_spec } => Some(&distill_spec.draft),
            _ => self.init_from.as_deref(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::top();
        check.include(self.training.check());
        let shuffles = self.method.shuffle_buffer() > 0;
        let reason = format_args!("{} reads sequences, so its steps are made of whole conversations", self.sequences());
        check.require(shuffles || self.shuffle_buffer() == 0, "training.shuffle_buffer", self.shuffle_buffer(), reason);
        self.check_windows(&mut check);
        if let Some(from) = self.init_from.as_ref().filter(|_| !self.method.starts_from_heads()) {
            let reason = format_args!("{} does not start from heads", self.method.name());
            check.require(false, "init_from", from.display(), reason);
        }
        let reads_states = !matches!(self.method, MethodConfig::LayerSkip { .. });
        let reason = "layerskip fits the model itself, and reads no hidden states of a frozen one";
        check.require(reads_states || !self.caches_features(), "cache_features", self.cache_features, reason);
        check.include(self.method.check());
        self.check_start(&mut check);
        let held_out = (0.0..1.0).contains(&self.held_out);
        check.require(held_out, "held_out", self.held_out, "it has to be at least 0 and below 1");
        check.require(self.train_conversations != Some(0), "train_conversations", 0, "it has to be at least 1");
        check.within("eval_decoded_tokens", self.eval_decoded_tokens as u64, 1..=MOST_TOKENS);
        check.within("chunk_rows", self.chunk_rows as u64, 1..=MOST_TOKENS);
        let (decodes, tokens) = (self.eval_decoded_prompts > 0, self.eval_decoded_tokens);
        check.used(decodes, "eval_decoded_tokens", &tokens, &decoded_tokens(), "eval_decoded_prompts is 0");
        // 0 says as much.
        let splits = self.eval_data.is_none() || self.held_out == 0.0;
        check.used(splits, "held_out", &self.held_out, &held_out_share(), "eval_data is set, and evaluated on");
        check.finish()
    }
}
