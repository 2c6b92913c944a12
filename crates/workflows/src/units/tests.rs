//! Tests of `units`.

use super::*;

#[test]
fn sizes_read_well() {
    assert_eq!(bytes(999), "999 B");
    assert_eq!(bytes(1_234_567), "1.2 MB");
    assert_eq!(count(260_032), "260.0 K");
    assert_eq!(count(7_240_000_000), "7.24 B");
}

#[test]
fn times_read_well() {
    assert_eq!(duration(99.4), "99 s");
    assert_eq!(duration(100.0), "2 min");
    assert_eq!(duration(7260.0), "2 h 1 min");
}

#[test]
fn one_thing_is_no_plural() {
    assert_eq!([0, 1, 2].map(|n| of(n, "prompt")), ["0 prompts", "1 prompt", "2 prompts"]);
}
