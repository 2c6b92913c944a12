//! Multi-token prediction as a drafter.

use super::model::MtpModel;
use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::feature_tokens::{FeatureTokenCache, Root};
use crate::levels::{Level, LevelNetwork, Levels, follow, tokens_of};
use crate::trace::Trace;
use crate::uncommitted::UncommittedRows;
use gorgon_core::tree::{SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::target::PREFILL_CHUNK;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Output of each module for some tokens; `None` where it has no state yet or was not called.
type Outputs = SmallVec<[Option<HiddenStates>; 4]>;

/// Drafts level by level with a chain of pairs for each module.
///
/// The caches hold pairs of committed tokens, up to the pair of the root. A level's rows stay uncommitted while one
/// tree is drafted, and are dropped after it.
#[derive(Debug)]
pub struct MtpDrafter {
    model: Arc<MtpModel>,
    /// Of each module. Those beyond a tree's depth are left alone, so that tokens wait for them.
    chains: Vec<FeatureTokenCache>,
}

impl MtpDrafter {
    /// A drafter with these modules.
    pub fn new(model: MtpModel) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with modules that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<MtpModel>) -> Self {
        let chains = (0..model.modules()).map(|module| FeatureTokenCache::new(model.new_cache(module))).collect();
        Self { model, chains }
    }

    /// The modules.
    pub fn model(&self) -> &MtpModel {
        &self.model
    }

    /// Pairs in each module's cache: those of committed tokens, and that of the last root.
    pub fn cached(&self) -> Vec<usize> {
        self.chains.iter().map(FeatureTokenCache::cached).collect()
    }

    /// Brings the first `modules` caches up to the pair of `root`: what each module makes of it. Others read when many
    /// tokens wait for them.
    fn catch_up(&mut self, modules: usize, root: Token) -> Result<Outputs, ModelError> {
        if self.chains.iter().any(|chain| chain.root().is_some_and(|other| other != root)) {
            self.chains.iter_mut().for_each(FeatureTokenCache::unroot);
        }
        let (mut at_root, model): (Outputs, _) = (smallvec![None; modules], &self.model);
        for module in 0..self.chains.len() {
            let mut read = |tokens: &[Token], states: &HiddenStates, visible: &AttentionMask, cache: &mut KvCache| {
                model.forward(module, tokens, states, visible, cache)
            };
            let (chains, further) = self.chains.split_at_mut(module + 1);
            let chain = &mut chains[module];
            let mut tell = |tokens: &[Token], states: HiddenStates| {
                if let Some(next) = further.first_mut() {
                    next.observe(tokens, states);
                }
            };
            match at_root.get_mut(module) {
                Some(at_root) => *at_root = chain.catch_up(root, &mut read, &mut tell)?,
                None if chain.waiting() >= PREFILL_CHUNK => chain.read_waiting(&mut read, &mut tell)?,
                None => {}
            }
        }
        Ok(at_root)
    }

    /// The modules that have an output at the root, over one tree.
    fn network(&mut self, outputs: Outputs) -> ModuleChain<'_> {
        let modules = outputs.len();
        let rows = (0..modules).map(|_| UncommittedRows::default()).collect();
        ModuleChain { model: &self.model, chains: &mut self.chains[..modules], level: Level::root(), outputs, rows }
    }
}

impl Drafter for MtpDrafter {
    fn name(&self) -> &str {
        "mtp"
    }

    fn reset(&mut self) {
        self.chains.iter_mut().for_each(FeatureTokenCache::reset);
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.tokens.is_empty() {
            return Ok(());
        }
        let (mut tokens, mut states) = (pass.tokens, pass.output.hidden.select(pass.rows));
        for chain in &mut self.chains {
            match chain.observe(tokens, states) {
                // A module's guess at the root is a state of the next one now.
                Root::Committed(guessed) => (tokens, states) = (&tokens[..1], guessed),
                Root::NotRead => return Ok(()),
                Root::Dropped => break,
            }
        }
        self.chains.iter_mut().for_each(FeatureTokenCache::unroot);
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if context.tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        // A module beyond the tree's depth would never be asked.
        let modules = self.chains.len().min(context.tree.max_depth());
        let outputs = self.catch_up(modules, root)?;
        if outputs.first().is_none_or(Option::is_none) {
            return Ok(Proposal::root(root));
        }
        let draft = context.tree.build(root, &mut Levels::most_likely(self.network(outputs), &context.tree));
        self.chains.iter_mut().for_each(|chain| chain.cache.roll_back());
        Ok(Proposal::list(draft?))
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let outputs = self.catch_up(self.chains.len().min(drafts.len() + 1), root)?;
        let Some(input) = self.chains.first().and_then(FeatureTokenCache::state) else { return Ok(None) };
        let input = input.clone().into_values().into_vec();
        let guesses = follow(&mut self.network(outputs), root, drafts);
        self.chains.iter_mut().for_each(|chain| chain.cache.roll_back());
        Ok(Some(Trace { input, guesses: guesses? }))
    }
}

/// The first modules over the nodes of one tree.
struct ModuleChain<'a> {
    model: &'a MtpModel,
    chains: &'a mut [FeatureTokenCache],
    /// The level that was read last.
    level: Level,
    /// Each module's output at its nodes.
    outputs: Outputs,
    /// Each module's rows by node; the root's pair is in its cache.
    rows: SmallVec<[UncommittedRows; 4]>,
}

impl ModuleChain<'_> {
    /// The states that module `module` pairs with nodes of depth `depth`, at least 1: the outputs of the module before
    /// it at their parents; where there is no module before it, the last one's own outputs.
    fn inputs(&self, module: usize, depth: usize, parents: &[usize]) -> Option<HiddenStates> {
        let from = if module >= depth { module - 1 } else { module };
        self.outputs[from].as_ref().map(|output| output.select(parents))
    }

    /// Reads `nodes`, children of nodes of the last level, with every module that guesses from here on.
    fn descend(&mut self, tree: &TokenTree, nodes: &[usize], depth: usize) -> Result<(), SourceError> {
        let parents = self.level.parents(tree, nodes)?;
        let tokens = tokens_of(tree, nodes);
        let modules = self.chains.len();
        let mut outputs: Outputs = smallvec![None; modules];
        for (module, output) in outputs.iter_mut().enumerate().skip(depth.min(modules - 1)) {
            let Some(states) = self.inputs(module, depth, &parents) else { continue };
            let mask = self.rows[module].add(tree, nodes);
            let cache = &mut self.chains[module].cache;
            *output = Some(self.model.forward(module, &tokens, &states, &mask, cache)?);
        }
        (self.level, self.outputs) = (Level::of(tree, nodes), outputs);
        Ok(())
    }
}

impl LevelNetwork for ModuleChain<'_> {
    fn read(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<HiddenStates>, SourceError> {
        let depth = nodes.first().map_or(0, |&node| tree.depths()[node]);
        if depth > 0 {
            self.descend(tree, nodes, depth)?;
        }
        let guess = self.outputs[depth.min(self.chains.len() - 1)].clone();
        Ok(Some(guess.ok_or("a module was not asked")?))
    }

    fn logits(&self, states: &HiddenStates) -> PooledVec<f32> {
        self.model.logits(states)
    }

    fn columns(&self) -> usize {
        self.model.vocab_size()
    }

    fn top_tokens(&self, states: &HiddenStates, widths: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.model.top_tokens(states, widths)
    }
}
