//! Tests of `early_exit`: its settings. Drafts and verification need a model: `infer/tests/all/training_free`.

use super::*;

#[test]
fn settings_are_checked() {
    assert_eq!(EarlyExit::parse("4"), Ok(EarlyExit { layers: 4 }));
    for wrong in ["", "0", "-1", "x"] {
        assert!(EarlyExit::parse(wrong).unwrap_err().starts_with(&format!("early-exit:{wrong}: ")));
    }
}

#[test]
fn without_a_target_it_says_so() {
    let chain = ChainTree::new(2).unwrap();
    let error = EarlyExitDrafter::new(2).propose(1, &chain).unwrap_err().to_string();
    assert!(error.starts_with("early-exit:2 runs layers of the target itself"), "{error}");
}
