//! Early exit (self-speculation of LayerSkip, Elhoushi et al., 2024, <https://arxiv.org/abs/2404.16710>): the target's
//! own first `E` layers draft, with its final norm and LM head on their output.
//!
//! Drafting and verification share one cache: a drafted row's keys and values of the first `E` layers are the ones that
//! verification needs, so it resumes from the kept hidden states at layer `E` and runs each layer once per row. On the
//! CPU a row does not depend on the rows beside it, so this is the whole pass bit for bit. Drafts are a list of most
//! likely tokens.

use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::levels::Levels;
use crate::method::TrainingFreeMethod;
use crate::own_layers::OwnLayers;
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, TreeBuilder, TreeChoice};
use gorgon_model::config::ModelConfig;

/// Drafts unless another tree is named.
const CHAIN: usize = 6;

/// Early exit, `early-exit:E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyExit {
    /// Layers that draft.
    pub layers: usize,
}

impl TrainingFreeMethod for EarlyExit {
    const SYNTAX: &'static str = "early-exit:E";

    fn parse(arguments: &str) -> Result<Self, String> {
        match arguments.trim().parse() {
            Ok(layers) if layers > 0 => Ok(Self { layers }),
            _ => Err(format!("early-exit:{arguments}: expected a number of layers, at least 1")),
        }
    }

    fn name(&self) -> String {
        format!("early-exit:{}", self.layers)
    }

    fn default_tree(&self) -> TreeChoice {
        ChainTree::new(CHAIN).map_or(TreeChoice::None, TreeChoice::Chain)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), String> {
        match self.layers < model.layers {
            true => Ok(()),
            false => Err(format!("{}: the model has {} layers, and fewer have to draft", self.name(), model.layers)),
        }
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        Box::new(EarlyExitDrafter::new(self.layers))
    }
}

/// Drafts with the target's first layers.
#[derive(Clone, Debug)]
pub struct EarlyExitDrafter {
    layers: usize,
    name: String,
}

impl EarlyExitDrafter {
    /// A drafter that runs `layers` layers.
    pub fn new(layers: usize) -> Self {
        Self::named(EarlyExit { layers }.name(), layers)
    }

    /// As [`Self::new`], under the name of a method that drafts in this way.
    pub fn named(name: String, layers: usize) -> Self {
        Self { layers, name }
    }
}

impl Drafter for EarlyExitDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {}

    fn truncate(&mut self, _: usize) -> bool {
        // All that it knows is in the target's cache.
        true
    }

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let Some(target) = context.target.as_deref_mut() else {
            return Err(DraftError::NotLent { drafter: self.name.clone(), place: "this way of decoding" });
        };
        if context.tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let network = OwnLayers::first(target, self.layers);
        let mut levels = Levels::most_likely(network, &context.tree);
        let draft = context.tree.build(root, &mut levels)?;
        let resume = levels.into_network().resumed(&draft)?;
        Ok(Proposal { resume, ..Proposal::list(draft) })
    }
}

#[cfg(test)]
mod tests;
