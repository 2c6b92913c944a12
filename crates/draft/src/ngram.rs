//! Prompt lookup: what followed the last tokens the last time they were said.

use crate::drafter::{Committed, DraftError, Drafter, Proposal};
use gorgon_core::accept::ChildLaw;
use gorgon_core::tree::{Candidate, CandidateRows, CandidateSource, SourceError, TokenTree, TreeBuilder};
use gorgon_core::{Recycled, Token};

/// The longest n-gram that can be asked for.
pub const LONGEST: usize = 16;

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

    fn observe(&mut self, committed: Committed<'_>) -> Result<(), DraftError> {
        self.text.extend(committed.tokens);
        Ok(())
    }

    fn propose(&mut self, root: Token, builder: &dyn TreeBuilder) -> Result<Proposal, DraftError> {
        let committed = self.text.len();
        self.text.push(root);
        let draft = builder.build(root, &mut Followers { n: self.n, text: &self.text });
        self.text.truncate(committed);
        Ok(Proposal { draft: draft?, rows: None, law: ChildLaw::Deterministic })
    }
}

/// What followed suffixes of a text that ends with the tree's root.
struct Followers<'a> {
    n: usize,
    text: &'a [Token],
}

impl Followers<'_> {
    /// The followers of the longest suffix of the text and `path` that was said before, likeliest first.
    fn after(&self, path: &[Token]) -> Recycled<Candidate> {
        let from = self.text.len().saturating_sub(self.n);
        let tail: Recycled<Token> = self.text[from..].iter().chain(path).copied().collect();
        let suffixes = (1..=self.n.min(tail.len())).rev().map(|length| &tail[tail.len() - length..]);
        suffixes.map(|suffix| self.following(suffix)).find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn following(&self, suffix: &[Token]) -> Recycled<Candidate> {
        let (mut tokens, mut counts) = (Recycled::<Token>::new(), Recycled::<usize>::new());
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
        let mut order: Recycled<usize> = (0..tokens.len()).collect();
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
            let path: Recycled<Token> = tree.path(node).iter().skip(1).map(|&on| tree.token(on)).collect();
            rows.push(self.after(&path).iter().take(width).copied());
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gorgon_core::tree::{ChainTree, FixedTree, TreeShape};

    fn drafted(text: &[Token], root: Token, n: usize, builder: &dyn TreeBuilder) -> (Vec<Token>, Vec<f64>) {
        let mut drafter = NgramDrafter::new(n);
        drafter.text = text.to_vec();
        let proposal = drafter.propose(root, builder).unwrap();
        assert_eq!(drafter.text, text, "the root is not committed yet");
        (proposal.draft.tree().tokens().to_vec(), proposal.draft.probabilities().to_vec())
    }

    #[test]
    fn a_chain_goes_on_as_the_text_did() {
        let chain = ChainTree::new(4).unwrap();
        assert_eq!(drafted(&[1, 2, 3, 4, 5, 1], 2, 2, &chain).0, [2, 3, 4, 5, 1]);
        // Nothing repeats: a lone root.
        assert_eq!(drafted(&[1, 2, 3], 9, 3, &chain).0, [9]);
        // What was just said counts too, and a draft may run into the end of the text and start over.
        assert_eq!(drafted(&[7, 7], 7, 3, &chain).0, [7; 5]);
        assert_eq!(drafted(&[], 7, 3, &chain).0, [7]);
    }

    #[test]
    fn longer_matches_go_first() {
        let chain = ChainTree::new(1).unwrap();
        let text = [1, 2, 3, 9, 2, 4, 9, 2, 4, 1];
        assert_eq!(drafted(&text, 2, 1, &chain).0, [2, 4]);
        assert_eq!(drafted(&text, 2, 2, &chain).0, [2, 3]);
    }

    #[test]
    fn siblings_are_the_followers_by_frequency_then_recency() {
        let tree = FixedTree::new(TreeShape::new(vec![vec![0], vec![1], vec![2], vec![3]]).unwrap());
        let (tokens, shares) = drafted(&[1, 5, 1, 6, 1, 7, 1, 6, 2], 1, 2, &tree);
        assert_eq!(tokens, [1, 6, 7, 5]);
        assert_eq!(shares, [1.0, 0.5, 0.25, 0.25]);
    }
}
