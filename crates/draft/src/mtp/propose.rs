//! Multi-token prediction as a drafter.

use super::model::MtpModel;
use crate::candidates;
use crate::drafter::{Committed, DraftError, Drafter, Proposal};
use crate::feature_tokens::{CHUNK, FeatureTokenCache, Root};
use crate::trace::{Guessed, Network, Trace, follow};
use crate::uncommitted::UncommittedRows;
use gorgon_core::accept::SamplingScheme;
use gorgon_core::tree::{CandidateRows, CandidateSource, SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::top_rows::top_rows;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// What each module made of some tokens, `None` where it knows no state yet or was not asked.
type Outputs = SmallVec<[Option<HiddenStates>; 4]>;

/// Drafts level by level with a chain of pairs for each module.
///
/// The caches hold pairs of committed tokens, up to the pair of the root. A level's rows stay in flight while one tree
/// is drafted, and are dropped after it.
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
                None if chain.waiting() >= CHUNK => chain.read_waiting(&mut read, &mut tell)?,
                None => {}
            }
        }
        Ok(at_root)
    }
}

impl Drafter for MtpDrafter {
    fn name(&self) -> &str {
        "mtp"
    }

    fn reset(&mut self) {
        self.chains.iter_mut().for_each(FeatureTokenCache::reset);
    }

    fn observe(&mut self, committed: Committed<'_>) -> Result<(), DraftError> {
        if committed.tokens.is_empty() {
            return Ok(());
        }
        let (mut tokens, mut states) = (committed.tokens, committed.output.hidden.select(committed.rows));
        for chain in &mut self.chains {
            match chain.observe(tokens, states) {
                // What a module guessed at the root is a state of the next one's now.
                Root::Committed(guessed) => (tokens, states) = (&tokens[..1], guessed),
                Root::NotRead => return Ok(()),
                Root::Dropped => break,
            }
        }
        self.chains.iter_mut().for_each(FeatureTokenCache::unroot);
        Ok(())
    }

    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        if builder.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        // A module beyond the tree's depth would never be asked.
        let modules = self.chains.len().min(builder.max_depth());
        let outputs = self.catch_up(modules, root)?;
        if outputs.first().is_none_or(Option::is_none) {
            return Ok(Proposal::root(root));
        }
        let (chains, rows) = (&mut self.chains[..modules], uncommitted(modules));
        let level = Level { nodes: PooledVec::of(0, 1), outputs };
        let ranked = candidates::by_rank(builder);
        let draft = builder.build(root, &mut Levels { model: &self.model, chains, level, rows, ranked });
        self.chains.iter_mut().for_each(|chain| chain.cache.roll_back());
        // Children are the likeliest tokens, not draws: rules treat them as a list.
        Ok(Proposal { draft: draft?, rows: None, law: SamplingScheme::Deterministic })
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let modules = self.chains.len().min(drafts.len() + 1);
        let outputs = self.catch_up(modules, root)?;
        let Some(input) = self.chains.first().and_then(FeatureTokenCache::state) else { return Ok(None) };
        let input = input.clone().into_values().into_vec();
        let (chains, rows) = (&mut self.chains[..modules], uncommitted(modules));
        let level = Level { nodes: PooledVec::of(0, 1), outputs };
        let guesses = follow(&mut Levels { model: &self.model, chains, level, rows, ranked: false }, root, drafts);
        self.chains.iter_mut().for_each(|chain| chain.cache.roll_back());
        Ok(Some(Trace { input, guesses: guesses? }))
    }
}

/// No rows of any module.
fn uncommitted(modules: usize) -> SmallVec<[UncommittedRows; 4]> {
    (0..modules).map(|_| UncommittedRows::default()).collect()
}

/// The nodes that were read last, with what each module made of them.
struct Level {
    nodes: PooledVec<usize>,
    outputs: Outputs,
}

/// Expands a tree level by level.
struct Levels<'a> {
    model: &'a MtpModel,
    chains: &'a mut [FeatureTokenCache],
    level: Level,
    /// Rows in flight of each module; the root's pair is in its cache.
    rows: SmallVec<[UncommittedRows; 4]>,
    /// Whether only the order of candidates is asked for.
    ranked: bool,
}

impl Levels<'_> {
    /// The states that module `module` pairs with nodes of depth `depth`, at least 1: what the module before made of
    /// their parents; where there is no module before, what the last one made of the parents itself.
    fn inputs(&self, module: usize, depth: usize, parents: &[usize]) -> Option<HiddenStates> {
        let from = if module >= depth { module - 1 } else { module };
        self.level.outputs[from].as_ref().map(|output| output.select(parents))
    }

    /// Reads `nodes`, children of nodes of the last level, with every module that guesses from here on.
    fn descend(&mut self, tree: &TokenTree, nodes: &[usize], depth: usize) -> Result<(), SourceError> {
        let parent = |&node: &usize| self.level.nodes.iter().position(|&known| known == tree.parents()[node]);
        let parents: Option<PooledVec<usize>> = nodes.iter().map(parent).collect();
        let parents = parents.ok_or("a tree is drafted level by level")?;
        let tokens: PooledVec<Token> = nodes.iter().map(|&node| tree.token(node)).collect();
        let modules = self.chains.len();
        let mut outputs: Outputs = smallvec![None; modules];
        for (module, output) in outputs.iter_mut().enumerate().skip(depth.min(modules - 1)) {
            let Some(states) = self.inputs(module, depth, &parents) else { continue };
            let visible = self.rows[module].add(tree, nodes);
            let cache = &mut self.chains[module].cache;
            *output = Some(self.model.forward(module, &tokens, &states, &visible, cache)?);
        }
        self.level = Level { nodes: nodes.iter().copied().collect(), outputs };
        Ok(())
    }
}

impl Levels<'_> {
    /// Reads `nodes` and says what the LM head reads at them.
    fn states(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<HiddenStates, SourceError> {
        let depth = nodes.first().map_or(0, |&node| tree.depths()[node]);
        if depth > 0 {
            self.descend(tree, nodes, depth)?;
        }
        let guess = self.level.outputs[depth.min(self.chains.len() - 1)].as_ref();
        Ok(guess.ok_or("a module was not asked")?.clone())
    }
}

impl Network for Levels<'_> {
    fn guess(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<Guessed>, SourceError> {
        let states = self.states(tree, nodes)?;
        let logits = self.model.logits(&states);
        Ok(Some(Guessed { states, logits }))
    }
}

impl CandidateSource for Levels<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let states = self.states(tree, nodes)?;
        let ranked = if self.ranked { self.model.top_tokens(&states, widths) } else { None };
        Ok(match ranked {
            Some(found) => candidates::ranked(&found, widths),
            None => {
                let rows = top_rows(&self.model.logits(&states), self.model.vocab_size(), widths);
                candidates::likely(&rows, |token| token)
            }
        })
    }
}
