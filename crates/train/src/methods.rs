//! Training methods: one file or folder for each, with shared parts beside them.
//!
//! | method | module | objective |
//! |---|---|---|
//! | Medusa | [`medusa`] | [`HeadFitting`] |
//! | Hydra, Hydra++ | [`hydra`] | [`HeadFitting`] |
//! | multi-token prediction | [`mtp`] | [`HeadFitting`] |
//! | EAGLE-1, EAGLE-2 | [`eagle`] | [`EagleFitting`] |
//! | EAGLE-3 | [`eagle3`] | [`Eagle3Fitting`] |
//! | block drafter | [`block`] | [`BlockFitting`] |
//! | Kangaroo | [`kangaroo`] | [`KangarooFitting`] |
//! | PPD, PaSS, SPACE | [`probes`] | [`ProbeFitting`] |
//! | SPACE with its backbone | [`space_sft`] | [`SpaceSftFitting`] |
//! | Medusa-2 | [`medusa_two`] | [`MedusaTwoFitting`] |
//! | LayerSkip | [`layerskip`] | [`LayerSkipFitting`] |
//! | CLLM | [`cllm`] | [`CllmFitting`] |
//! | DistillSpec | [`distill_spec`] | [`DistillSpecFitting`] |

pub mod block;
pub mod cllm;
pub mod distill_spec;
pub mod eagle;
pub mod eagle3;
pub mod hydra;
pub mod kangaroo;
pub mod layerskip;
pub mod medusa;
pub mod medusa_two;
pub mod mtp;
pub mod probes;
pub mod space_sft;

pub mod at_work;
mod conversations;
mod decoding;
mod drawn;
mod feature_cache;
pub(crate) mod feature_format;
mod features;
mod head_fitting;
mod head_stack;
mod hidden_states;
mod init_from;
mod initial;
mod language;
mod lm_head;
mod replay;
mod shuffle_buffer;
mod windows;

pub use block::BlockFitting;
pub use cllm::CllmFitting;
pub use conversations::{Conversations, OnBackbone};
pub use decoding::Load;
pub use distill_spec::{DistillSpecFitting, Distilled, Earlier};
pub use eagle::EagleFitting;
pub use eagle3::Eagle3Fitting;
pub use feature_cache::{CacheRequest, FeatureCache, INDEX as FEATURE_INDEX, digest};
pub use feature_format::FeatureFormat;
pub use features::Features;
pub use head_fitting::{HeadFitting, HeadRows, positions};
pub use head_stack::HeadStack;
pub use init_from::InitialValues;
pub use kangaroo::KangarooFitting;
pub use layerskip::{LayerSkipFitting, Skipping};
pub use lm_head::lm_head;
pub use medusa_two::{MedusaTwoFitting, Merged};
pub use probes::ProbeFitting;
pub use replay::{Lengths, Measured, replay};
pub use shuffle_buffer::{DrawnRows, ShuffleBuffer};
pub use space_sft::SpaceSftFitting;
pub use windows::{WindowStart, Windows};
