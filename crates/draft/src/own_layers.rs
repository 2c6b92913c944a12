//! Some of the target's own layers as a network that drafts.

use crate::drafter::Resume;
use crate::levels::LevelNetwork;
use crate::uncommitted::UncommittedRows;
use gorgon_core::tree::{DraftTree, SourceError, TokenTree};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::RetrievedCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{PassPlan, SkippedSublayers};
use gorgon_model::target::Target;
use smallvec::SmallVec;

/// Levels of a tree whose streams need no allocation.
const LEVELS: usize = 8;

/// The layers that draft, and the cache that they read.
enum Part<'a> {
    /// So many first ones.
    First(usize),
    /// All of them, over a part of the cache.
    Retrieved(&'a mut RetrievedCache),
}

/// Some layers over one tree. Its nodes are uncommitted rows of the target's cache, or of a part of it, in their order.
pub(crate) struct OwnLayers<'a> {
    target: &'a mut dyn Target,
    part: Part<'a>,
    /// The residual streams of the nodes read so far, after the first layers.
    streams: SmallVec<[HiddenStates; LEVELS]>,
    /// Nodes read so far.
    read: usize,
}

impl<'a> OwnLayers<'a> {
    /// The first `layers` layers.
    pub fn first(target: &'a mut dyn Target, layers: usize) -> Self {
        Self { target, part: Part::First(layers), streams: SmallVec::new(), read: 0 }
    }

    /// All layers over a part of the cache.
    pub fn retrieved(target: &'a mut dyn Target, part: &'a mut RetrievedCache) -> Self {
        Self { target, part: Part::Retrieved(part), streams: SmallVec::new(), read: 0 }
    }

    /// The first node that was not read, and what the rows of the nodes from it on see.
    pub fn next(&self, tree: &TokenTree) -> (usize, AttentionMask) {
        let first = self.read;
        (first, AttentionMask::after(first, (first..tree.len()).map(|node| tree.path(node))))
    }

    /// Reads all nodes that the tree has beyond those read so far: the residual stream that leaves the layers; `None`
    /// where all layers run.
    ///
    /// # Errors
    /// When the target fails.
    pub fn read_stream(&mut self, tree: &TokenTree) -> Result<Option<HiddenStates>, ModelError> {
        let before = self.streams.len();
        self.read_on(tree)?;
        Ok(self.streams.get(before).cloned())
    }

    /// As [`Self::read_stream`]; the states as the LM head reads them.
    fn read_on(&mut self, tree: &TokenTree) -> Result<HiddenStates, ModelError> {
        let (first, mask) = self.next(tree);
        let plan = PassPlan::of_tokens(&tree.tokens()[first..], &mask);
        let output = match &mut self.part {
            Part::First(layers) => self.target.verify(&PassPlan { layers: Some(0..*layers), ..plan }),
            Part::Retrieved(part) => self.target.verify_retrieved(part, &plan),
        }?;
        self.streams.extend(output.stream);
        self.read = tree.len();
        Ok(output.hidden)
    }

    /// States from which verification resumes after the first layers; `None` for a tree that dropped or moved nodes,
    /// and where these are all layers: it is verified from the start.
    ///
    /// # Errors
    /// When the target fails.
    pub fn resumed(mut self, draft: &DraftTree) -> Result<Option<Resume>, ModelError> {
        let tree = draft.tree();
        let Part::First(layer) = self.part else { return Ok(None) };
        let in_order = draft.source_nodes().iter().enumerate().all(|(node, &source)| node == source);
        if !in_order || tree.len() < self.read {
            return Ok(None);
        }
        if self.read < tree.len() {
            self.read_on(tree)?;
        }
        if self.streams.is_empty() {
            return Ok(None);
        }
        Ok(Some(Resume { stream: HiddenStates::concat(&self.streams), layer }))
    }
}

impl LevelNetwork for OwnLayers<'_> {
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

/// All layers without some sub-layers, over the nodes of one tree that are asked about. Their rows are dropped before
/// the tree is verified.
pub(crate) struct ReducedLayers<'a> {
    target: &'a mut dyn Target,
    skipped: &'a SkippedSublayers,
    rows: UncommittedRows,
}

impl<'a> ReducedLayers<'a> {
    /// All layers without these sub-layers.
    pub fn new(target: &'a mut dyn Target, skipped: &'a SkippedSublayers) -> Self {
        Self { target, skipped, rows: UncommittedRows::default() }
    }
}

impl LevelNetwork for ReducedLayers<'_> {
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError> {
        let tokens: PooledVec<Token> = nodes.iter().map(|&node| tree.token(node)).collect();
        let mask = self.rows.add(tree, nodes);
        let plan = PassPlan { skipped: Some(self.skipped), ..PassPlan::of_tokens(&tokens, &mask) };
        Ok(Some(self.target.verify(&plan)?.hidden))
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
