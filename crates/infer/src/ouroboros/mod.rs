//! Ouroboros (Zhao et al., 2024, <https://arxiv.org/abs/2402.13720>): a draft model drafts phrase by phrase, phrases are
//! tried behind its draft too, and the target's corrections refine them.
//!
//! 1. The draft model decodes `γ` tokens `d_1..d_γ` by lookahead decoding ([`gorgon_draft::lookahead`]). The window makes
//!    phrases of `β = N - 1` tokens; the pool keeps the newest `G` behind each token.
//! 2. The `K` newest phrases behind `d_γ` hang from `d_γ`.
//! 3. The target verifies all of it in one pass. `t_i` is its argmax at `d_i`, where `d_0` is the root.
//! 4. Where `d_i` is the first draft that is not accepted, every `d_s` with `s >= i` gets the phrase
//!    `t_s, t_{s+1}, ..`, as far as `d_{j+1} = t_j`, if it is `β` tokens long.
//! 5. A phrase `w_1..w_β` that was tried is replaced by `t_γ` and the target's argmaxes at `w_1..w_{β-1}`, whether or
//!    not the draft in front of it was accepted.
//!
//! The pool outlives texts: [`reset`](Drafter::reset) and [`truncate`](Drafter::truncate) keep it, so a later text begins
//! with the phrases of earlier ones. It takes at most `4·V·G·β` bytes of tokens for each sequence that is decoded at a
//! time.
//!
//! Lossless under every lossless rule: drafts of the model come with the rows that they were drawn from, as in
//! [`crate::cascade`], and phrases are a list. Which phrases hang from `d_γ` is settled by `d_γ` and earlier texts. Under
//! rules that draw at random, other phrases use up other draws, so a text of the same distribution depends on the texts
//! before it.
//!
//! Differences from the authors' code: phrases are refined after a rejection too, which a length taken of the wrong
//! list prevents there; tried phrases leave the pool and refined ones enter it, where the code overwrites the newest
//! ones, which step 4 may have added since; tried phrases are merged into a trie.

use crate::cascade::{CascadeDrafter, Inner};
use gorgon_core::Token;
use gorgon_core::accept::SamplingScheme;
use gorgon_core::tree::{Candidate, ChainTree, TreeBuilder, TreeChoice};
use gorgon_draft::composed::Ouroboros;
use gorgon_draft::coupled::CoupledTree;
use gorgon_draft::draft_model::{DraftModel, DraftSampling};
use gorgon_draft::drafter::{
    DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, Source, VerifiedPass, VerifiedTree,
};
use gorgon_draft::lookahead::LookaheadDrafter;
use gorgon_draft::method::TrainingFreeMethod;
use std::sync::Arc;

/// Drafts a chain of a draft model, and phrases behind it.
pub struct OuroborosDrafter {
    name: String,
    settings: Ouroboros,
    model: CascadeDrafter<LookaheadDrafter>,
    /// The last proposal, until it is verified.
    last: Option<Layout>,
}

/// Where a proposal's drafts are.
struct Layout {
    /// Drafts of the draft model: nodes `1..=chain`.
    chain: usize,
    /// The nodes of every phrase behind the last of them.
    phrases: Vec<Vec<usize>>,
    nodes: usize,
}

impl OuroborosDrafter {
    /// A draft model that drafts by `sampling`, with an empty pool.
    pub fn new(name: String, model: &DraftModel, settings: Ouroboros, sampling: DraftSampling) -> Self {
        let lookahead = settings.lookahead;
        let tree: Arc<dyn TreeBuilder> = match lookahead.default_tree() {
            TreeChoice::Own(own) => Arc::new(own),
            _ => Arc::new(ChainTree::ROOT),
        };
        let inner = Inner { tree, tail: 0 };
        let model =
            CascadeDrafter::new(name.clone(), model, (LookaheadDrafter::keeping_pool(lookahead), inner), sampling);
        Self { name, settings, model, last: None }
    }

