//! Tests of `printer`.

use super::*;

#[test]
fn control_characters_are_not_shown() {
    assert_eq!(without_controls("a\u{1b}[2J\n\tb\r"), "a\u{fffd}[2J\n\tb\u{fffd}");
}
