//! Readers of stores.

use super::sound::{with, written};
use gorgon_core::tree::OwnTree;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::method::TrainingFreeMethod;
use gorgon_draft::rest::Rest;
use gorgon_draft::store::{Store, StoreBuilder};
use gorgon_draft::suffix::Suffix;

/// Texts that are looked up: tokens of the seeds, and others.
const TEXTS: [&[u32]; 5] = [&[], &[1, 2, 3, 4, 5, 6, 7, 8], &[3, 3, 3, 3], &[9, 1, 2], &[0xFF_FFFF, u32::MAX]];

/// Matches are no longer than the text, and a tree is within its budget.
pub(super) fn store(bytes: &[u8]) {
    with("store", bytes, |dir| {
        let path = dir.join("store");
        let Ok(store) = Store::open(&path) else { return };
        let _ = store.verify();
        for text in TEXTS {
            let found = store.longest(text);
            assert!(found.length <= text.len() && found.count() <= store.tokens());
            assert!(store.followers(found).map(|(_, run)| run.count()).sum::<usize>() <= found.count());
            let _ = store.extended(found, 3);
        }
        let Some(name) = path.to_str() else { return };
        let suffix = Suffix::parse(name).and_then(Suffix::opened).map(|suffix| suffix.drafter());
        let rest = Rest::parse(name).and_then(Rest::opened).map(|rest| rest.drafter());
        let Ok(tree) = OwnTree::new(20, 8) else { return };
        for mut drafter in [suffix, rest].into_iter().flatten() {
            let drafted = drafter.propose(3, &tree);
            assert!(drafted.is_ok_and(|proposal| proposal.draft.tree().len() <= 20));
        }
    });
}

pub(super) fn store_seeds() -> Vec<Vec<u8>> {
    let documents: [&[&[u32]]; 3] = [
        &[&[1, 2, 3, 4, 5, 6, 7, 8], &[3, 3, 3, 3, 3, 1]],
        &[&[3]],
        &[&[1, 2, 3, 9, 1, 2, 3, 5], &[2, 3], &[9, 1, 2, 4, 1, 2, 9]],
    ];
    let seed = |documents: &&[&[u32]]| {
        written("store", |path| {
            let mut builder = StoreBuilder::default();
            for document in *documents {
                let _ = builder.add(document);
            }
            let _ = builder.write(path, &"0".repeat(64));
        })
    };
    documents.iter().map(seed).collect()
}
