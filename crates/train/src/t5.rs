//! A T5 that can be fitted: the same network as the frozen model's, with gradients.

mod objective;
mod task;

pub use self::objective::T5Fitting;
pub use self::task::{Pair, Task};

use crate::checkpoint::values;
use crate::error::{TrainError, io};
use crate::parameters::{Parameter, Role};
use burn::tensor::activation::{gelu_approximate, relu, softmax};
use burn::tensor::{Device, Int, Tensor, TensorData};
use gorgon_core::accept::random::SeededRandom;
use gorgon_kernels::norm::rms_norm_tracked;
use gorgon_model::config::ModelConfig;
use gorgon_model::layout::{self, LayerNames};
use gorgon_runs::tensors::{self, Source, write_f32};
use safetensors::Dtype;
use std::collections::HashMap;
use std::path::Path;

/// A score that no softmax gives weight to.
const UNSEEN: f32 = -1e9;

/// The network, without its parameters.
#[derive(Clone, Debug)]
pub struct T5 {
    config: ModelConfig,
    /// Places of the parameters by name.
    places: HashMap<String, usize>,
    shapes: Vec<layout::TensorSpec>,
    device: Device,
}

/// The parameters of one pass.
struct Weights<'a> {
    network: &'a T5,
    values: &'a [Tensor<1>],
}

/// Sequences of one length side by side.
#[derive(Clone, Copy)]
struct Rows {
    batch: usize,
    length: usize,
}

impl T5 {
    /// The network of a config.
    ///
    /// # Errors
    /// When the config is none of a T5.
    pub fn new(config: ModelConfig, device: Device) -> Result<Self, TrainError> {
        if config.encoder.is_none() {
            return Err(TrainError::Data("the model has no encoder".into()));
        }
        let shapes = layout::tensors(&config);
        let places = shapes.iter().enumerate().map(|(place, spec)| (spec.name.clone(), place)).collect();
        Ok(Self { config, places, shapes, device })
    }

    /// The config.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The place of the matrix `[V, d]` whose rows score tokens.
    pub fn lm_head(&self) -> usize {
        let name = if self.config.tied_embeddings { layout::embedding(&self.config) } else { layout::LM_HEAD };
        self.places.get(name).copied().unwrap_or(0)
    }

    /// Initial parameters: normal values, whose deviations keep scores and states of order one without a factor on
    /// scores (Raffel et al. 2020, as in their code).
    pub fn parameters(&self, seed: u64) -> Vec<Parameter> {
        let random = &mut SeededRandom::new(seed);
        let c = &self.config;
        let inner = c.heads * c.head_dim;
        let made = |spec: &layout::TensorSpec| {
            let name = spec.name.as_str();
            let &[height, width] = spec.shape.as_slice() else {
                let ones = vec![1.0; spec.shape.iter().product()];
                return Parameter::new(name, &spec.shape, Role::Vector, ones, &self.device);
            };
            let power = |n: usize| 1.0 / (n as f64).sqrt();
            let (deviation, role) = if name == layout::embedding(c) {
                (1.0, Role::Table)
            } else if name == layout::LM_HEAD || name.ends_with("relative_attention_bias.weight") {
                (power(c.hidden_size), Role::Table)
            } else if name.ends_with("Attention.q.weight") {
                (power(c.hidden_size * c.head_dim), Role::Matrix)
            } else if name.ends_with("Attention.o.weight") {
                (power(inner), Role::Matrix)
            } else {
                (power(width), Role::Matrix)
            };
            Parameter::normal(name, [height, width], role, deviation, random, &self.device)
        };
        self.shapes.iter().map(made).collect()
    }

    /// The states that the LM head reads, at every token of the decoder.
    ///
    /// # Shapes
    /// `weights` as in [`Self::parameters`], flat; all sources of one length, all decoder inputs of one length; result
    /// `[texts · length, d]`.
    pub fn hidden(&self, weights: &[Tensor<1>], sources: &[Vec<u32>], inputs: &[Vec<u32>]) -> Tensor<2> {
        let weights = Weights { network: self, values: weights };
        let encoder_layers = self.config.encoder.map_or(0, |encoder| encoder.layers);
        let (mut states, source) = weights.embedded(sources);
        let bias = weights.bias(&LayerNames::of_encoder(&self.config, 0), source.length, false);
        for layer in 0..encoder_layers {
            states = weights.layer(states, &LayerNames::of_encoder(&self.config, layer), source, &bias, None);
        }
        let states = weights.norm(states, layout::ENCODER_NORM);
        let (mut x, rows) = weights.embedded(inputs);
        let bias = weights.bias(&LayerNames::new(&self.config, 0), rows.length, true);
        for layer in 0..self.config.layers {
            let names = LayerNames::new(&self.config, layer);
            x = weights.layer(x, &names, rows, &bias, Some((&states, source)));
        }
        weights.norm(x, layout::final_norm(&self.config)) * self.config.head_scale
    }
}

