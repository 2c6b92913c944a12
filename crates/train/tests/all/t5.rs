//! A T5 with gradients against the frozen model, and a fitting of a few steps.

use burn::tensor::Tensor;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::random::{T5Shape, write_description};
use gorgon_model::target::{DecoderTarget, read};
use gorgon_train::t5::{T5, T5Fitting, Task, write_weights};
use gorgon_train::trainer::Objective;
use std::sync::Arc;

const SHAPE: T5Shape = T5Shape {
    hidden_size: 16,
    intermediate_size: 24,
    encoder_layers: 2,
    layers: 2,
    heads: 2,
    head_dim: 12,
    vocab_size: 258,
    gated: true,
};

fn network(shape: T5Shape) -> T5 {
    let config = ModelConfig::from_json(&shape.config()).unwrap();
    T5::new(config, Compute::cpu(FloatFormat::F32).device().clone()).unwrap()
}

/// States of both networks, on sources beyond the distances that have a term of their own.
#[test]
fn states_are_those_of_the_frozen_model() {
    for gated in [true, false] {
        let shape = T5Shape { gated, ..SHAPE };
        let network = network(shape);
        let parameters = network.parameters(5);
        let dir = tempfile::tempdir().unwrap();
        write_description(&shape.config(), dir.path()).unwrap();
        write_weights(dir.path(), &parameters).unwrap();
        let decoder = Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap();
        let mut target = DecoderTarget::new(Arc::new(decoder), 400, Hooks::none());
        let text = |length: u32, by: u32| (0..length).map(|i| (i * by + 3) % 258).collect::<Vec<u32>>();
        let (sources, inputs) = ([text(150, 7), text(150, 11)], [text(130, 13), text(130, 29)]);
        let leaves: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone().autodiff()).collect();
        let found = read(network.hidden(&leaves, &sources, &inputs).inner());
        let scale = network.config().head_scale;
        for (number, (source, input)) in sources.iter().zip(&inputs).enumerate() {
            let output = target.prefill_behind(source.len(), &[source.as_slice(), input.as_slice()].concat()).unwrap();
            let want = read(output.hidden.tensor());
            let own = &found[number * want.len()..][..want.len()];
            let worst = own.iter().zip(&want).map(|(a, b)| (a - b * scale).abs()).fold(0.0, f32::max);
            assert!(worst < 2e-4, "gated {gated}, text {number}: {worst:e}");
        }
    }
}

/// The loss along a direction changes as its gradient says.
#[test]
fn gradients_are_slopes() {
    for gated in [true, false] {
        let network = network(T5Shape { gated, ..SHAPE });
        let task = Task { seed: 1, shortest: 6, longest: 6 };
        let objective = T5Fitting { network, task, pairs: 4, tokens: [256, 257] };
        let batch = objective.batches(0).unwrap().remove(0);
        let totals = objective.weights(&batch);
        let weights: Vec<Tensor<1>> = objective.parameters(3).iter().map(|p| p.value.clone()).collect();
        let of = |weights: &[Tensor<1>]| objective.gradients(weights, &batch, &totals).unwrap();
        let gradients = of(&weights).gradients;
        for (place, gradient) in gradients.iter().enumerate() {
            let slope = f64::from(read(gradient.clone().powi_scalar(2).sum())[0]).sqrt();
            let step = 2e-3 / slope.max(1e-3);
            let moved = |by: f64| {
                let mut moved = weights.clone();
                moved[place] = weights[place].clone() + gradient.clone() * (by / slope.max(1e-12));
                of(&moved).loss
            };
            let found = (moved(step) - moved(-step)) / (2.0 * step);
            assert!((found - slope).abs() < 0.02 * slope + 2e-3, "gated {gated}, {place}: {found} against {slope}");
        }
    }
}
