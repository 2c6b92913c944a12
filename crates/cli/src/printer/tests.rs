//! Tests of `printer`.

use super::*;

#[test]
fn control_characters_are_not_shown() {
    assert_eq!(without_controls("a\u{1b}[2J\n\tb\r"), "a\u{fffd}[2J\n\tb\u{fffd}");
}

#[test]
fn sizes_read_well() {
    assert_eq!(bytes(999), "999 B");
    assert_eq!(bytes(1_234_567), "1.2 MB");
    assert_eq!(count(260_032), "260.0 K");
    assert_eq!(count(7_240_000_000), "7.24 B");
}
