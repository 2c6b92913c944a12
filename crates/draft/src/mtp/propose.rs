//! Multi-token prediction as a drafter.

use super::model::MtpModel;
use crate::candidates;
use crate::drafter::{Committed, DraftError, Drafter, Proposal};
use crate::eagle::join;
use crate::in_flight::InFlight;
use crate::trace::{Guessed, Network, Trace, follow};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_core::accept::ChildLaw;
use gorgon_core::tree::{CandidateRows, CandidateSource, SourceError, TokenTree, TreeBuilder};
use gorgon_kernels::top_rows::top_rows;
use gorgon_kernels::tree_attention::Visible;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::states::select_rows;
use gorgon_model::target::read;
use std::sync::Arc;

/// Pairs per forward pass: bounds the memory of a long prompt.
const CHUNK: usize = 256;

/// Drafts level by level with a chain of pairs for each module.
///
/// The caches hold pairs of committed tokens. The root's pairs and those of drafts stay in flight while a tree is drafted,
/// and are dropped after it.
#[derive(Debug)]
pub struct MtpDrafter {
    model: Arc<MtpModel>,
    chains: Vec<Chain>,
}

/// One module's pairs.
#[derive(Debug)]
struct Chain {
    cache: KvCache,
    /// The last state, whose token will be the next root, `[1, 1, d]`.
    last: Option<Tensor<3>>,
    /// Committed tokens that it has not read, and the states at them (the backbone's, or those of the module before), `[1, rows, d]`
    /// each. Trees that are shallower than there are modules leave the last ones alone.
    waiting: (Vec<Token>, Vec<Tensor<3>>),
}

impl MtpDrafter {
    /// A drafter with these modules.
    pub fn new(model: MtpModel) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with modules that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<MtpModel>) -> Self {
        let chain = |module| Chain { cache: model.new_cache(module), last: None, waiting: (vec![], vec![]) };
        let chains = (0..model.modules()).map(chain).collect();
        Self { model, chains }
    }

    /// The modules.
    pub fn model(&self) -> &MtpModel {
        &self.model
    }

    /// Pairs in each module's cache.
    pub fn cached(&self) -> Vec<usize> {
        self.chains.iter().map(|chain| chain.cache.len()).collect()
    }

    /// Brings the first `modules` caches up to the last committed token, and others that many tokens wait for.
    fn catch_up(&mut self, modules: usize) -> Result<(), ModelError> {
        for module in 0..self.chains.len() {
            let chain = &mut self.chains[module];
            let wanted = module < modules || chain.waiting.0.len() >= CHUNK;
            let (tokens, states) = if wanted { std::mem::take(&mut chain.waiting) } else { continue };
            if states.is_empty() {
                continue;
            }
            let states = join(states);
            for (i, chunk) in tokens.chunks(CHUNK).enumerate() {
                let outputs = self.read(module, chunk, states.clone().narrow(1, i * CHUNK, chunk.len()))?;
                if let Some((outputs, next)) = outputs.zip(self.chains.get_mut(module + 1)) {
                    next.waiting.0.extend_from_slice(&chunk[chunk.len() - outputs.dims()[1]..]);
                    next.waiting.1.push(outputs);
                }
            }
        }
        Ok(())
    }

    /// Reads committed tokens with the states at them, `[1, tokens, d]`. Returns what the module makes of the last of them, `[1, pairs, d]`: the
    /// state before the first token may not be known, so that a module further on lags a token more behind.
    fn read(&mut self, module: usize, tokens: &[Token], states: Tensor<3>) -> Result<Option<Tensor<3>>, ModelError> {
        let chain = &mut self.chains[module];
        let known = join(chain.last.take().into_iter().chain([states]).collect());
        let pairs = known.dims()[1] - 1;
        chain.last = Some(known.clone().narrow(1, pairs, 1));
        if pairs == 0 {
            return Ok(None);
        }
        // The last state but one goes with the last token.
        let visible = Visible::Causal { rows: pairs };
        let (tokens, known) = (&tokens[tokens.len() - pairs..], known.narrow(1, 0, pairs));
        let outputs = self.model.forward(module, tokens, &known, &visible, &mut chain.cache)?;
        chain.cache.commit(&(0..pairs).collect::<Vec<_>>())?;
        Ok(Some(outputs))
    }
}

impl Drafter for MtpDrafter {
    fn name(&self) -> &str {
        "mtp"
    }

    fn reset(&mut self) {
        for chain in &mut self.chains {
            chain.cache.truncate(0);
            (chain.last, chain.waiting) = (None, (vec![], vec![]));
        }
    }

