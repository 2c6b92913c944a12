//! The step on a GPU against the definition.

use super::tests::{STEP, check, numbers};
use super::update;
use crate::device::tests::{device, flat, values_of};
use burn::tensor::Tensor;

#[test]
fn one_launch_follows_the_definition() {
    let Some(device) = device() else { return };
    for n in [1, 1023, 5000] {
        let old = numbers(n);
        let tensor = |i: usize| flat(old[i].clone(), [n], &device);
        let step = || update(&STEP, [0, 1, 2].map(tensor), &tensor(3)).map(values_of);
        let new = step();
        check(&STEP, &old, &new);
        assert_eq!(step(), new, "a step that is done again has the same bits");
    }
}

/// Weights that something else refers to keep their values.
#[test]
fn what_others_see_is_not_overwritten() {
    let Some(device) = device() else { return };
    let old = numbers(300);
    let tensors: [Tensor<1>; 4] = [0, 1, 2, 3].map(|i: usize| flat(old[i].clone(), [300], &device));
    let [w, m, v, g] = tensors.clone();
    let new = update(&STEP, [w, m, v], &g).map(values_of);
    check(&STEP, &old, &new);
    tensors.into_iter().zip(&old).for_each(|(tensor, old)| assert_eq!(values_of(tensor), *old));
}
