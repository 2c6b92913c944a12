//! Tests of `ngram`.

use super::*;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{ChainTree, FixedTree, TreeBuilder, TreeShape};

fn drafted(text: &[Token], root: Token, n: usize, builder: &dyn TreeBuilder) -> (Vec<Token>, Vec<f64>) {
    let mut drafter = NgramDrafter::new(n);
    text.iter().for_each(|&token| drafter.index.push(token));
    let proposal = drafter.propose(root, builder).unwrap();
    assert_eq!(drafter.index.text(), text, "the root is not committed yet");
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

/// The followers of a suffix of `text`, found by looking at all of it.
fn scanned(text: &[Token], suffix: &[Token]) -> Vec<(Token, usize)> {
    let mut found: Vec<(Token, usize)> = vec![];
    for window in text.windows(suffix.len() + 1).rev().filter(|window| window.starts_with(suffix)) {
        match found.iter_mut().find(|(token, _)| *token == window[suffix.len()]) {
            Some((_, count)) => *count += 1,
            None => found.push((window[suffix.len()], 1)),
        }
    }
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    found
}

/// The followers of the longest suffix that has some.
fn scanned_after(text: &[Token], path: &[Token], n: usize) -> Vec<(Token, usize)> {
    let tail = [&text[text.len().saturating_sub(n)..], path].concat();
    let suffixes = (1..=n.min(tail.len())).rev().map(|length| &tail[tail.len() - length..]);
    suffixes.map(|suffix| scanned(text, suffix)).find(|found| !found.is_empty()).unwrap_or_default()
}

#[test]
fn the_index_finds_what_a_scan_finds() {
    for seed in 0..40 {
        let mut random = SeededRandom::new(seed);
        let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
        let (n, alphabet) = (1 + below(4), 2 + below(6));
        let (mut index, mut text): (NgramIndex, Vec<Token>) = (NgramIndex::new(n), vec![]);
        for _ in 0..30 {
            for _ in 0..below(12) {
                let token = below(alphabet) as Token;
                index.push(token);
                text.push(token);
            }
            if below(3) == 0 {
                let length = below(text.len() + 2);
                index.truncate(length);
                text.truncate(length);
            }
            assert_eq!(index.text(), text);
            let root = below(alphabet) as Token;
            let path: Vec<Token> = (0..below(4)).map(|_| below(alphabet) as Token).collect();
            let followers = Followers { n, index: &index, root }.after(&path);
            let with_root = [&text[..], &[root]].concat();
            let want = scanned_after(&with_root, &path, n);
            let all: usize = want.iter().map(|(_, count)| count).sum();
            let want: Vec<Candidate> = want
                .iter()
                .map(|&(token, count)| Candidate { token, probability: count as f64 / all as f64 })
                .collect();
            assert_eq!(followers.as_slice(), want, "seed {seed}, {with_root:?}, {path:?}");
        }
    }
}

/// Positions that lookups of the last n-grams of a text look at.
fn looked_at(text: &[Token]) -> usize {
    let mut index = NgramIndex::new(4);
    text.iter().for_each(|&token| index.push(token));
    let suffixes = (1..=4).map(|length| &text[text.len() - length..]);
    suffixes.map(|suffix| index.looked_at(suffix).count()).sum()
}

#[test]
fn a_lookup_looks_at_matches_only() {
    for length in [10, 1_000, 30_000] {
        // The text ends with 5 6, as it did once before; nothing else repeats.
        let text: Vec<Token> = [5, 6].into_iter().chain(100..100 + length).chain([5, 6]).collect();
        // Both n-grams of one and of two tokens end at two positions, the longer ones at the last.
        assert_eq!(looked_at(&text), 2 + 2 + 1 + 1, "{length}");
    }
}
