//! TriForce (Sun et al., 2024, <https://arxiv.org/abs/2404.11912>): the target drafts for itself, over a retrieved part of
//! its cache.
//!
//! At long contexts a step reads more of the cache than of the weights. A drafted row reads `B` rows of the cache
//! ([`RetrievedCache`] has how they are picked), and one pass over the whole cache verifies `γ` drafts. So it can pay
//! beyond `n* = weight bytes / cache bytes per token` tokens, not before.
//!
//! The part is retrieved at the first draft after a prompt, by the query of the prompt's last token. Rows that are
//! committed later overwrite its lowest-ranked ones.
//!
//! Under a rule that reads distributions drafts are drawn from the target's own rows over the part, which go to the rule
//! as `q`. So they have exactly that law, and the text has the target's whatever is retrieved. Under other rules drafts
//! are a list of most likely tokens.
//!
//! A small model with a streaming cache may draft for the target over its part (`partial:B,C,small=DIR`): that loop is in
//! `gorgon-infer`.
//!
//! Differences from the paper: a prompt may have any length; a text may go on for longer than `B` tokens; with fewer
//! key/value heads than query heads, scores are summed over the query heads that share one. Models with
//! sliding windows are refused: their caches are short already.

use crate::draft_model::DraftSampling;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::levels::Levels;
use crate::method::TrainingFreeMethod;
use crate::own_layers::OwnLayers;
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, TreeBuilder, TreeChoice};
use gorgon_model::cache::{KvCache, Picked, Retrieval, RetrievedCache};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;

/// Drafts unless another tree is named: γ of the authors' code.
const CHAIN: usize = 6;
/// Rows and chunks unless others are named: B and C of the authors' code.
const DEFAULT: Retrieval = Retrieval { rows: 4096, chunk: 8, picked: Picked::Score };
/// Rows at most.
const MOST_ROWS: usize = 1 << 24;
/// Rows of a cache that are allocated beyond `B`, for drafts.
const DRAFTED: usize = 64;

/// The target over a part of its cache, `partial:B,C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial(pub Retrieval);

impl TrainingFreeMethod for Partial {
    const SYNTAX: &'static str = "partial:B,C[,random]";

    fn parse(arguments: &str) -> Result<Self, String> {
        if arguments.is_empty() {
            return Ok(Self(DEFAULT));
        }
        let (numbers, picked) = match arguments.strip_suffix(",random") {
            Some(numbers) => (numbers, Picked::Random(0)),
            None => (arguments, Picked::Score),
        };
        let numbers: Option<Vec<usize>> = numbers.split(',').map(|number| number.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[rows, chunk]) if chunk > 0 && rows / 2 >= chunk && rows <= MOST_ROWS => {
                Ok(Self(Retrieval { rows, chunk, picked }))
            }
            _ => Err(format!(
                "partial:{arguments}: expected B,C: rows that are read, from 2·C to {MOST_ROWS}, and rows of a chunk, \
                 at least 1"
            )),
        }
    }

    fn name(&self) -> String {
        let Retrieval { rows, chunk, picked } = self.0;
        let random = if picked == Picked::Score { "" } else { ",random" };
        format!("partial:{rows},{chunk}{random}")
    }

    fn default_tree(&self) -> TreeChoice {
        ChainTree::new(CHAIN).map_or(TreeChoice::None, TreeChoice::Chain)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), String> {
        let name = self.name();
        if model.encoder.is_some() {
            return Err(format!("{name}: it takes decoder-only models"));
        }
        match model.windows.iter().flatten().min() {
            None => Ok(()),
            Some(window) => Err(format!(
                "{name}: the model has layers that see {window} tokens only, of which no part is retrieved"
            )),
        }
    }

    fn bytes(&self, model: &ModelConfig, compute: &Compute, tokens: usize) -> u128 {
        KvCache::bytes(model, compute, self.0.rows.min(tokens) + DRAFTED)
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        self.drafter_for(DraftSampling::GREEDY)
    }

    fn drafter_for(&self, sampling: DraftSampling) -> Box<dyn Drafter> {
        Box::new(PartialDrafter::new(self.0, sampling))
    }
}

/// Drafts with the target over a part of its cache.
#[derive(Debug)]
pub struct PartialDrafter {
    name: String,
    sampling: DraftSampling,
    part: RetrievedCache,
}

impl PartialDrafter {
    /// A drafter that retrieves so much, and takes drafts by `sampling`.
    pub fn new(retrieval: Retrieval, sampling: DraftSampling) -> Self {
        Self { name: Partial(retrieval).name(), sampling, part: RetrievedCache::new(retrieval) }
    }

    /// The retrieved part.
    pub fn part(&self) -> &RetrievedCache {
        &self.part
    }
}

impl Drafter for PartialDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.part.forget();
    }

    fn truncate(&mut self, _: usize) -> bool {
        self.part.forget();
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_none() {
            self.part.forget();
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let Some(target) = context.target.as_deref_mut() else {
            return Err(DraftError::NotLent { drafter: self.name.clone(), place: "this way of decoding" });
        };
        if context.tree.max_depth() == 0 || target.is_empty() {
            return Ok(Proposal::root(root));
        }
        target.retrieve(&mut self.part)?;
        let (scheme, children) = self.sampling.children_of(&context.tree, &mut *context.random);
        let network = OwnLayers::retrieved(target, &mut self.part);
        let mut levels = Levels::new(network, &context.tree, children, self.sampling.rows);
        let draft = context.tree.build(root, &mut levels).map(|draft| (levels.distributions(&draft), draft));
        self.part.roll_back();
        let (rows, draft) = draft?;
        Ok(Proposal::drawn(draft, rows, scheme))
    }
}

#[cfg(test)]
mod tests;
