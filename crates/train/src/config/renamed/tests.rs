//! Tests of `renamed`.

use super::*;

#[test]
fn old_spellings_are_found_with_their_new_names() {
    let set = ["training.floor", "training.warmup", "start"];
    let lines = renamed(|key| set.contains(&key));
    assert_eq!(lines, ["start was renamed to init_from", "training.floor was renamed to training.min_lr_ratio"]);
}

#[test]
fn no_new_name_is_an_old_one() {
    assert!(RENAMED.iter().all(|(_, new)| RENAMED.iter().all(|(old, _)| old != new)));
}
