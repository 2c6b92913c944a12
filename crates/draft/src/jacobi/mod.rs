//! Jacobi decoding (Santilli et al., 2023, <https://arxiv.org/abs/2305.10427>): a guess of `m` tokens is verified, and
//! the target's own choices behind its rejected part are the next guess.
//!
//! For a root `r` and a guess `y_1..y_m`, the target's argmaxes at the rows `r, y_1, .., y_m` are `a_0..a_m`. The
//! longest `j` with `y_i = a_{i-1}` for all `i <= j` is accepted, the bonus is `a_j`, and the next guess is
//! `a_{j+1}..a_m`, refilled to `m` tokens from the text. Every pass emits at least one token, so greedy text is plain
//! decoding's in at most as many passes. At temperature above 0 the guess is a list, which lossless rules accept
//! losslessly.

use crate::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass, VerifiedTree};
use crate::method::TrainingFreeMethod;
use crate::refill::Refill;
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, TreeBuilder, TreeChoice, Trie};

/// The longest guess.
const LONGEST: usize = 256;

/// Jacobi decoding, `jacobi:M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jacobi {
    /// Tokens of a guess.
    pub m: usize,
}

impl TrainingFreeMethod for Jacobi {
    const SYNTAX: &'static str = "jacobi:M";

    fn parse(arguments: &str) -> Result<Self, String> {
        match arguments.trim().parse() {
            Ok(m) if (1..=LONGEST).contains(&m) => Ok(Self { m }),
            _ => Err(format!("jacobi:{arguments}: a guess has 1 to {LONGEST} tokens")),
        }
    }

    fn name(&self) -> String {
        format!("jacobi:{}", self.m)
    }

    fn default_tree(&self) -> TreeChoice {
        ChainTree::new(self.m).map_or(TreeChoice::None, TreeChoice::Chain)
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        Box::new(JacobiDrafter::new(self.m))
    }
}

/// Drafts the target's own choices of the step before.
#[derive(Clone, Debug)]
pub struct JacobiDrafter {
    m: usize,
    name: String,
    /// Tokens to refill guesses from.
    refill: Refill,
    guess: Vec<Token>,
}

impl JacobiDrafter {
    /// A drafter whose guesses have `m` tokens.
    pub fn new(m: usize) -> Self {
        Self { m, name: Jacobi { m }.name(), refill: Refill::default(), guess: vec![] }
    }

    /// The next guess, before it is refilled: the argmaxes behind the accepted part of a verified one.
    fn learn(&mut self, verified: &VerifiedTree<'_>) {
        let tree = verified.tree;
        let below = |&node: &usize| tree.children(node).next();
        let accepted = *verified.path.last().unwrap_or(&0);
        // The guess is a chain: its rejected part hangs below the last accepted node.
        let rejected = std::iter::successors(below(&accepted), below);
        self.guess.clear();
        self.guess.extend(rejected.map_while(|node| verified.argmax(node)));
    }
}

impl Drafter for JacobiDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { feedback: Feedback::Argmax, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.refill.truncate(0);
        self.guess.clear();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.refill.truncate(length);
        self.guess.clear();
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.refill.extend(pass.tokens);
        if let Some(verified) = &pass.verified {
            self.learn(verified);
        }
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let missing = self.m.saturating_sub(self.guess.len());
        self.guess.extend(self.refill.draw(root, missing));
        let mut trie = Trie::new(root, self.m + 1, self.m);
        trie.insert(&self.guess);
        Ok(Proposal::list(context.tree.build(root, &mut trie)?))
    }
}

#[cfg(test)]
mod tests;
