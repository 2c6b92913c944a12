//! The method of a training, with the tables that belong to it.

use super::training::RATES;
use super::{Answers, CllmConfig, DistillSpecConfig, LayerSkipConfig, MedusaTwoConfig, SpaceSftConfig};
use gorgon_draft::block::BlockConfig;
use gorgon_draft::eagle::EagleConfig;
use gorgon_draft::eagle::three::Eagle3Config;
use gorgon_draft::hydra::HydraConfig;
use gorgon_draft::kangaroo::KangarooConfig;
use gorgon_draft::medusa::MedusaConfig;
use gorgon_draft::mtp::MtpConfig;
use gorgon_draft::probes::{PassConfig, PpdConfig, ProbeTraining, SpaceConfig};
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Positions in memory from which steps draw by default.
const SHUFFLE_BUFFER: usize = 1 << 16;

/// A method of `gorgon train` with its own tables: `method = "hydra"` comes with `[hydra]` and no other.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "method", rename_all = "lowercase", deny_unknown_fields)]
pub enum MethodConfig {
    /// Medusa-1: heads on a frozen backbone.
    Medusa {
        /// Medusa heads on a frozen backbone.
        #[serde(default)]
        medusa: MedusaConfig,
    },
    /// Medusa-2: heads and, through an adapter, the backbone.
    #[serde(rename = "medusa-2")]
    MedusaTwo {
        /// Medusa heads on a frozen backbone.
        #[serde(default)]
        medusa: MedusaConfig,
        /// Medusa-2: backbone and heads together.
        #[serde(default)]
        medusa2: MedusaTwoConfig,
    },
    /// EAGLE-1 and EAGLE-2: a draft layer on a frozen backbone.
    Eagle {
        /// An EAGLE draft layer (EAGLE-1 and EAGLE-2).
        #[serde(default)]
        eagle: EagleConfig,
    },
    /// EAGLE-3: a draft layer on three depths of a frozen backbone.
    Eagle3 {
        /// An EAGLE-3 draft layer.
        #[serde(default)]
        eagle3: Eagle3Config,
    },
    /// Hydra and Hydra++: heads that read the tokens before theirs, on a frozen backbone.
    Hydra {
        /// Hydra heads: each reads the tokens drafted before its own.
        #[serde(default)]
        hydra: HydraConfig,
    },
    /// Multi-token-prediction modules on a frozen backbone.
    Mtp {
        /// Multi-token-prediction modules, as in DeepSeek-V3.
        #[serde(default)]
        mtp: MtpConfig,
    },
    /// A block drafter (DFlash): all tokens of a draft in one parallel pass, on a frozen backbone.
    Block {
        /// A block drafter: all tokens of a draft in one parallel pass.
        #[serde(default)]
        block: BlockConfig,
    },
    /// Kangaroo: an adapter on an early exit of a frozen backbone.
    Kangaroo {
        /// An adapter on an early exit (Kangaroo).
        #[serde(default)]
        kangaroo: KangarooConfig,
    },
    /// LayerSkip: the model itself, fitted so that its early layers draft.
    LayerSkip {
        /// LayerSkip: layer dropout and losses at early exits.
        #[serde(default)]
        layerskip: LayerSkipConfig,
    },
    /// PPD: prompt tokens behind every candidate, in a frozen backbone.
    Ppd {
        /// Parallel prompt decoding: prompt tokens behind every candidate.
        #[serde(default)]
        ppd: PpdConfig,
    },
    /// PaSS: look-ahead embeddings in a frozen backbone.
    Pass {
        /// PaSS: look-ahead embeddings.
        #[serde(default)]
        pass: PassConfig,
    },
    /// SPACE: one mask token in all places, in a frozen backbone.
    Space {
        /// SPACE: one mask token in all places.
        #[serde(default)]
        space: SpaceConfig,
    },
    /// SPACE as published: the backbone and its mask token together.
    #[serde(rename = "space-sft")]
    SpaceSft {
        /// SPACE as published: the backbone and its mask token are fitted together.
        #[serde(default)]
        space_sft: SpaceSftConfig,
    },
    /// CLLM: the backbone, fitted so that Jacobi decoding converges in few steps.
    Cllm {
        /// CLLM: the backbone is fitted so that Jacobi decoding converges in few steps.
        #[serde(default)]
        cllm: CllmConfig,
    },
    /// DistillSpec: a separate draft model, fitted to the frozen backbone's distributions.
    #[serde(rename = "distill-spec")]
    DistillSpec {
        /// DistillSpec: a draft model fitted to a target (Zhou et al. 2024).
        #[serde(default)]
        distill_spec: DistillSpecConfig,
    },
}

