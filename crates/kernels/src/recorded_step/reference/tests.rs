//! Tests of `reference`.

use super::{accept, first_path};

#[test]
fn the_first_path_goes_on_at_first_children() {
    assert_eq!(first_path(&[0, 0, 0, 1, 1, 3, 2]), [1, 3, 5]);
    assert_eq!(first_path(&[0, 0, 0, 2]), [1]);
    assert!(first_path(&[0]).is_empty());
}

#[test]
fn the_deepest_path_of_argmaxes_is_accepted() {
    let parents = [0, 0, 0, 1, 2, 4];
    assert_eq!(accept(&parents, &[5, 1, 2, 8, 8, 9], &[7, 8, 8, 0, 9, 0]), [0]);
    assert_eq!(accept(&parents, &[5, 1, 2, 8, 8, 9], &[1, 8, 8, 0, 9, 0]), [0, 1, 3]);
    assert_eq!(accept(&parents, &[5, 2, 2, 8, 8, 9], &[2, 8, 8, 0, 9, 0]), [0, 2, 4, 5]);
}