    /// The drafter of the draft model, which has the pool of phrases.
    pub fn lookahead(&mut self) -> &mut LookaheadDrafter {
        self.model.inner()
    }

    /// Hangs phrases from the last draft of a chain.
    fn with_phrases(&mut self, proposal: Proposal) -> Proposal {
        let Proposal { mut draft, mut sources, .. } = proposal;
        let chain = draft.tree().len() - 1;
        let known = self.model.inner().guesses(draft.tree().token(chain));
        let tried = if chain > 0 { &known[known.len().saturating_sub(self.settings.k)..] } else { &[] };
        if !tried.is_empty() {
            (1..=chain).for_each(|node| draft.push_entry(node, 0));
        }
        let mut phrases = vec![];
        for phrase in tried.iter().rev() {
            let (mut at, mut nodes) = (chain, vec![]);
            for &token in phrase {
                let tree = draft.tree();
                let child = tree.children(at).find(|&child| tree.token(child) == token);
                at = child.unwrap_or_else(|| {
                    let child = draft.push(at, Candidate { token, probability: 1.0 });
                    draft.push_entry(child, 1);
                    child
                });
                nodes.push(at);
            }
            phrases.push(nodes);
        }
        let nodes = draft.tree().len();
        if nodes > chain + 1 {
            for rows in sources.iter_mut().filter_map(|source| source.rows.as_mut()) {
                let columns = rows.len() / (chain + 1);
                rows.resize(nodes * columns, 0.0);
            }
            sources.push(Source { rows: None, scheme: SamplingScheme::Deterministic });
        }
        self.last = Some(Layout { chain, phrases, nodes });
        Proposal { sources, ..Proposal::list(draft) }
    }

    /// Learns phrases from the target's argmaxes at a verified tree.
    fn refine(&mut self, layout: &Layout, verified: &VerifiedTree<'_>) {
        let (tree, chain, length) = (verified.tree, layout.chain, self.settings.phrase());
        let vocab = self.model.vocab_size();
        let argmax = |node: usize| verified.argmax(node).filter(|&token| (token as usize) < vocab);
        let pool = self.model.inner();
        let key = tree.token(chain);
        for nodes in &layout.phrases {
            pool.remove(key, &nodes.iter().map(|&node| tree.token(node)).collect::<Vec<_>>());
        }
        let accepted = verified.path.iter().filter(|&&node| (1..=chain).contains(&node)).count();
        for from in accepted + 1..=chain {
            let agrees = |&at: &usize| at < chain && argmax(at) == Some(tree.token(at + 1));
            let along = std::iter::successors(Some(from), |at| Some(*at).filter(agrees).map(|at| at + 1));
            let phrase: Option<Vec<Token>> = along.take(length).map(argmax).collect();
            if let Some(phrase) = phrase.filter(|phrase| phrase.len() == length) {
                pool.insert(tree.token(from), phrase);
            }
        }
        // The newest was tried first.
        for nodes in layout.phrases.iter().rev() {
            let said = std::iter::once(&chain).chain(nodes).take(nodes.len());
            if let Some(refined) = said.map(|&node| argmax(node)).collect::<Option<Vec<Token>>>() {
                pool.insert(key, refined);
            }
        }
    }
}

impl Drafter for OuroborosDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { feedback: Feedback::Argmax, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.last = None;
        self.model.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.last = None;
        self.model.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if let (Some(layout), Some(verified)) = (self.last.take(), &pass.verified)
            && layout.nodes == verified.tree.len()
        {
            self.refine(&layout, verified);
        }
        self.model.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.last = None;
        if context.tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        self.settings.check_tree(&context.tree.kind()).map_err(DraftError::Tree)?;
        let chain = ChainTree::new(self.settings.gamma).map_err(|error| DraftError::Tree(error.to_string()))?;
        let tree = CoupledTree { tree: &chain, coupling: context.tree.coupling };
        let proposal =
            self.model.draft(root, &mut DraftContext { tree, random: &mut *context.random, target: None })?;
        Ok(self.with_phrases(proposal))
    }
}
