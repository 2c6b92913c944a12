//! One step of an objective, and whether its gradients are slopes.

use burn::tensor::{Device, Tensor};
use gorgon_model::target::read;
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::Objective;

/// The loss of a step under given parameters, and its gradients.
pub fn step<O: Objective>(objective: &O, parameters: &[Parameter]) -> (f64, Vec<Vec<f32>>) {
    let batches = objective.batches(0).unwrap();
    let mut totals: Vec<f64> = vec![];
    for batch in &batches {
        let weights = objective.weights(batch);
        totals.resize(weights.len(), 0.0);
        totals.iter_mut().zip(weights).for_each(|(total, weight)| *total += weight);
    }
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let (mut loss, mut sums) = (0.0, vec![]);
    for batch in &batches {
        let part = objective.gradients(&weights, batch, &totals).unwrap();
        loss += part.loss;
        let values: Vec<Vec<f32>> = part.gradients.into_iter().map(read).collect();
        sums = match sums.is_empty() {
            true => values,
            false => sums.iter().zip(&values).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect(),
        };
    }
    (loss, sums)
}

/// Along a direction of each parameter, the loss changes as its gradient says, within the relative and absolute
/// `tolerance`.
pub fn check_slopes<O: Objective>(objective: &O, parameters: &[Parameter], (relative, absolute): (f64, f64)) {
    let (_, gradients) = step(objective, parameters);
    for (i, parameter) in parameters.iter().enumerate() {
        let direction: Vec<f32> =
            (0..parameter.len()).map(|j| (((j + 3 * i) * 7919 % 101) as f32 / 50.0) - 1.0).collect();
        let expected: f64 = gradients[i].iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
        let moved = |by: f32| {
            let mut moved = parameters.to_vec();
            let values: Vec<f32> =
                read(parameter.value.clone()).iter().zip(&direction).map(|(v, d)| v + by * d).collect();
            moved[i] = Parameter::new(&parameter.name, &parameter.shape, parameter.role, values, &Device::flex());
            step(objective, &moved).0
        };
        let by = 2e-3;
        let slope = (moved(by) - moved(-by)) / f64::from(2.0 * by);
        let within = relative * (absolute + slope.abs());
        assert!((slope - expected).abs() < within, "{}: {expected} {slope}", parameter.name);
    }
}
