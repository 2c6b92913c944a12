//! Tests of `crash`.

use super::*;

#[test]
fn points_are_named() {
    assert_eq!(parse("before-rename:3"), Some((Point::BeforeRename, 3, false)));
    assert_eq!(parse("after-write:1:panic"), Some((Point::AfterWrite, 1, true)));
    for wrong in ["", "before-rename", "before-rename:", "before-rename:x", "elsewhere:1", "after-write:1:x"] {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
}
