//! The draft layer with gradients: the network of [`super::EagleModel`], for fitting.

use super::config::EagleShape;
use crate::layer::{LayerNetwork, linear};
use burn::tensor::Tensor;
use std::ops::Range;

/// The draft layer, without its parameters.
#[derive(Clone, Debug)]
pub struct EagleNetwork {
    shape: EagleShape,
    layer: LayerNetwork,
}

impl EagleNetwork {
    /// A layer of these sizes for sequences of at most `longest` pairs.
    pub fn new(shape: EagleShape, longest: usize) -> Self {
        let layer = LayerNetwork::new(&shape.layer, longest);
        Self { shape, layer }
    }

    /// The sizes.
    pub fn shape(&self) -> &EagleShape {
        &self.shape
    }

    /// `f̂ = Layer(W [E(x); f] + b)` of packed sequences of pairs; one sequence sees nothing of another.
    ///
    /// # Shapes
    /// `weights` flat, as in [`EagleShape::parameters`]; `embedded` and `features` `[feature_tokens, d]`, result the same;
    /// `segments` are the pairs of each sequence, in order and without gaps.
    pub fn predict(
        &self,
        weights: &[Tensor<1>],
        embedded: Tensor<2>,
        features: Tensor<2>,
        segments: &[Range<usize>],
    ) -> Tensor<2> {
        let d = self.shape.layer.hidden_size;
        let joined = linear(&Tensor::cat(vec![embedded, features], 1), &weights[0], d, 2 * d);
        let (x, rest) = match self.shape.fc_bias {
            true => (joined + weights[1].clone().unsqueeze(), &weights[2..]),
            false => (joined, &weights[1..]),
        };
        // No norm in front of the attention: the reference's layer has none.
        self.layer.without_input_norm(rest, x.clone(), x, segments)
    }
}
