//! Tests of the step on the CPU, and numbers for those on a device.

use super::launch::composed;
use super::{AdamWStep, reference, update};
use crate::host;
use burn::tensor::Tensor;

pub(super) const STEP: AdamWStep =
    AdamWStep { betas: (0.9, 0.99), corrections: (1.1, 1.2), epsilon: 1e-8, rate: 0.01, keep: 0.999 };

/// Weights, first and second moments, and gradients; the first gradients are 0, as of tokens that no label names.
pub(super) fn numbers(n: usize) -> [Vec<f32>; 4] {
    let some = |salt: usize| (0..n).map(move |i| ((i * 31 + salt * 17) % 101) as f32 / 50.0 - 1.0);
    let second = some(3).map(|x| x * x * 1e-3).collect();
    let gradients = some(4).enumerate().map(|(i, x)| if i < 3 { 0.0 } else { x }).collect();
    [some(1).collect(), some(2).map(|x| x * 0.1).collect(), second, gradients]
}

/// Asserts that values are the definition's, some roundings in `f32` away from it. An error of the first moment counts
/// in weights as often as that is divided by the root of the second.
pub(super) fn check(step: &AdamWStep, old: &[Vec<f32>; 4], new: &[Vec<f32>; 3]) {
    let [w, m, v, g] = old;
    for i in 0..g.len() {
        let want = reference::update(step, [w[i], m[i], v[i]].map(f64::from), f64::from(g[i]));
        let root = (want[2] * f64::from(step.corrections.1)).sqrt() + f64::from(step.epsilon);
        let divided = f64::from(step.rate * step.corrections.0) / root;
        let bounds = [1e-6 * (1.0 + want[0].abs()) + 6e-8 * divided, 6e-8, 6e-9];
        for ((new, want), bound) in new.iter().zip(want).zip(bounds) {
            assert!((f64::from(new[i]) - want).abs() <= bound, "{i}: {} and not {want}", new[i]);
        }
    }
}

fn values(tensor: Tensor<1>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

#[test]
fn the_cpu_and_operations_of_burn_follow_the_definition() {
    let old = numbers(1000);
    let tensors = || [0, 1, 2].map(|i: usize| host::tensor(old[i].clone(), [1000]));
    let g = host::tensor(old[3].clone(), [1000]);
    check(&STEP, &old, &update(&STEP, tensors(), &g).map(values));
    check(&STEP, &old, &composed(&STEP, tensors(), &g).map(values));
}