    fn observe(&mut self, committed: Committed<'_>) -> Result<(), DraftError> {
        if let Some(first) = self.chains.first_mut().filter(|_| !committed.tokens.is_empty()) {
            first.waiting.0.extend_from_slice(committed.tokens);
            first.waiting.1.push(committed.output.hidden.select(committed.rows));
        }
        Ok(())
    }

    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        if builder.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        // A module beyond the tree's depth would never be asked.
        let modules = self.chains.len().min(builder.max_depth());
        self.catch_up(modules)?;
        if self.chains.first().is_none_or(|chain| chain.last.is_none()) {
            return Ok(Proposal::root(root));
        }
        let (chains, rows) = (&mut self.chains[..modules], vec![InFlight::default(); modules]);
        let level = Level { nodes: vec![], outputs: vec![None; modules] };
        let ranked = candidates::by_rank(builder);
        let draft = builder.build(root, &mut Levels { model: &self.model, chains, level, rows, ranked });
        self.chains.iter_mut().for_each(|chain| chain.cache.roll_back());
        // Children are the likeliest tokens, not draws: rules treat them as a list.
        Ok(Proposal { draft: draft?, rows: None, law: ChildLaw::Deterministic })
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let modules = self.chains.len().min(drafts.len() + 1);
        self.catch_up(modules)?;
        let last = self.chains.first().and_then(|chain| chain.last.clone());
        let Some(input) = last.map(read) else { return Ok(None) };
        let (chains, rows) = (&mut self.chains[..modules], vec![InFlight::default(); modules]);
        let level = Level { nodes: vec![], outputs: vec![None; modules] };
        let guesses = follow(&mut Levels { model: &self.model, chains, level, rows, ranked: false }, root, drafts);
        self.chains.iter_mut().for_each(|chain| chain.cache.roll_back());
        Ok(Some(Trace { input, guesses: guesses? }))
    }
}

/// The nodes that were read last, with what each module made of them.
struct Level {
    nodes: Vec<usize>,
    /// By module, `[1, nodes, d]`.
    outputs: Vec<Option<Tensor<3>>>,
}

/// Expands a tree level by level.
struct Levels<'a> {
    model: &'a MtpModel,
    chains: &'a mut [Chain],
    level: Level,
    /// Rows in flight of each module; the root's are among them.
    rows: Vec<InFlight>,
    /// Whether only the order of candidates is asked for.
    ranked: bool,
}

impl Levels<'_> {
    /// The states that module `module` pairs with `nodes` of depth `depth`: what the module before made of their parents;
    /// of the root, what is known; where there is no module before, what the last one made of the parents itself.
    fn inputs(&self, module: usize, depth: usize, parents: &[usize]) -> Option<Tensor<3>> {
        if depth == 0 {
            return self.chains[module].last.clone();
        }
        let from = if module >= depth { module - 1 } else { module };
        self.level.outputs[from].as_ref().map(|output| select_rows(output, parents))
    }

    /// Reads `nodes`, children of nodes of the last level, with every module that guesses from here on.
    fn descend(&mut self, tree: &TokenTree, nodes: &[usize], depth: usize) -> Result<(), SourceError> {
        let parent = |&node: &usize| self.level.nodes.iter().position(|&known| known == tree.parents()[node]);
        let parents: Option<Vec<usize>> = if depth == 0 { Some(vec![]) } else { nodes.iter().map(parent).collect() };
        let parents = parents.ok_or("a tree is drafted level by level")?;
        let tokens: Vec<Token> = nodes.iter().map(|&node| tree.token(node)).collect();
        let modules = self.chains.len();
        let mut outputs = vec![None; modules];
        for (module, output) in outputs.iter_mut().enumerate().skip(depth.min(modules - 1)) {
            let Some(states) = self.inputs(module, depth, &parents) else { continue };
            let visible = self.rows[module].add(tree, nodes);
            let cache = &mut self.chains[module].cache;
            *output = Some(self.model.forward(module, &tokens, &states, &visible, cache)?);
        }
        self.level = Level { nodes: nodes.to_vec(), outputs };
        Ok(())
    }
}

impl Levels<'_> {
    /// Reads `nodes` and says what the LM head reads at them.
    fn states(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Tensor<3>, SourceError> {
        let depth = nodes.first().map_or(0, |&node| tree.depths()[node]);
        self.descend(tree, nodes, depth)?;
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
        let ranked = if self.ranked { self.model.likeliest(&states, widths) } else { None };
        Ok(match ranked {
            Some(found) => candidates::ranked(&found, widths),
            None => candidates::likely(top_rows(&self.model.logits(&states), self.model.vocab_size(), widths)),
        })
    }
}
