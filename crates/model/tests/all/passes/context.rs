//! Room in a context, and caches that grow into it.

use crate::passes::targets::{PARENTS, random, same, tokens};
use gorgon_core::tree::TokenTree;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::CacheError;
use gorgon_model::error::ModelError;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::target::{DecoderTarget, Target};

/// As many tokens as the context has can be committed; rows of trees may reach beyond it.
#[test]
fn the_context_is_exact_and_trees_reach_beyond_it() {
    let decoder = random();
    for (asked, context) in [(1000, 64), (30, 30)] {
        let mut target = DecoderTarget::new(decoder.clone(), asked, Hooks::none());
        assert_eq!(target.context(), context);
        let ids = tokens(&decoder, context + 1, 1);
        let full = |error| matches!(error, ModelError::Cache(CacheError::Full { .. }));
        assert!(full(target.prefill(&ids).unwrap_err()) && target.is_empty());
        target.prefill(&ids[..context - 1]).unwrap();
        let tree = TokenTree::root(9);
        let mask = AttentionMask::in_tree(&PARENTS);
        let plan = PassPlan::of_tokens(&ids[..7], &mask);
        target.verify(&plan).unwrap();
        assert!(full(target.commit(&[0, 1]).unwrap_err()));
        target.commit(&[0]).unwrap();
        assert_eq!(target.len(), context);
        assert!(full(target.extend(&ids[..1]).unwrap_err()));
        target.verify_tree(&tree).unwrap();
        assert!(full(target.commit(&[0]).unwrap_err()));
        target.commit(&[]).unwrap();
        target.truncate(context - 1);
        target.extend(&ids[..1]).unwrap();
    }
}

/// A cache that grows from step to step holds what one with all memory from the start holds.
#[test]
fn growth_changes_nothing() {
    let decoder = random();
    let ids = tokens(&decoder, 60, 1);
    let mut reserved = DecoderTarget::new(decoder.clone(), 64, Hooks::none());
    reserved.reserve(60);
    let capacity = reserved.capacity();
    let want = reserved.prefill(&ids).unwrap().hidden;
    assert_eq!((capacity, reserved.capacity()), (64, 64));
    let mut grown = DecoderTarget::new(decoder, 64, Hooks::none());
    let mut steps = vec![];
    for id in ids {
        steps.push(grown.extend(&[id]).unwrap().hidden);
    }
    same("grown", &HiddenStates::concat(&steps), &want);
}
