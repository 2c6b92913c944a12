//! Tests of `slots`.

use super::*;

#[test]
fn a_second_turn_gets_the_slot_of_the_first() {
    let mut slots = Slots::new(3, 1000);
    let first = slots.take(&[1, 2, 3], 10).unwrap();
    let other = slots.take(&[7, 8, 9], 10).unwrap();
    assert!((first, other, slots.busy()) == (0, 1, 2));
    slots.release(other, vec![7, 8, 9, 10]);
    slots.release(first, vec![1, 2, 3, 4, 5]);
    assert_eq!(slots.take(&[7, 8, 9, 10, 11], 20), Some(other));
    assert_eq!(slots.take(&[1, 2, 3, 4, 5, 6], 20), Some(first));
}

#[test]
fn a_text_of_which_little_is_shared_is_kept_while_there_is_an_empty_slot() {
    let mut slots = Slots::new(2, 1000);
    let first = slots.take(&[1, 2, 3], 10).unwrap();
    slots.release(first, vec![1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(slots.take(&[1, 2, 9], 10), Some(1));
    slots.release(1, vec![1, 2, 9]);
    // No empty one is left: the one that was used longest ago is given up.
    assert_eq!(slots.take(&[5], 10), Some(first));
}

#[test]
fn memory_is_freed_of_what_was_used_longest_ago() {
    let mut slots = Slots::new(4, 100);
    for (at, token) in [1, 2, 3].into_iter().enumerate() {
        assert_eq!(slots.take(&[token], 30), Some(at));
        slots.release(at, vec![token; 30]);
    }
    assert_eq!((slots.kept(), slots.rows_used()), (3, 90));
    assert_eq!(slots.take(&[4], 60), Some(3));
    assert_eq!([0, 1, 2].map(|at| slots.forgets(at)), [true, true, false]);
    assert!(!slots.forgets(0), "asked once");
    assert_eq!(slots.rows_used(), 90);
    assert_eq!(slots.take(&[5], 41), None, "busy ones are never given up");
    assert_eq!(slots.take(&[5], 40), Some(0));
    assert!(slots.forgets(2));
}

/// Free slots begin anew at once, busy ones when they are free.
#[test]
fn outdated_slots_begin_anew() {
    let mut slots = Slots::new(3, 100);
    assert_eq!((slots.take(&[1], 10), slots.take(&[2], 10)), (Some(0), Some(1)));
    slots.release(0, vec![1, 3]);
    slots.outdate();
    assert_eq!([0, 1, 2].map(|at| slots.forgets(at)), [true, false, true]);
    assert_eq!(slots.kept(), 1);
    slots.release(1, vec![2, 4]);
    assert_eq!((slots.forgets(1), slots.kept(), slots.rows_used()), (true, 0, 0));
    assert_eq!(slots.take(&[2, 4, 5], 10), Some(0));
    slots.release(0, vec![2, 4, 5]);
    assert!(!slots.forgets(0), "it began anew once");
}

#[test]
fn there_is_no_slot_beyond_the_last() {
    let mut slots = Slots::new(1, 100);
    assert_eq!(slots.take(&[1], 10), Some(0));
    assert_eq!(slots.take(&[1], 10), None);
    slots.release(0, vec![]);
    assert_eq!(slots.take(&[1], 10), Some(0));
    slots.clear();
    assert_eq!((slots.busy(), slots.rows_used()), (0, 0));
}
