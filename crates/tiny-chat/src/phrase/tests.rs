//! Tests of `phrase`.

use super::*;

#[test]
fn phrases_read_as_english() {
    assert_eq!(fill("{a} and {b}", &[("a", "x"), ("b", "y")]), "x and y");
    assert_eq!(sentences("it is 4.5. the end! yes"), "It is 4.5. The end! Yes");
    assert_eq!(with_article("owl"), "an owl");
    assert_eq!(and_list(&["a", "b", "c"]), "a, b and c");
}
