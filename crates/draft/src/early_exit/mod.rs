//! Early exit (self-speculation of LayerSkip, Elhoushi et al., 2024, <https://arxiv.org/abs/2404.16710>): the target's
//! own first `E` layers draft, with its final norm and LM head on their output.
//!
//! Drafting and verification share one cache: a drafted row's keys and values of the first `E` layers are the ones that
//! verification needs, so it resumes from the kept hidden states at layer `E` and runs each layer once per row. On the
//! CPU a row does not depend on the rows beside it, so this is the whole pass bit for bit. Drafts are a list of most
//! likely tokens.

use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, Resume, VerifiedPass};
use crate::levels::{LevelNetwork, Levels};
use crate::method::TrainingFreeMethod;
use gorgon_core::tree::{ChainTree, DraftTree, SourceError, TokenTree, TreeBuilder, TreeChoice};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::Target;

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
        Self { layers, name: EarlyExit { layers }.name() }
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
        let network = FirstLayers { target, layers: self.layers, streams: vec![], read: 0 };
        let mut levels = Levels::most_likely(network, &context.tree);
        let draft = context.tree.build(root, &mut levels)?;
        let resume = levels.into_network().finish(&draft)?;
        Ok(Proposal { resume, ..Proposal::list(draft) })
    }
}

/// The first layers over one tree. Its nodes are uncommitted rows of the target's cache, in their order.
struct FirstLayers<'a> {
    target: &'a mut dyn Target,
    layers: usize,
    /// The residual streams of the nodes read so far, in front of layer `layers`.
    streams: Vec<HiddenStates>,
    /// Nodes read so far.
    read: usize,
}

impl FirstLayers<'_> {
    /// Reads all nodes that the tree has beyond those read so far; their states as the LM head reads them.
    fn read_on(&mut self, tree: &TokenTree) -> Result<HiddenStates, ModelError> {
        let (first, tokens) = (self.read, &tree.tokens()[self.read..]);
        let mask = AttentionMask::after(first, (first..tree.len()).map(|node| tree.path(node)));
        let plan = PassPlan { layers: Some(0..self.layers), ..PassPlan::of_tokens(tokens, &mask) };
        let output = self.target.verify(&plan)?;
        self.streams.extend(output.stream);
        self.read = tree.len();
        Ok(output.hidden)
    }

    /// States from which verification resumes; `None` for a tree that dropped or moved nodes, which is verified from
    /// the start.
    fn finish(mut self, draft: &DraftTree) -> Result<Option<Resume>, ModelError> {
        let tree = draft.tree();
        let in_order = draft.source_nodes().iter().enumerate().all(|(node, &source)| node == source);
        if !in_order || tree.len() < self.read {
            return Ok(None);
        }
        if self.read < tree.len() {
            self.read_on(tree)?;
        }
        Ok(Some(Resume { stream: HiddenStates::concat(&self.streams), layer: self.layers }))
    }
}

impl LevelNetwork for FirstLayers<'_> {
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError> {
        // All nodes of the level, expanded or not, so that rows keep the order of the nodes.
        let first = self.read;
        let hidden = self.read_on(tree)?;
        let rows: Option<PooledVec<usize>> = nodes.iter().map(|&node| node.checked_sub(first)).collect();
        Ok(Some(hidden.select(&rows.ok_or("a tree is drafted level by level")?)))
    }

    fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.target.logits(states)
    }

    fn columns(&self) -> usize {
        self.target.vocab_size()
    }

    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.target.top_tokens(states, widths)
    }
}

#[cfg(test)]
mod tests;
