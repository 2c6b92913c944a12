//! Tests of `walk`.

use super::*;

#[test]
fn longest_prefers_length_then_score_then_order() {
    assert_eq!(longest([(1, 0.0), (2, -9.0), (2, -3.0), (2, -3.0)]), 2);
    assert_eq!(longest([(0, 0.0), (0, 0.0)]), 0);
    assert_eq!(longest([(1, f64::NAN), (1, -1.0)]), 0);
    assert_eq!(longest([]), 0);
}

#[test]
fn nothing_below_a_rejected_node_is_asked_about() {
    let tree = TokenTree::from_parts(vec![9, 1, 2, 1, 1], vec![0, 0, 0, 2, 1]).unwrap();
    let mut asked = Vec::new();
    let path = longest_accepted(&tree, |node| {
        asked.push(node);
        Ok(|token| (token == 1).then_some(0.0))
    });
    assert_eq!(path.unwrap(), [0, 1, 4]);
    assert_eq!(asked, [0, 1]);
}
