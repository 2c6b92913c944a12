//! Tests of `pooled_vec`.

use super::*;

fn kept() -> usize {
    u64::with_pool(|pool| pool.kept.len()).unwrap()
}

#[test]
fn memory_serves_again_on_the_same_thread() {
    let first: PooledVec<u64> = (0..1000).collect();
    let at = first.as_ptr();
    drop(first);
    let again = PooledVec::<u64>::of(7, 1000);
    assert_eq!((again.as_ptr(), again.len(), again[999]), (at, 1000, 7));
    assert_eq!(kept(), 0);
    drop(again);
    // Whatever was there, unless it has to grow.
    assert_eq!(PooledVec::<u64>::unset(1000)[999], 7);
    let (longer, again) = (PooledVec::<u64>::unset(5000), PooledVec::<u64>::new());
    assert_eq!(longer, [0; 5000]);
    assert_eq!((again.as_ptr(), again.len()), (at, 0));
    std::thread::spawn(move || drop(again)).join().unwrap();
    assert_eq!(kept(), 0);
    assert_eq!(longer.into_vec().len(), 5000);
    assert_eq!(kept(), 0);
}

#[test]
fn few_are_kept_and_no_large_ones() {
    let all: Vec<PooledVec<u64>> = (0..2 * KEPT).map(|_| PooledVec::of(0, 3)).collect();
    drop(all);
    assert_eq!(kept(), KEPT);
    u64::with_pool(|pool| *pool = Pool::new());
    drop(PooledVec::<u64>::of(0, LARGEST / 8 + 1));
    drop(PooledVec::<u64>::new());
    assert_eq!(kept(), 0);
    let all: Vec<PooledVec<u64>> = (0..4).map(|_| PooledVec::of(0, LARGEST / 8)).collect();
    drop(all);
    assert_eq!(kept(), ALL / LARGEST);
}

#[test]
fn larger_ones_take_the_place_of_smaller_ones() {
    let small: Vec<PooledVec<u64>> = (0..KEPT).map(|_| PooledVec::of(0, 3)).collect();
    drop(small);
    let large = PooledVec::<u64>::of(0, 1000);
    let at = large.as_ptr();
    drop(large);
    assert_eq!((kept(), PooledVec::<u64>::of(0, 1000).as_ptr()), (KEPT, at));
    // One that is no larger than the smallest is dropped.
    let smaller = PooledVec::from(vec![0u64; 2]);
    drop(smaller);
    assert_eq!((kept(), PooledVec::<u64>::of(0, 1000).as_ptr()), (KEPT, at));
}

#[test]
fn copies_and_comparisons_are_a_vectors() {
    let numbers: PooledVec<u64> = vec![1, 2, 3].into();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(numbers.clone(), numbers);
    assert_ne!(numbers, vec![1, 2]);
    assert_eq!(format!("{numbers:?}"), "[1, 2, 3]");
}
