//! The options that name a drafter.

use clap::Args;
use gorgon_core::tree::TreeChoice;
use gorgon_workflows::drafting::DrafterChoice;
use std::path::PathBuf;

/// The drafter and its tree.
#[derive(Clone, Debug, Args)]
pub struct Draft {
    /// A folder of draft heads, or the run folder of a training.
    #[arg(long, value_name = "H")]
    pub heads: Option<PathBuf>,
    /// Which drafter proposes tokens: auto (what the heads are), none, medusa, hydra, eagle, mtp, model:DIR (a smaller
    /// model with the same tokens), ngram:N (prompt lookup, needs no heads), oracle:R1,R2,….
    #[arg(long, default_value = "auto", value_name = "D")]
    pub drafter: DrafterChoice,
    /// Which tree arranges them: none, chain:N, a published list, calibrated, sequoia:N, dynamic:TOTAL,DEPTH,TOPK or
    /// FILE.json [default: the tree stored with the heads, else mc_sim_7b_63; for EAGLE and MTP dynamic:60,5,10, for
    /// ngram chain:8, for model chain:4].
    #[arg(long, value_name = "T")]
    pub tree: Option<TreeChoice>,
}
