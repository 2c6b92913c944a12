//! In a text of one token over and over, every draft is right.

use crate::composed::models::generate;
use crate::planted;
use crate::training_free::kinds::{methods, trees};
use gorgon_core::Token;
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::TreeBuilder;
use gorgon_draft::training_free::TrainingFree;
use gorgon_model::random::LlamaShape;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 4,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 512,
};
const TOKEN: Token = 77;
const NEW: usize = 450;
/// Steps in which windows and tables fill up, and matches grow long enough for a tree of the greatest depth.
const FIRST: usize = 5;

/// Each step emits as many tokens as the tree is deep, and one.
#[test]
fn every_draft_of_every_method_is_accepted() {
    let decoder = planted::repeating(SHAPE, TOKEN);
    for method in methods() {
        // Token recycling has fewer nodes than a budget has where these emit more tokens in a time.
        let tree = trees(&method)
            .into_iter()
            .find(|tree| tree.max_depth() > 0 && !matches!(method, TrainingFree::Recycle(_) if tree.is_budget()));
        let tree = tree.unwrap();
        let ways = (tree.as_ref() as &dyn TreeBuilder, &Greedy as _);
        let mut drafter = method.drafter();
        let found = generate(&decoder, drafter.as_mut(), ways, (&[TOKEN; 4], NEW), &mut SeededRandom::new(0));
        assert!(found.ids.iter().all(|&token| token == TOKEN), "{method}: {:?}", found.ids);
        let (depth, later) = (tree.max_depth(), found.accepted.get(FIRST..).unwrap_or_default());
        assert!(depth > 0 && later.len() > 1, "{method}: {:?}", found.accepted);
        assert!(later.iter().all(|&accepted| accepted == depth), "{method}, {depth} deep: {:?}", found.accepted);
    }
}
