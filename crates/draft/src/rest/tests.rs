//! Tests of `rest`.

use super::*;
use crate::store::StoreBuilder;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::ChainTree;
use std::collections::BTreeMap;

fn drafter(folder: &tempfile::TempDir, documents: &[Vec<Token>]) -> RestDrafter {
    let path = folder.path().join("store");
    let mut builder = StoreBuilder::default();
    documents.iter().for_each(|document| builder.add(document).unwrap());
    builder.write(&path, &"0".repeat(64)).unwrap();
    RestDrafter::new(&Rest::parse(path.to_str().unwrap()).unwrap().opened().unwrap())
}

/// Occurrences of each continuation of the longest match of 2 to 16 tokens, of at most 10 tokens.
fn continuations(documents: &[Vec<Token>], text: &[Token]) -> BTreeMap<Vec<Token>, usize> {
    for length in (2..=16.min(text.len())).rev() {
        let wanted = &text[text.len() - length..];
        let mut found = BTreeMap::new();
        let mut occurs = false;
        for document in documents {
            for at in (0..document.len()).filter(|&at| document[at..].starts_with(wanted)) {
                occurs = true;
                let rest = &document[at + length..];
                (1..=rest.len().min(10)).for_each(|n| *found.entry(rest[..n].to_vec()).or_default() += 1);
            }
        }
        if occurs {
            return found;
        }
    }
    BTreeMap::new()
}

/// The trie holds the most frequent continuations, with their shares.
#[test]
fn trees_hold_the_most_frequent_continuations() {
    let tree = OwnTree::new(20, 10).unwrap();
    for seed in 0..120 {
        let mut random = SeededRandom::new(seed);
        let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
        let folder = tempfile::tempdir().unwrap();
        let documents: Vec<Vec<Token>> =
            (0..1 + below(5)).map(|_| (0..1 + below(40)).map(|_| below(3) as Token).collect()).collect();
        let mut drafter = drafter(&folder, &documents);
        drafter.text = (0..below(12)).map(|_| below(3) as Token).collect();
        let root = below(3) as Token;
        let text = [&drafter.text[..], &[root]].concat();
        let draft = drafter.propose(root, &tree).unwrap().draft;
        assert_eq!(drafter.text, text[..text.len() - 1], "the root is not committed yet");
        let want = continuations(&documents, &text);
        let nodes = draft.tree();
        assert_eq!(nodes.len() - 1, want.len().min(19), "seed {seed}");
        let mut counts: Vec<usize> = vec![];
        for node in 1..nodes.len() {
            let path: Vec<Token> = nodes.path(node)[1..].iter().map(|&node| nodes.token(node)).collect();
            counts.push(want[&path]);
        }
        let mut most: Vec<usize> = want.into_values().collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(counts, most[..counts.len()], "seed {seed}");
    }
}

#[test]
fn a_stored_answer_is_drafted_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let answer: Vec<Token> = (0..50).collect();
    let mut drafter = drafter(&folder, &[answer.clone(), vec![60, 61]]);
    let tree = OwnTree::new(64, 10).unwrap();
    drafter.text = answer[..5].to_vec();
    assert_eq!(drafter.propose(5, &tree).unwrap().draft.tree().tokens(), &answer[5..16]);
    // One token is too short a match, and a boundary is none.
    drafter.text = vec![99];
    assert_eq!(drafter.propose(5, &tree).unwrap().draft.tree().tokens(), [5]);
    drafter.text = vec![49];
    assert_eq!(drafter.propose(60, &tree).unwrap().draft.tree().tokens(), [60]);
}

/// Equally frequent continuations are drafted in the order of their depth, then of what they follow, then of tokens.
#[test]
fn ties_have_an_order() {
    let folder = tempfile::tempdir().unwrap();
    let documents = [[1, 2, 70_000, 5], [1, 2, 3, 8], [1, 2, 9, 4], [1, 2, 3, 6]].map(|document| document.to_vec());
    let mut drafter = drafter(&folder, &documents);
    drafter.text = vec![1];
    let mut drafted = |tree: &dyn TreeBuilder| drafter.propose(2, tree).unwrap().draft.tree().tokens().to_vec();
    assert_eq!(drafted(&OwnTree::new(20, 10).unwrap()), [2, 3, 9, 70_000, 6, 8, 4, 5]);
    for nodes in 2..9 {
        assert_eq!(drafted(&OwnTree::new(nodes, 10).unwrap()), [2, 3, 9, 70_000, 6, 8, 4, 5][..nodes], "{nodes}");
    }
    assert_eq!(drafted(&ChainTree::new(4).unwrap()), [2, 3, 6]);
}

/// A text that is in the store word for word is said in steps of as many tokens as the tree is deep, and one.
#[test]
fn a_stored_text_is_said_in_full_steps() {
    let folder = tempfile::tempdir().unwrap();
    // Every token is another one, but the lower 16 bits repeat themselves.
    let answer: Vec<Token> = (0..200).map(|i| i % 13 + 0x1_0000 * (i / 13)).collect();
    let mut drafter = drafter(&folder, &[vec![60, 61], answer.clone()]);
    let tree = OwnTree::new(TREE.0, TREE.1).unwrap();
    drafter.text = answer[..1].to_vec();
    let (mut root, mut steps) = (1, vec![]);
    while root + 1 < answer.len() {
        let draft = drafter.propose(answer[root], &tree).unwrap().draft;
        let (drafts, next) = (&draft.tree().tokens()[1..], &answer[root + 1..]);
        let right = drafts.iter().zip(next).take_while(|(a, b)| a == b).count();
        assert_eq!(right, drafts.len(), "every draft is right");
        drafter.text.extend(&answer[root..=root + right]);
        root += right + 1;
        steps.push(right + 1);
    }
    assert_eq!(steps, [TREE.1 + 1; 18]);
}

#[test]
fn settings_are_checked() {
    assert!(Rest::parse("").unwrap_err().contains("rest:STORE"));
    assert_eq!(Rest::parse("a").unwrap().declining_below(1).unwrap().least, SHORTEST);
}
