//! Medusa heads as a drafter.

use super::model::MedusaModel;
use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::trace::{Guess, Trace};
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, SourceError, TokenTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::Isa;
use gorgon_kernels::top_rows::top_row;
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Drafts with the state at the last committed token: head `k` names the tokens of depth `k`, whatever their parents
/// are.
#[derive(Debug)]
pub struct MedusaDrafter {
    model: Arc<MedusaModel>,
    /// After the final norm at the last committed token.
    hidden: Option<HiddenStates>,
}

impl MedusaDrafter {
    /// A drafter with these heads.
    pub fn new(model: MedusaModel) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with heads that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<MedusaModel>) -> Self {
        Self { model, hidden: None }
    }

    /// The heads.
    pub fn model(&self) -> &MedusaModel {
        &self.model
    }
}

impl Drafter for MedusaDrafter {
    fn name(&self) -> &str {
        "medusa"
    }

    fn reset(&mut self) {
        self.hidden = None;
    }

    fn truncate(&mut self, _: usize) -> bool {
        // The next token that is read brings its own state.
        self.hidden = None;
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.hidden = pass.last_hidden();
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let tree = &context.tree;
        let heads = tree.max_depth().min(self.model.heads());
        let Some(hidden) = self.hidden.as_ref().filter(|_| heads > 0) else { return Ok(Proposal::root(root)) };
        let counts: PooledVec<usize> = (0..heads).map_while(|depth| tree.ranks_at(depth)).collect();
        let top_tokens = if counts.len() == heads { self.model.top_tokens(hidden, &counts) } else { None };
        let draft = match top_tokens {
            Some(top_tokens) => tree.build(root, &mut Ranked::new(&top_tokens, &counts))?,
            None => {
                let logits = self.model.logits(hidden, heads);
                tree.build(root, &mut Guesses { logits: &logits, vocab: self.model.vocab_size() })?
            }
        };
        Ok(Proposal::list(draft))
    }

    fn trace(&mut self, _: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        let Some(hidden) = &self.hidden else { return Ok(None) };
        let states = self.model.states(hidden, drafts.len() + 1);
        let (d, logits) = (states.width(), self.model.project(&states).into_values());
        let states = states.into_values();
        let rows = states.chunks_exact(d).zip(logits.chunks_exact(self.model.vocab_size()));
        let guesses = rows.map(|(state, row)| Guess { state: state.to_vec(), logits: row.to_vec() }).collect();
        Ok(Some(Trace { input: hidden.clone().into_values().into_vec(), guesses }))
    }
}

/// The most likely tokens of each head as candidates.
struct Ranked(CandidateRows);

impl Ranked {
    /// `counts[k]` tokens of head `k`, head by head, of which nothing but the order is known.
    fn new(top_tokens: &[(Token, f32)], counts: &[usize]) -> Self {
        let mut left = top_tokens.iter().map(|&(token, _)| Candidate { token, probability: 1.0 });
        let mut rows = CandidateRows::default();
        counts.iter().for_each(|&count| rows.push(left.by_ref().take(count)));
        Self(rows)
    }
}

impl CandidateSource for Ranked {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let depth = nodes.first().map_or(0, |&node| tree.depths()[node]);
        Ok(widths.iter().map(|&width| self.0.row(depth).iter().take(width).copied()).collect())
    }
}

/// The heads' rows as candidates.
struct Guesses<'a> {
    logits: &'a [f32],
    vocab: usize,
}

impl CandidateSource for Guesses<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let depth = nodes.first().map_or(0, |&node| tree.depths()[node]);
        let row = self.logits.chunks_exact(self.vocab).nth(depth).unwrap_or(&[]);
        let most = widths.iter().copied().max().unwrap_or(0);
        // Heads are untrusted: a probability that is no number counts as 0.
        let candidate = |&(token, p): &(u32, f32)| Candidate { token, probability: f64::from(p) };
        let mut top = PooledVec::new();
        top_row(Isa::detect(), row, most, &mut top);
        Ok(widths.iter().map(|&width| top.iter().take(width).map(candidate)).collect())
    }
}
