//! Tests of `drafts`.

use super::*;

#[test]
fn trees_are_cut_to_the_heads_there_are() {
    let shape = TreeShape::from_json("[[0], [1], [0, 0], [0, 2], [0, 0, 1]]").unwrap();
    assert_eq!(cut(&shape, 9), (vec![0, 0, 0, 1, 1, 3], vec![0, 0, 1, 0, 2, 1]));
    assert_eq!(cut(&shape, 1), (vec![0, 0, 0], vec![0, 0, 1]));
    assert_eq!(cut(&shape, 0), (vec![0], vec![0]));
    assert_eq!(paths(&[0, 0, 1]), [vec![0], vec![0, 1], vec![0, 1, 2]]);
}