impl MethodConfig {
    /// The method's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Medusa { .. } => "medusa",
            Self::MedusaTwo { .. } => "medusa-2",
            Self::Eagle { .. } => "eagle",
            Self::Eagle3 { .. } => "eagle3",
            Self::Hydra { .. } => "hydra",
            Self::Mtp { .. } => "mtp",
            Self::Block { .. } => "block",
            Self::Ppd { .. } => "ppd",
            Self::Pass { .. } => "pass",
            Self::Space { .. } => "space",
            Self::SpaceSft { .. } => "space-sft",
            Self::Cllm { .. } => "cllm",
            Self::Kangaroo { .. } => "kangaroo",
            Self::LayerSkip { .. } => "layerskip",
            Self::DistillSpec { .. } => "distill-spec",
        }
    }

    /// Learning rate and bound on the gradients' norm; the paper's for EAGLE, DFlash, Kangaroo, PPD, LayerSkip, SPACE,
    /// CLLM and DistillSpec.
    pub(super) fn rates(&self) -> (f64, f64) {
        match self {
            Self::Medusa { .. } | Self::MedusaTwo { .. } | Self::Hydra { .. } | Self::Mtp { .. } => RATES,
            Self::Eagle { .. } => (3e-5, 0.5),
            Self::Eagle3 { .. } | Self::Kangaroo { .. } => (5e-5, 0.5),
            Self::Block { .. } => (6e-4, 1.0),
            Self::Ppd { .. } | Self::Pass { .. } | Self::Space { .. } => (1e-2, 1.0),
            Self::SpaceSft { .. } => (5e-5, 1.0),
            Self::Cllm { .. } => (2e-5, 1.0),
            Self::LayerSkip { .. } => (2e-5, 1.0),
            Self::DistillSpec { .. } => (3e-4, 1.0),
        }
    }

    /// Positions in memory from which steps draw by default; 0 for heads that read sequences.
    pub(super) fn shuffle_buffer(&self) -> usize {
        match self {
            Self::Medusa { .. } => SHUFFLE_BUFFER,
            Self::Hydra { hydra } if !hydra.prefix_attention && !hydra.soft_targets => SHUFFLE_BUFFER,
            _ => 0,
        }
    }

    /// Tokens from a position to behind its last label, where steps read cached hidden states in sequences, which may be
    /// windows; `None` of other methods.
    pub(super) fn window_reach(&self) -> Option<usize> {
        match self {
            Self::Hydra { hydra } if self.shuffle_buffer() == 0 => Some(hydra.heads + 2),
            Self::Mtp { mtp } => Some(mtp.depths + 2),
            Self::Eagle { .. } | Self::Kangaroo { .. } => Some(3),
            Self::Eagle3 { eagle3 } => Some(eagle3.steps + 2),
            Self::Block { block } => Some(block.slots),
            Self::Hydra { .. } | Self::Medusa { .. } | Self::MedusaTwo { .. } | Self::LayerSkip { .. } => None,
            Self::Ppd { .. } | Self::Pass { .. } | Self::Space { .. } | Self::SpaceSft { .. } => None,
            Self::Cllm { .. } | Self::DistillSpec { .. } => None,
        }
    }

    /// True where training can start from other heads.
    pub(super) fn starts_from_heads(&self) -> bool {
        match self {
            Self::MedusaTwo { .. } | Self::LayerSkip { .. } | Self::Cllm { .. } => false,
            Self::SpaceSft { .. } | Self::DistillSpec { .. } => false,
            Self::Medusa { .. } | Self::Hydra { .. } | Self::Mtp { .. } | Self::Block { .. } => true,
            Self::Eagle { .. } | Self::Eagle3 { .. } | Self::Kangaroo { .. } => true,
            Self::Ppd { .. } | Self::Pass { .. } | Self::Space { .. } => true,
        }
    }

    /// True where losses count at each label alone, so that some tokens of an answer can be left out.
    pub(super) fn takes_labels(&self) -> bool {
        match self {
            Self::Medusa { .. } | Self::Hydra { .. } | Self::Mtp { .. } => true,
            Self::Eagle { .. } | Self::Eagle3 { .. } | Self::Kangaroo { .. } => true,
            Self::DistillSpec { distill_spec } => distill_spec.answers == Answers::Data,
            Self::MedusaTwo { .. } | Self::Block { .. } | Self::LayerSkip { .. } | Self::Cllm { .. } => false,
            Self::Ppd { .. } | Self::Pass { .. } | Self::Space { .. } | Self::SpaceSft { .. } => false,
        }
    }

    /// True where every head has an LM head of its own, so the backbone's is not needed in training.
    pub fn has_own_lm_heads(&self) -> bool {
        match self {
            Self::Medusa { medusa } => medusa.own_lm_heads,
            Self::Hydra { hydra } => hydra.own_lm_heads,
            Self::MedusaTwo { .. }
            | Self::Eagle { .. }
            | Self::Eagle3 { .. }
            | Self::Mtp { .. }
            | Self::Block { .. }
            | Self::Kangaroo { .. }
            | Self::LayerSkip { .. }
            | Self::Ppd { .. }
            | Self::Pass { .. }
            | Self::Space { .. }
            | Self::SpaceSft { .. }
            | Self::Cllm { .. }
            | Self::DistillSpec { .. } => false,
        }
    }

    /// How probes are fitted in a backbone of these sizes; `None` of methods without.
    pub fn probes(&self, hidden_size: usize, vocab_size: usize) -> Option<ProbeTraining> {
        match self {
            Self::Ppd { ppd } => Some(ProbeTraining::ppd(ppd, hidden_size, vocab_size)),
            Self::Pass { pass } => Some(ProbeTraining::pass(pass, hidden_size, vocab_size)),
            Self::Space { space } => Some(ProbeTraining::space(space, hidden_size, vocab_size)),
            Self::Medusa { .. } | Self::MedusaTwo { .. } | Self::Hydra { .. } | Self::Mtp { .. } => None,
            Self::Eagle { .. } | Self::Eagle3 { .. } | Self::Block { .. } | Self::Kangaroo { .. } => None,
            Self::LayerSkip { .. } | Self::SpaceSft { .. } | Self::Cllm { .. } | Self::DistillSpec { .. } => None,
        }
    }

    /// Checks the method's tables.
    ///
    /// # Errors
    /// All wrong settings.
    pub(super) fn check(&self) -> Result<(), SettingsErrors> {
        match self {
            Self::Medusa { medusa } => medusa.check(),
            Self::MedusaTwo { medusa, medusa2 } => {
                let mut check = SettingsCheck::top();
                check.include(medusa.check());
                check.include(medusa2.check());
                let reason = "medusa-2 needs 1, since loaders of merged models put one block in every place";
                check.require(medusa.blocks <= 1, "medusa.blocks", medusa.blocks, reason);
                check.finish()
            }
            Self::Eagle { eagle } => eagle.check(),
            Self::Eagle3 { eagle3 } => eagle3.check(),
            Self::Hydra { hydra } => hydra.check(),
            Self::Mtp { mtp } => mtp.check(),
            Self::Block { block } => block.check(),
            Self::Ppd { ppd } => ppd.check(),
            Self::Pass { pass } => pass.check(),
            Self::Space { space } => space.check(),
            Self::SpaceSft { space_sft } => space_sft.check(),
            Self::Cllm { cllm } => cllm.check(),
            Self::Kangaroo { kangaroo } => kangaroo.check(),
            Self::LayerSkip { layerskip } => layerskip.check(),
            Self::DistillSpec { distill_spec } => distill_spec.check(),
        }
    }
}
