//! Tests of `replay`.

use super::*;

#[test]
fn a_replay_advances_by_the_accepted_length() {
    // Three heads; position 0 gets two right, position 3 none, position 4 all three.
    let ranks = BTreeMap::from([
        (0, vec![0, 0, 5]),
        (1, vec![0, 0, 0]),
        (2, vec![0, 0, 0]),
        (3, vec![2, 0, 0]),
        (4, vec![0, 0, 0]),
    ]);
    let mut steps = Steps::default();
    steps.run(&ranks, |path| path.iter().all(|&rank| rank == 0));
    assert_eq!((steps.steps, steps.tokens), (3, 3 + 1 + 4));
    let mut wide = Steps::default();
    wide.run(&ranks, |path| path.iter().all(|&rank| rank < 3));
    assert_eq!((wide.steps, wide.tokens), (2, 3 + 4));
}

#[test]
fn the_published_tree_is_closed_under_prefixes() {
    let tree = published();
    assert_eq!(tree.len(), 63);
    assert!(tree.iter().all(|path| path.len() == 1 || tree.contains(&path[..path.len() - 1])));
}
