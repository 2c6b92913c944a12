//! The options that name a drafter.

use clap::Args;
use gorgon_core::tree::TreeChoice;
use gorgon_workflows::absent;
use gorgon_workflows::console::Console;
use gorgon_workflows::drafting::{DrafterChoice, Drafting};
use gorgon_workflows::failure::Failure;
use std::path::{Path, PathBuf};

/// The drafter and its tree.
#[derive(Clone, Debug, Args)]
pub struct Draft {
    /// Draft heads: a folder, a PyTorch file, a repo id, or the run folder of a training (its newest checkpoint if
    /// interrupted).
    #[arg(long, value_name = "H")]
    pub heads: Option<PathBuf>,
    /// Which drafter proposes tokens: auto (of the kind of the heads; without heads suffix and recycle where they pay)
    /// or none; with heads medusa, hydra, eagle, mtp, block, ppd, pass, space, kangaroo; with draft models model:DIR,
    /// specinfer:DIR1+DIR2, cascade:DIR,then=D, ouroboros:DIR; without training suffix[:STORE], rest:STORE (a file, or
    /// live), ngram:N, recycle, jacobi:M, lookahead:W,N,G, early-exit:LAYERS, pipelined:LAYERS,K, skip:FILE, swift,
    /// partial:B,C[,small=DIR], or suffix,else=D. docs/src/reference/trees-and-rules.md has all of them with their
    /// parameters
    /// [default: auto with heads, none without]
    #[arg(long, value_name = "D", value_parser = drafter)]
    pub drafter: Option<DrafterChoice>,
    /// The tree of drafts: none, chain:N, a published list, calibrated, sequoia:N, dynamic:TOTAL,DEPTH,TOPK, trellis,
    /// trellis:NODES[,DEPTH], own:NODES,DEPTH or FILE.json [default: the fastest tree of the heads' calibration,
    /// else mc_sim_7b_63; for EAGLE and MTP dynamic:60,5,10, for block trellis:60, for ppd own:24,N, for pass and space
    /// chain:N, for suffix own:60,59, for ngram and cascade chain:8, for model chain:4, for specinfer and ouroboros
    /// their own].
    #[arg(long, value_name = "T")]
    pub tree: Option<TreeChoice>,
}

/// The drafter of a name. A file of sub-layers that does not exist is reported with the one that was probably meant.
///
/// # Errors
/// One line with the offending value.
pub fn drafter(name: &str) -> Result<DrafterChoice, String> {
    let parsed: Result<DrafterChoice, String> = name.parse();
    let last = name.rsplit(",else=").next().unwrap_or(name);
    let file = last.strip_prefix("skip:").and_then(|arguments| arguments.split(",stop=").next());
    match file.filter(|file| parsed.is_err() && !file.is_empty()).map(|file| absent::check(Path::new(file), "file")) {
        Some(Err(failure)) => Err(format!("{}; {}", failure.message(), failure.advice().unwrap_or_default())),
        _ => parsed,
    }
}

impl Draft {
    /// The drafter that is named, or else that of the heads.
    pub fn choice(&self) -> DrafterChoice {
        let unnamed = || if self.heads.is_some() { DrafterChoice::Auto } else { DrafterChoice::None };
        self.drafter.clone().unwrap_or_else(unnamed)
    }

    /// Opens the heads and resolves the tree.
    ///
    /// # Errors
    /// When heads are missing or wrong, or the tree is none.
    pub fn resolve(&self, console: &Console) -> Result<Drafting, Failure> {
        Drafting::resolve(self.heads.as_deref(), &self.choice(), self.tree.as_ref(), console)
    }
}