impl Weights<'_> {
    fn get(&self, name: &str) -> (&Tensor<1>, &[usize]) {
        // Names and places come from one list.
        let place = self.network.places.get(name).copied().unwrap_or(0);
        (&self.values[place], &self.network.shapes[place].shape)
    }

    fn matrix(&self, name: &str) -> Tensor<2> {
        let (value, shape) = self.get(name);
        value.clone().reshape([shape[0], shape[1]])
    }

    fn linear(&self, x: &Tensor<2>, name: &str) -> Tensor<2> {
        x.clone().matmul(self.matrix(&format!("{name}.weight")).transpose())
    }

    fn norm(&self, x: Tensor<2>, name: &str) -> Tensor<2> {
        rms_norm_tracked(x, self.get(name).0, self.network.config.norm_eps)
    }

    fn embedded(&self, texts: &[Vec<u32>]) -> (Tensor<2>, Rows) {
        let rows = Rows { batch: texts.len(), length: texts.first().map_or(0, Vec::len) };
        let ids: Vec<i32> = texts.iter().flat_map(|text| text.iter().map(|&token| token as i32)).collect();
        let size = ids.len();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [size]), &self.network.device);
        (self.matrix(layout::embedding(&self.network.config)).select(0, ids), rows)
    }

    /// Terms of scores by distance, and the decoder's mask.
    ///
    /// # Shapes
    /// `[1, heads, length, length]`.
    fn bias(&self, names: &LayerNames, length: usize, is_causal: bool) -> Tensor<4> {
        let config = &self.network.config;
        let (Some(name), Some(encoder)) = (&names.position_bias, &config.encoder) else {
            return Tensor::zeros([1, config.heads, length, length], &self.network.device);
        };
        let pairs = || (0..length).flat_map(|query| (0..length).map(move |key| (query, key)));
        let distance = |(query, key): (usize, usize)| query as isize - key as isize;
        let index: Vec<i32> = pairs().map(|pair| encoder.buckets.index(distance(pair), is_causal) as i32).collect();
        let index = Tensor::<1, Int>::from_data(TensorData::new(index, [length * length]), &self.network.device);
        let terms = self.matrix(name).select(0, index).reshape([1, length, length, config.heads]);
        let terms = terms.swap_dims(2, 3).swap_dims(1, 2);
        if !is_causal {
            return terms;
        }
        let unseen: Vec<f32> = pairs().map(|(query, key)| if key > query { UNSEEN } else { 0.0 }).collect();
        let mask = Tensor::<1>::from_data(TensorData::new(unseen, [length * length]), &self.network.device);
        terms + mask.reshape([1, 1, length, length]).autodiff()
    }

    /// One layer of the encoder, or of the decoder, which reads the encoder's states.
    fn layer(
        &self,
        x: Tensor<2>,
        names: &LayerNames,
        rows: Rows,
        bias: &Tensor<4>,
        source: Option<(&Tensor<2>, Rows)>,
    ) -> Tensor<2> {
        let normed = self.norm(x.clone(), &names.input_norm);
        let [q, k, v] = [0, 1, 2].map(|i| self.linear(&normed, &names.qkv[i]));
        let mixed = self.attend((q, rows), (k, v, rows), Some(bias));
        let mut x = x + self.linear(&mixed, &names.o);
        if let (Some(cross), Some((states, source))) = (&names.cross, source) {
            let q = self.linear(&self.norm(x.clone(), &cross.norm), &cross.q);
            let [k, v] = [0, 1].map(|i| self.linear(states, &cross.kv[i]));
            x = x + self.linear(&self.attend((q, rows), (k, v, source), None), &cross.o);
        }
        let normed = self.norm(x.clone(), &names.pre_mlp_norm);
        let mlp = &names.mlps[0];
        let up = self.linear(&normed, &mlp.gate_up[0]);
        let inner = match mlp.gate_up.get(1) {
            Some(gated) => gelu_approximate(up) * self.linear(&normed, gated),
            None => relu(up),
        };
        x + self.linear(&inner, &mlp.down)
    }

    /// Attention without a factor on scores.
    ///
    /// # Shapes
    /// `q [texts · length, heads · head_dim]`, result the same.
    fn attend(
        &self,
        (q, rows): (Tensor<2>, Rows),
        (k, v, over): (Tensor<2>, Tensor<2>, Rows),
        bias: Option<&Tensor<4>>,
    ) -> Tensor<2> {
        let (heads, d) = (self.network.config.heads, self.network.config.head_dim);
        let split = |x: Tensor<2>, rows: Rows| x.reshape([rows.batch, rows.length, heads, d]).swap_dims(1, 2);
        let scores = split(q, rows).matmul(split(k, over).swap_dims(2, 3));
        let scores = match bias {
            Some(bias) => scores + bias.clone(),
            None => scores,
        };
        let mixed = softmax(scores, 3).matmul(split(v, over));
        mixed.swap_dims(1, 2).reshape([rows.batch * rows.length, heads * d])
    }
}

/// Writes the weights in `f32`. Config and tokenizer are the caller's.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_weights(dir: &Path, parameters: &[Parameter]) -> Result<(), TrainError> {
    let source = |parameter: &Parameter| {
        let values = values(&parameter.value);
        let fill = Box::new(move |file: &mut dyn std::io::Write| write_f32(file, &values));
        Source { name: parameter.name.clone(), dtype: Dtype::F32, shape: parameter.shape.clone(), fill }
    };
    let sources: Vec<Source<'_>> = parameters.iter().map(source).collect();
    let path = dir.join("model.safetensors");
    tensors::write(&path, &sources).map_err(io(&path))
}
