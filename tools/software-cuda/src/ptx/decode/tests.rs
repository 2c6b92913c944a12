//! Tests of `decode`.

use super::*;

#[test]
fn constants_are_integers_or_bits_of_floats() {
    assert_eq!(constant("0f3F800000"), Some(0x3f80_0000));
    assert_eq!(constant("-2"), Some(u64::MAX - 1));
    assert_eq!((constant("0x10"), constant("18446744073709551615")), (Some(16), Some(u64::MAX)));
    assert_eq!((constant("0f3F8"), constant("%r1")), (None, None));
}

#[test]
fn operands_are_split_outside_brackets() {
    assert_eq!(split("{%r1, %r2}, [%rd1+4], %r3|%p"), ["{%r1, %r2}", "[%rd1+4]", "%r3|%p"]);
    assert_eq!(together::shape(Name(&["mma", "sync", "m16n8k16"])), Some([16, 8, 16]));
}
