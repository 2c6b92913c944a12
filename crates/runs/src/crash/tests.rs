//! Tests of `crash`.

use super::*;

#[test]
fn points_are_named() {
    assert_eq!(parse("before-rename:3"), Some((Point::BeforeRename, 3)));
    for wrong in ["", "before-rename", "before-rename:", "before-rename:x", "elsewhere:1"] {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
}
