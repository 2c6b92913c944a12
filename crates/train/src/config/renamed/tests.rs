//! Tests of `renamed`.

use super::*;

#[test]
fn old_spellings_are_found_with_their_new_names() {
    let set = ["training.floor", "training.warmup", "start"];
    let found = renamed(|key| set.contains(&key));
    assert_eq!(found, [("start", "init_from"), ("training.floor", "training.min_lr_ratio")]);
}

#[test]
fn no_new_name_is_an_old_one() {
    assert!(RENAMED.iter().all(|(_, new)| RENAMED.iter().all(|(old, _)| old != new)));
}
