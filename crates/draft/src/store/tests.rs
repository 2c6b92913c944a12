//! Tests of stores against a search of all documents, and of files that are damaged.

use super::*;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use std::collections::BTreeMap;
use std::path::Path;

fn tokenizer() -> String {
    "ab".repeat(32)
}

fn written(path: &Path, documents: &[Vec<Token>]) -> Store {
    let mut builder = StoreBuilder::default();
    documents.iter().for_each(|document| builder.add(document).unwrap());
    builder.write(path, &tokenizer()).unwrap();
    Store::open(path).unwrap()
}

/// Occurrences of a sequence in documents, and of each token behind it.
fn searched(documents: &[Vec<Token>], sequence: &[Token]) -> (usize, Vec<(Token, usize)>) {
    let (mut occurrences, mut next) = (0, BTreeMap::<Token, usize>::new());
    for document in documents {
        for at in (0..document.len()).filter(|&at| document[at..].starts_with(sequence)) {
            occurrences += 1;
            document.get(at + sequence.len()).into_iter().for_each(|&token| *next.entry(token).or_default() += 1);
        }
    }
    (occurrences, next.into_iter().collect())
}

fn counts(store: &Store, found: Match) -> Vec<(Token, usize)> {
    store.followers(found).map(|(token, run)| (token, run.count())).collect()
}

#[test]
fn matches_and_counts_are_those_of_a_search() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for seed in 0..250 {
        let mut random = SeededRandom::new(seed);
        let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
        let symbols = 2 + below(3);
        let documents: Vec<Vec<Token>> =
            (0..1 + below(4)).map(|_| (0..1 + below(30)).map(|_| below(symbols) as Token).collect()).collect();
        let store = written(&path, &documents);
        assert_eq!((store.documents(), store.tokens()), (documents.len(), documents.iter().map(Vec::len).sum()));
        for _ in 0..40 {
            let text: Vec<Token> = (0..below(12)).map(|_| below(symbols + 1) as Token).collect();
            let found = store.longest(&text);
            let longest = (0..=text.len()).rev().find(|&n| searched(&documents, &text[text.len() - n..]).0 > 0);
            assert_eq!(Some(found.length), longest, "seed {seed}, {text:?}");
            let (occurrences, next) = searched(&documents, &text[text.len() - found.length..]);
            // Every token is an occurrence of the empty sequence.
            assert_eq!((found.count(), counts(&store, found)), (occurrences, next), "seed {seed}, {text:?}");
            assert_eq!(store.occurrences(&text[text.len() - found.length..]), found);
            for token in 0..=symbols as Token {
                let run = store.followers(found).find(|(follower, _)| *follower == token).map(|(_, run)| run);
                assert_eq!(store.extended(found, token), run, "seed {seed}, {text:?}");
            }
        }
    }
}

/// Of many occurrences, what follows one in 64 is found, with its exact count.
#[test]
fn frequent_followers_are_found_with_their_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = SeededRandom::new(5);
    let mut document: Vec<Token> = vec![];
    for i in 0..20_000 {
        document.extend([1, 2 + (random.uniform().powi(3) * 400.0) as Token]);
        if i % 50 == 0 {
            document.push(1000 + i);
        }
    }
    let store = written(&folder.path().join("store"), &[document.clone(), vec![1]]);
    let (occurrences, all) = searched(&[document, vec![1]], &[1]);
    let found = store.occurrences(&[1]);
    assert_eq!((found.count(), counts(&store, found)), (occurrences, all.clone()));
    let mut frequent = BTreeMap::new();
    store.frequent_followers(found, &mut |token, run| {
        frequent.insert(token, run.count());
    });
    assert!(frequent.len() < all.len() && frequent.len() > 8);
    for (token, count) in all {
        let known = frequent.get(&token);
        assert!(known.map_or(count * 64 <= occurrences, |&known| known == count), "{token} {count} {known:?}");
    }
}

/// Tokens have 24 bits: of two whose lower 16 are alike each has its own followers, and their order is that of whole
/// numbers.
#[test]
fn large_tokens_are_kept_whole_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let most: Token = 0xFF_FFFE;
    let tied = [70_000, 65_536, 4464, 65_535, 256, 0, most, 255];
    let documents: Vec<Vec<Token>> = (10..).zip(tied).map(|(last, token)| vec![7, token, last]).collect();
    let store = written(&folder.path().join("store"), &documents);
    store.verify().unwrap();
    assert_eq!((store.vocab(), store.tokens()), (0xFF_FFFF, 24));
    let found = store.occurrences(&[7]);
    let ordered = [0, 255, 256, 4464, 65_535, 65_536, 70_000, most];
    assert_eq!(counts(&store, found), ordered.map(|token| (token, 1)));
    let mut visited = vec![];
    store.frequent_followers(found, &mut |token, run| visited.push((token, run.count())));
    assert_eq!(visited, counts(&store, found));
    for (last, token) in (10..).zip(tied) {
        let longest = store.longest(&[1, 7, token]);
        assert_eq!((longest.length, counts(&store, longest)), (2, vec![(last, 1)]), "{token}");
        assert_eq!(store.extended(found, token), Some(longest), "{token}");
    }
    assert_eq!(store.extended(found, 65_536 + 256), None);
}

