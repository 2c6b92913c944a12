//! Prompt lookup: what followed the last tokens the last time they were said.

use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::method::Method;
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, ChainTree, SourceError, TokenTree, TreeChoice};
use gorgon_core::{PooledVec, Token};

/// The longest n-gram that can be asked for.
pub const LONGEST: usize = 16;

/// Drafts unless another tree is named.
const CHAIN: usize = 8;

/// Prompt lookup, `ngram:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ngram {
    /// Tokens that are compared at most.
    pub n: usize,
}

impl Method for Ngram {
    const SYNTAX: &'static str = "ngram:N";

    fn parse(arguments: &str) -> Result<Self, String> {
        match arguments.trim().parse() {
            Ok(n) if (1..=LONGEST).contains(&n) => Ok(Self { n }),
            _ => Err(format!("{arguments:?} is no length from 1 to {LONGEST}")),
        }
    }

    fn name(&self) -> String {
        format!("ngram:{}", self.n)
    }

    fn default_tree(&self) -> TreeChoice {
        ChainTree::new(CHAIN).map_or(TreeChoice::None, TreeChoice::Chain)
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        Box::new(NgramDrafter::new(self.n))
    }
}

/// Drafts without a model: after a node stands whatever followed the longest suffix of the text up to it, of at most
/// `n` tokens, where that suffix was said before (prompt and answer alike).
///
/// Of several followers the most frequent is likeliest, of equally frequent ones the latest; a candidate's probability
/// is its share. Text that repeats nothing is drafted nothing for.
#[derive(Clone, Debug)]
pub struct NgramDrafter {
    n: usize,
    name: String,
    text: Vec<Token>,
}

impl NgramDrafter {
    /// A drafter that compares up to `n` tokens.
    pub fn new(n: usize) -> Self {
        Self { n, name: format!("ngram:{n}"), text: vec![] }
    }
}

impl Drafter for NgramDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn reset(&mut self) {
        self.text.clear();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.text.truncate(length);
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.text.extend(pass.tokens);
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let committed = self.text.len();
        self.text.push(root);
        let draft = context.tree.build(root, &mut Followers { n: self.n, text: &self.text });
        self.text.truncate(committed);
        Ok(Proposal::list(draft?))
    }
}

/// Tokens that followed suffixes of a text that ends with the tree's root.
struct Followers<'a> {
    n: usize,
    text: &'a [Token],
}

impl Followers<'_> {
    /// The followers of the longest suffix of the text and `path` that was said before, likeliest first.
    fn after(&self, path: &[Token]) -> PooledVec<Candidate> {
        let from = self.text.len().saturating_sub(self.n);
        let tail: PooledVec<Token> = self.text[from..].iter().chain(path).copied().collect();
        let suffixes = (1..=self.n.min(tail.len())).rev().map(|length| &tail[tail.len() - length..]);
        suffixes.map(|suffix| self.following(suffix)).find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn following(&self, suffix: &[Token]) -> PooledVec<Candidate> {
        let (mut tokens, mut counts) = (PooledVec::<Token>::new(), PooledVec::<usize>::new());
        // The latest first.
        for window in self.text.windows(suffix.len() + 1).rev().filter(|window| window.starts_with(suffix)) {
            let follower = window[suffix.len()];
            match tokens.iter().position(|&token| token == follower) {
                Some(at) => counts[at] += 1,
                None => {
                    tokens.push(follower);
                    counts.push(1);
                }
            }
        }
        let mut order: PooledVec<usize> = (0..tokens.len()).collect();
        order.sort_unstable_by_key(|&at| (std::cmp::Reverse(counts[at]), at));
        let all: usize = counts.iter().sum();
        let candidate = |&at: &usize| Candidate { token: tokens[at], probability: counts[at] as f64 / all as f64 };
        order.iter().map(candidate).collect()
    }
}

impl CandidateSource for Followers<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let mut rows = CandidateRows::default();
        for (&node, &width) in nodes.iter().zip(widths) {
            let path: PooledVec<Token> = tree.path(node).iter().skip(1).map(|&on| tree.token(on)).collect();
            rows.push(self.after(&path).iter().take(width).copied());
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
