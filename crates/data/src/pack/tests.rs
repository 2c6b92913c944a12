//! Tests of `pack`.

use super::*;

fn packing() -> Packing {
    Packing::new((0..100).map(|i| 5 + i * 7 % 40).collect(), 64, 3, 9)
}

#[test]
fn an_epoch_has_every_example_and_no_batch_beyond_its_budget() {
    let packing = packing();
    let mut seen: Vec<usize> = (0..packing.steps_per_epoch()).flat_map(|step| packing.step(step)).flatten().collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    let batches = (0..40).flat_map(|step| packing.step(step));
    batches.for_each(|batch| assert!(batch.iter().map(|&i| packing.lengths[i]).sum::<usize>() <= 64));
}

#[test]
fn halves_are_about_even_and_in_order() {
    let packing = Packing::new(vec![9, 1, 1, 1, 5, 7], 64, 1, 0);
    assert_eq!(packing.halves(&[1, 2, 3, 0]), Some((vec![1, 2, 3], vec![0])));
    assert_eq!(packing.halves(&[0, 1, 2, 4, 3]), Some((vec![0], vec![1, 2, 4, 3])));
    assert_eq!(packing.halves(&[4, 5]), Some((vec![4], vec![5])));
    assert_eq!((packing.halves(&[4]), packing.halves(&[])), (None, None));
}

#[test]
fn a_step_is_the_same_in_any_order() {
    let forwards: Vec<_> = (0..60).map(|step| packing().step(step)).collect();
    let one = packing();
    for step in (0..60).rev() {
        assert_eq!(one.step(step), forwards[step as usize]);
    }
    assert_ne!(forwards[0], forwards[one.steps_per_epoch() as usize]);
    assert_eq!(forwards[0].len(), 3);
}
