//! A drafter that is right at given rates: measures what a step costs without trained weights.

use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::trace::Trace;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;

/// Lets another drafter work at full cost, then overrides its tokens.
///
/// At depth `d` the true continuation (recorded by a plain run of the same prompt first) is put on the first path with
/// probability `R_d`, given that its parent was right; otherwise a wrong token is. Depths beyond the rates are wrong,
/// and so is every node off the first path.
pub struct OracleDrafter {
    inner: Box<dyn Drafter>,
    name: String,
    rates: Vec<f64>,
    vocab_size: usize,
    truth: Vec<Token>,
    /// Tokens committed after the prompt: the place of the root in the truth.
    at: usize,
    random: SeededRandom,
    seed: u64,
}

impl OracleDrafter {
    /// An oracle over the continuation `truth`, at the cost of `inner`.
    pub fn new(inner: Box<dyn Drafter>, rates: Vec<f64>, vocab_size: usize, seed: u64) -> Self {
        let listed: Vec<String> = rates.iter().map(f64::to_string).collect();
        let name = format!("oracle:{}", listed.join(","));
        Self { inner, name, rates, vocab_size, truth: vec![], at: 0, random: SeededRandom::new(seed), seed }
    }

    /// Tells what plain decoding says after the next prompt.
    pub fn reveal(&mut self, truth: Vec<Token>) {
        self.truth = truth;
    }

    /// A token that is not the given one.
    fn wrong(&self, right: Option<Token>, salt: usize) -> Token {
        let vocab = self.vocab_size as u64;
        let token = (u64::from(right.unwrap_or(0)) + 1 + salt as u64 % (vocab - 1).max(1)) % vocab;
        token as Token
    }
}

impl Drafter for OracleDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn reset(&mut self) {
        self.inner.reset();
        self.at = 0;
        self.random = SeededRandom::new(self.seed);
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        // A prompt may come in pieces; the truth begins behind the last of them.
        self.at = if pass.verified.is_some() { self.at + pass.tokens.len() } else { 0 };
        self.inner.observe(pass)
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        self.inner.trace(root, drafts)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.inner.draft(root, context)?;
        let tree = proposal.draft.tree();
        let truth = |depth: usize| self.truth.get(self.at + depth).copied();
        let mut tokens = tree.tokens().to_vec();
        let (mut first, mut right) = (0, true);
        for (node, token) in tokens.iter_mut().enumerate().skip(1).filter(|&(node, _)| !tree.is_probe(node)) {
            let depth = tree.depths()[node];
            let true_token = truth(depth);
            // The first path continues at the first child of its last node; children come after their parents.
            if tree.parents()[node] == first && depth == tree.depths()[first] + 1 {
                first = node;
                let rate = self.rates.get(depth - 1).copied().unwrap_or(0.0);
                right = right && self.random.uniform() < rate && true_token.is_some();
                *token = match (right, true_token) {
                    (true, Some(token)) => token,
                    _ => self.wrong(true_token, 0),
                };
            } else if true_token == Some(*token) {
                *token = self.wrong(true_token, node);
            }
        }
        // Whatever the tokens were before, they are a list now, which no layer has read.
        let draft = proposal.draft.with_tokens(&tokens);
        Ok(Proposal { probes: proposal.probes, ..Proposal::list(draft) })
    }
}

#[cfg(test)]
mod tests;