/// Equally frequent followers are named in the order of their tokens, however many occurrences they have.
#[test]
fn followers_of_many_occurrences_are_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let document: Vec<Token> = (0..600).flat_map(|i| [1, [70_000, 3, 65_540][i % 3]]).collect();
    let store = written(&folder.path().join("store"), &[document]);
    let found = store.occurrences(&[1]);
    assert_eq!(found.count(), 600);
    let mut visited = vec![];
    store.frequent_followers(found, &mut |token, run| visited.push((token, run.count())));
    assert_eq!(visited, [(3, 200), (65_540, 200), (70_000, 200)]);
}

#[test]
fn documents_must_fit() {
    let mut builder = StoreBuilder::default();
    builder.add(&[]).unwrap();
    assert!(builder.add(&[0xFF_FFFF]).unwrap_err().to_string().contains("16777215"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    assert!(matches!(builder.write(&path, &tokenizer()), Err(StoreError::Empty)));
    assert!(!path.exists());
}

fn refused(bytes: &[u8], words: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    std::fs::write(&path, bytes).unwrap();
    let message = Store::open(&path).unwrap_err().to_string();
    assert!(message.contains("damaged: ") && message.contains(words), "{message}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn headers_must_fit_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = written(&path, &[vec![1, 2, 3], vec![2, 3]]);
    store.verify().unwrap();
    assert_eq!((store.tokenizer(), store.vocab()), (tokenizer().as_str(), 4));
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 160 + 11 * (5 + 3));
    for length in 0..bytes.len() {
        let words = if length < 8 {
            "no store"
        } else if length < 160 {
            "truncated"
        } else {
            "entries"
        };
        refused(&bytes[..length], words);
    }
    refused(&[&bytes[..], &[0]].concat(), "entries");
    let with = |at: usize, value: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + value.len()].copy_from_slice(value);
        changed
    };
    refused(&with(0, b"X"), "no store");
    refused(&with(8, &[2]), "version is 2");
    refused(&with(12, &u32::MAX.to_le_bytes()), "tokens below 4294967295");
    for entries in [0, 7, 9, u64::MAX, u64::MAX / 11 + 1, 1 << 31] {
        refused(&with(16, &entries.to_le_bytes()), "entries");
    }
    refused(&with(40, b"\xff"), "no SHA-256");
    assert!(Store::open(folder.path()).unwrap_err().to_string().contains("not an ordinary file"));
    assert!(matches!(Store::open(&folder.path().join("none")), Err(StoreError::Io { .. })));
    let flipped = folder.path().join("flipped");
    std::fs::write(&flipped, with(200, b"\xff")).unwrap();
    assert!(Store::open(&flipped).unwrap().verify().unwrap_err().to_string().contains("SHA-256"));
}

#[test]
fn headers_must_be_true() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    written(&path, &[vec![1, 2, 3], vec![2, 3]]);
    let bytes = std::fs::read(&path).unwrap();
    let with = |at: usize, value: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + value.len()].copy_from_slice(value);
        changed
    };
    for documents in [0, 4, u64::MAX] {
        refused(&with(24, &documents.to_le_bytes()), "documents");
    }
    refused(&with(12, &0u32.to_le_bytes()), "tokens below 0");
    // Such headers could be those of another text.
    for (at, value) in [(24, 1), (24, 3), (12, 9)] {
        let store = Store::of_bytes(with(at, &[value]), &path).unwrap();
        assert!(store.verify().unwrap_err().to_string().contains("it has 2, and tokens below 4"));
    }
}

/// Wrong entries end in wrong matches, and in nothing else.
#[test]
fn damaged_bodies_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, damaged) = (folder.path().join("store"), folder.path().join("damaged"));
    let documents: Vec<Vec<Token>> = (0..6).map(|i| (0..60).map(|j| (i * j + j * j) % 5).collect()).collect();
    written(&path, &documents);
    let bytes = std::fs::read(&path).unwrap();
    for seed in 0..500 {
        let mut random = SeededRandom::new(seed);
        let mut below = |limit: usize| (random.uniform() * limit as f64) as usize;
        let mut changed = bytes.clone();
        for _ in 0..1 + below(400) {
            let at = 160 + below(bytes.len() - 160);
            changed[at] = below(256) as u8;
        }
        if below(3) == 0 {
            changed[160..].fill([0, 0xFF][below(2)]);
        }
        std::fs::write(&damaged, &changed).unwrap();
        let store = Store::open(&damaged).unwrap();
        for _ in 0..10 {
            let text: Vec<Token> = (0..below(20)).map(|_| below(6) as Token).collect();
            let found = store.longest(&text);
            assert!(found.length <= text.len() && found.count() <= store.tokens());
            let all = store.followers(found).map(|(_, run)| run.count()).sum::<usize>();
            assert!(all <= found.count());
            store.frequent_followers(found, &mut |_, run| assert!(run.count() <= found.count()));
            assert!((0..6).filter_map(|token| store.extended(found, token)).all(|run| run.count() <= found.count()));
        }
    }
}
