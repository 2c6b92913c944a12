//! Tests of `lookahead`.

use super::*;
use crate::jacobi::JacobiDrafter;
use crate::toy::{Toy, choose};

fn settings(columns: usize, n: usize, guesses: usize, window: bool) -> Lookahead {
    Lookahead { columns, n, guesses, window }
}

#[test]
fn greedy_text_is_plain_text() {
    for (columns, n, guesses) in [(1, 2, 0), (1, 3, 2), (4, 3, 3), (5, 5, 4), (7, 4, 1)] {
        for window in [false, true] {
            let drafter = LookaheadDrafter::new(settings(columns, n, guesses, window));
            let mut toy = Toy::new(drafter, &[7, 7, 2, 9]);
            let mut plain = toy.text.clone();
            for _ in 0..60 {
                toy.step().emitted.iter().for_each(|_| plain.push(choose(&plain)));
                assert_eq!(toy.text, plain, "{columns},{n},{guesses} {window}");
                assert!(toy.most_nodes <= settings(columns, n, guesses, window).rows());
            }
        }
    }
}

/// With two levels' worth of nothing but the last guess, and its rows as drafts, this is Jacobi decoding.
#[test]
fn without_memory_it_is_jacobi_decoding() {
    for m in [1, 3, 8] {
        let mut lookahead = Toy::new(LookaheadDrafter::new(settings(m + 1, 2, 0, true)), &[7, 7, 2, 9]);
        let mut jacobi = Toy::new(JacobiDrafter::new(m), &[7, 7, 2, 9]);
        for _ in 0..50 {
            let (one, other) = (lookahead.step(), jacobi.step());
            assert_eq!(one.draft.tree().tokens(), other.draft.tree().tokens());
            assert_eq!(one.emitted, other.emitted);
        }
    }
}

#[test]
fn one_column_without_guesses_is_plain_decoding() {
    let mut toy = Toy::new(LookaheadDrafter::new(settings(1, 3, 0, false)), &[5, 6]);
    for _ in 0..20 {
        let step = toy.step();
        assert_eq!((step.emitted.len(), step.accepted), (1, 0));
    }
}

/// Every tuple of the pool is what the target says behind its key along the tuple's own tokens, as far as the window's
/// row saw the same text.
#[test]
fn pools_keep_the_newest_tuples_of_a_key() {
    let mut pool = Pool::new(2);
    pool.insert(1, vec![2, 3]);
    pool.insert(1, vec![4, 5]);
    pool.insert(1, vec![2, 3]);
    assert_eq!(pool.guesses(1), [vec![4, 5], vec![2, 3]]);
    pool.insert(1, vec![6, 7]);
    assert_eq!(pool.guesses(1), [vec![2, 3], vec![6, 7]]);
    assert!(pool.guesses(2).is_empty());
    for tuple in [[2, 3], [9, 9]] {
        pool.remove(1, &tuple);
        pool.remove(2, &tuple);
    }
    assert_eq!(pool.guesses(1), [vec![6, 7]]);
}

#[test]
fn a_pool_outlives_a_text_where_it_is_kept() {
    for (mut drafter, kept) in [
        (LookaheadDrafter::new(settings(4, 3, 3, false)), 0),
        (LookaheadDrafter::keeping_pool(settings(4, 3, 3, false)), 1),
    ] {
        drafter.insert(5, vec![1, 2]);
        drafter.reset();
        assert_eq!(drafter.guesses(5).len(), kept);
    }
}

#[test]
fn settings_are_checked() {
    assert_eq!(Lookahead::parse("7,5,7"), Ok(settings(7, 5, 7, false)));
    assert_eq!(Lookahead::parse("7, 5, 7,window"), Ok(settings(7, 5, 7, true)));
    assert_eq!(settings(7, 5, 7, true).name(), "lookahead:7,5,7,window");
    for wrong in ["", "7", "7,5", "0,5,1", "7,1,1", "7,5,7,8", "a,b,c", "100000,100000,1", "9999999999999999999,2,3"] {
        assert!(Lookahead::parse(wrong).unwrap_err().starts_with(&format!("lookahead:{wrong}: ")), "{wrong}");
    }
}

#[test]
fn other_trees_are_refused_by_name() {
    let lookahead = settings(4, 3, 3, false);
    let wrong = lookahead.check_tree(&TreeKind::Chain(4)).unwrap_err();
    assert!(wrong.contains("lookahead:4,3,3") && wrong.contains("own:"), "{wrong}");
    let small = OwnTree::new(3, 2).unwrap();
    assert!(lookahead.check_tree(&TreeKind::Own(small)).is_err());
}
