//! Tests of `workspace`.

use super::*;

#[test]
fn a_small_one_is_kept_and_a_large_one_is_not() {
    let write = |size: usize| Workspace::lend(|space| part(&mut space.out, size).fill(1.0));
    let held = || Workspace::lend(|space| space.out.len());
    write(100);
    assert_eq!(held(), 100);
    // A pass within a pass has another one.
    Workspace::lend(|_| assert_eq!(held(), 0));
    write(KEPT + 1);
    assert_eq!(held(), 0);
}
