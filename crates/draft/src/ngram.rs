//! Prompt lookup: what followed the last tokens the last time they were said.

mod index;

use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use crate::method::TrainingFreeMethod;
use gorgon_core::tree::{
    Candidate, CandidateRows, CandidateSource, ChainTree, SourceError, TokenTree, TreeBuilder, TreeChoice,
};
use gorgon_core::{PooledVec, Token};
use index::NgramIndex;

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

impl TrainingFreeMethod for Ngram {
    const SYNTAX: &'static str = "ngram:N";

    fn parse(arguments: &str) -> Result<Self, String> {
        match arguments.trim().parse() {
            Ok(n) if (1..=LONGEST).contains(&n) => Ok(Self { n }),
            _ => {
                let given = if arguments.is_empty() { "ngram".into() } else { format!("ngram:{arguments}") };
                Err(format!("{given}: a number of tokens from 1 to {LONGEST} is expected, such as ngram:3"))
            }
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
/// Followers are ranked by frequency, and by recency where they are equally frequent; a candidate's probability is its
/// share. Text that repeats nothing is drafted nothing for. The text is indexed as it grows, so a lookup costs as much as
/// there are matches, however long the text is.
#[derive(Clone, Debug)]
pub struct NgramDrafter {
    n: usize,
    name: String,
    index: NgramIndex,
}

impl NgramDrafter {
    /// A drafter that compares up to `n` tokens.
    pub fn new(n: usize) -> Self {
        Self { n, name: format!("ngram:{n}"), index: NgramIndex::new(n) }
    }
}

impl Drafter for NgramDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn reset(&mut self) {
        self.index.truncate(0);
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.index.truncate(length);
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        pass.tokens.iter().for_each(|&token| self.index.push(token));
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let draft = context.tree.build(root, &mut Followers { n: self.n, index: &self.index, root })?;
        Ok(Proposal::list(draft))
    }
}

/// Tokens that followed suffixes of the committed text with the tree's root.
struct Followers<'a> {
    n: usize,
    index: &'a NgramIndex,
    root: Token,
}

impl Followers<'_> {
    /// The followers of the longest suffix of the text, the root and `path` that the text has had before, the most
    /// frequent first.
    fn after(&self, path: &[Token]) -> PooledVec<Candidate> {
        let text = self.index.text();
        let from = (text.len() + 1).saturating_sub(self.n);
        let tail: PooledVec<Token> = text[from..].iter().chain([&self.root]).chain(path).copied().collect();
        let suffixes = (1..=self.n.min(tail.len())).rev().map(|length| &tail[tail.len() - length..]);
        suffixes.map(|suffix| self.following(suffix)).find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn following(&self, suffix: &[Token]) -> PooledVec<Candidate> {
        let (mut tokens, mut counts) = (PooledVec::<Token>::new(), PooledVec::<usize>::new());
        // The latest first. The root follows the last committed token.
        for end in self.index.ends(suffix) {
            let follower = self.index.text().get(end + 1).copied().unwrap_or(self.root);
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
