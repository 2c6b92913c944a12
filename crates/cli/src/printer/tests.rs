//! Tests of `printer`.

use super::*;

#[test]
fn control_characters_are_not_shown() {
    assert_eq!(without_controls("a\u{1b}[2J\n\tb\r\u{9b}\u{202e}"), "a\u{fffd}[2J\n\tb\u{fffd}\u{fffd}\u{fffd}");
}
