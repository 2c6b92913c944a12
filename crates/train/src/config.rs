//! The config files of training.

mod distill_spec;
mod medusa_two;
mod pretrain;
mod renamed;
mod training;

pub use distill_spec::{Answers, DistillSpecConfig, Measure};
pub use medusa_two::{LanguageLoss, MedusaTwoConfig, Warmup};
pub use pretrain::{Corpus, Finish, PretrainConfig, Shape, Vocabulary};
pub use renamed::renamed;
pub use training::{Training, checkpoints};

use self::training::RATES;
use crate::methods::feature_format::FeatureFormat;
use gorgon_draft::eagle::EagleConfig;
use gorgon_draft::eagle::three::Eagle3Config;
use gorgon_draft::hydra::HydraConfig;
use gorgon_draft::medusa::MedusaConfig;
use gorgon_draft::mtp::MtpConfig;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use gorgon_kernels::TableFormat;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The config of `gorgon train`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// The training method: `medusa`, `medusa-2`, `hydra`, `eagle`, `eagle3`, `mtp` or `distill-spec`.
    pub method: HeadMethod,
    /// The backbone: a model folder or a repo id.
    pub model: String,
    /// The folder of shards that `gorgon distill` wrote.
    pub data: PathBuf,
    /// A folder of heads, or the run folder of a training, whose values fitting starts from; from scratch if it is not
    /// set.
    #[serde(default)]
    pub init_from: Option<PathBuf>,
    /// Share of the conversations that is kept for measuring.
    #[serde(default = "held_out_share")]
    pub held_out: f64,
    /// A folder of shards to measure on instead.
    #[serde(default)]
    pub eval_data: Option<PathBuf>,
    /// Conversations to measure on at most.
    #[serde(default = "held_out_most")]
    pub eval_conversations: usize,
    /// Held-out prompts that are decoded with the heads in every evaluation.
    #[serde(default = "decoded_prompts")]
    pub eval_decoded_prompts: usize,
    /// New tokens of each of them.
    #[serde(default = "decoded_tokens")]
    pub eval_decoded_tokens: usize,
    /// Where run folders are made.
    #[serde(default = "checkpoints")]
    pub runs: PathBuf,
    /// Seed of the order.
    #[serde(default)]
    pub seed: u64,
    /// Whether to compute hidden states once and keep them on disk.
    #[serde(default)]
    pub cache_features: bool,
    /// Their number format there: `f32`, `bf16` or `int8`.
    #[serde(default)]
    pub feature_format: FeatureFormat,
    /// Their folder; beside the data where none is named. Naming one asks for the cache.
    #[serde(default)]
    pub features: Option<PathBuf>,
    /// Rows of logits in memory at once, at most.
    #[serde(default = "chunk_rows")]
    pub chunk_rows: usize,
    /// Number format of matmuls with the frozen LM head: `f32`, or `bf16` with sums in 32 bits. On a GPU it is also
    /// that of Medusa's blocks.
    #[serde(default)]
    pub lm_head_format: LmHeadFormat,
    /// Medusa heads.
    #[serde(default)]
    pub medusa: MedusaConfig,
    /// Backbone and heads together.
    #[serde(default)]
    pub medusa2: MedusaTwoConfig,
    /// An EAGLE draft layer.
    #[serde(default)]
    pub eagle: EagleConfig,
    /// An EAGLE-3 draft layer.
    #[serde(default)]
    pub eagle3: Eagle3Config,
    /// Hydra heads.
    #[serde(default)]
    pub hydra: HydraConfig,
    /// Multi-token-prediction modules.
    #[serde(default)]
    pub mtp: MtpConfig,
    /// A draft model.
    #[serde(default)]
    pub distill_spec: DistillSpecConfig,
    /// The fitting.
    #[serde(default)]
    pub training: Training,
}

/// Number format of matmuls with the frozen LM head while heads are fitted. Parameters, the optimizer's moments and
/// decoding keep 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
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

/// The methods of `gorgon train`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeadMethod {
    /// Medusa-1: heads on a frozen backbone.
    Medusa,
    /// Medusa-2: heads and, through an adapter, the backbone.
    #[serde(rename = "medusa-2")]
    MedusaTwo,
    /// EAGLE-1 and EAGLE-2: a draft layer on a frozen backbone.
    Eagle,
    /// EAGLE-3: a draft layer on three depths of a frozen backbone.
    Eagle3,
    /// Hydra and Hydra++: heads that know the tokens before theirs, on a frozen backbone.
    Hydra,
    /// Multi-token-prediction modules on a frozen backbone.
    Mtp,
    /// DistillSpec: a separate draft model, fitted to the frozen backbone's distributions.
    #[serde(rename = "distill-spec")]
    DistillSpec,
}

impl HeadMethod {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medusa => "medusa",
            Self::MedusaTwo => "medusa-2",
            Self::Eagle => "eagle",
            Self::Eagle3 => "eagle3",
            Self::Hydra => "hydra",
            Self::Mtp => "mtp",
            Self::DistillSpec => "distill-spec",
        }
    }

    /// Its learning rate and its bound on the gradients' norm; for EAGLE the papers'.
    fn rates(self) -> (f64, f64) {
        match self {
            Self::Medusa | Self::MedusaTwo | Self::Hydra | Self::Mtp => RATES,
            Self::Eagle => (3e-5, 0.5),
            Self::Eagle3 => (5e-5, 0.5),
            // The paper's.
            Self::DistillSpec => (3e-4, 1.0),
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
    /// The same with the method's own defaults filled in.
    #[must_use]
    pub fn resolved(self) -> Self {
        Self { training: self.training.with_rates(self.method.rates()), ..self }
    }

    /// Whether hidden states are kept on disk.
    pub fn caches_features(&self) -> bool {
        self.cache_features || self.features.is_some()
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::top();
        check.include(self.training.check());
        if let (Some(from), HeadMethod::MedusaTwo | HeadMethod::DistillSpec) = (&self.init_from, self.method) {
            let reason = format_args!("{} does not start from heads", self.method.name());
            check.require(false, "init_from", from.display(), reason);
        }
        check.include(self.medusa.check());
        check.include(self.medusa2.check());
        let blocks = self.method != HeadMethod::MedusaTwo || self.medusa.blocks <= 1;
        let reason = "medusa-2 needs 1, since loaders of merged models put one block in every place";
        check.require(blocks, "medusa.blocks", self.medusa.blocks, reason);
        check.include(self.eagle.check());
        check.include(self.eagle3.check());
        check.include(self.hydra.check());
        check.include(self.mtp.check());
        if self.method == HeadMethod::DistillSpec {
            check.include(self.distill_spec.check());
        }
        let held_out = (0.0..1.0).contains(&self.held_out);
        check.require(held_out, "held_out", self.held_out, "it has to be at least 0 and below 1");
        check.finish()
    }
}
