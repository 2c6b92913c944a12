//! A Llama that can be fitted: the same network as the frozen decoder's, with gradients.

use crate::error::TrainError;
use crate::parameters::{Parameter, Role, from_values};
use burn::tensor::{Device, Int, Tensor, TensorData};
use gorgon_core::accept::random::SeededRandom;
use gorgon_kernels::Table;
use gorgon_kernels::activation::{Activation, silu_gate_tracked};
use gorgon_kernels::norm::rms_norm_tracked;
use gorgon_kernels::segment_attention::{Segments, segment_attention};
use gorgon_model::config::{Architecture, ModelConfig};
use gorgon_model::random::LlamaShape;
use gorgon_model::rope::RopeTable;
use gorgon_model::weights::Checkpoint;
use std::ops::Range;
use std::sync::Arc;

/// Base of the rotary angles.
pub const ROPE_THETA: f64 = 10_000.0;
/// Epsilon of the norms.
pub const NORM_EPS: f32 = 1e-5;

/// Packed dialogues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packed {
    /// Token ids of all dialogues, one after another.
    pub tokens: Vec<u32>,
    /// Where each dialogue lies.
    pub segments: Vec<Range<usize>>,
}

/// The network, without its parameters.
#[derive(Clone, Debug)]
pub struct Llama {
    shape: LlamaShape,
    angles: Arc<(Vec<f32>, Vec<f32>)>,
    norm_eps: f32,
    /// Whether the LM head is the embedding table; otherwise it is the last parameter.
    tied: bool,
    device: Device,
}

/// Parameters of one layer, in the order of [`Llama::parameters`].
const PER_LAYER: usize = 9;

impl Llama {
    /// A Llama with tied embeddings.
    pub fn new(shape: LlamaShape, device: Device) -> Self {
        let angles = Segments::angles(shape.max_positions, shape.hidden_size / shape.heads, ROPE_THETA);
        Self { shape, angles, norm_eps: NORM_EPS, tied: true, device }
    }

    /// The network of a checkpoint, for sequences of at most `longest` tokens.
    ///
    /// # Errors
    /// A part of the checkpoint that this network does not have.
    pub fn of(config: &ModelConfig, longest: usize, device: Device) -> Result<Self, String> {
        let c = config;
        let foreign = [
            ("another architecture than Llama", c.architecture != Architecture::Llama),
            ("biases", c.qkv_bias || c.o_bias || c.mlp_bias),
            ("heads that do not make up the hidden size", c.heads * c.head_dim != c.hidden_size),
            ("another activation than SiLU", c.activation != Activation::Silu),
            ("partly rotated heads", c.rope.rotary_dim != c.head_dim),
        ];
        if let Some((what, _)) = foreign.iter().find(|(_, is)| *is) {
            return Err(format!("it has {what}, which cannot be fitted"));
        }
        let shape = LlamaShape {
            hidden_size: c.hidden_size,
            intermediate_size: c.intermediate_size,
            layers: c.layers,
            heads: c.heads,
            kv_heads: c.kv_heads,
            vocab_size: c.vocab_size,
            max_positions: c.max_positions,
        };
        let angles = Arc::new(RopeTable::new(&c.rope).values(longest));
        Ok(Self { shape, angles, norm_eps: c.norm_eps, tied: c.tied_embeddings, device })
    }

    /// The parameters of a checkpoint.
    ///
    /// # Errors
    /// When one is missing or has another shape.
    pub fn load(&self, checkpoint: &Checkpoint) -> Result<Vec<Parameter>, TrainError> {
        let mut parameters = self.parameters(0);
        for p in &mut parameters {
            let values = checkpoint.read_all(&p.name).map_err(|error| TrainError::Data(error.to_string()))?;
            if values.len() != p.len() {
                let reason = format!("{} has {} values, expected {:?}", p.name, values.len(), p.shape);
                return Err(TrainError::Checkpoint { path: checkpoint.dir().into(), reason });
            }
            p.value = from_values(values, &self.device);
        }
        Ok(parameters)
    }

    /// The weights of the layers and the final norm of a checkpoint, flat and in the order of [`Self::parameters`].
    ///
    /// # Errors
    /// As of [`Self::load`].
    pub fn load_layers(&self, checkpoint: &Checkpoint) -> Result<Vec<Tensor<1>>, TrainError> {
        let layers = 1..=self.final_norm();
        Ok(self.load(checkpoint)?.drain(layers).map(|p| p.value).collect())
    }

    /// The sizes.
    pub fn shape(&self) -> &LlamaShape {
        &self.shape
    }

    /// Which parameter the LM head is.
    pub fn lm_head(&self) -> usize {
        if self.tied { 0 } else { self.final_norm() + 1 }
    }

    fn final_norm(&self) -> usize {
        1 + PER_LAYER * self.shape.layers
    }

    /// Initial parameters: normal values of deviation 0.02, smaller by `sqrt(2 layers)` where a branch ends in the
    /// residual stream.
    pub fn parameters(&self, seed: u64) -> Vec<Parameter> {
        let s = &self.shape;
        let (d, ff) = (s.hidden_size, s.intermediate_size);
        let head_dim = d / s.heads;
        let kv = s.kv_heads * head_dim;
        let random = &mut SeededRandom::new(seed);
        let ends = 0.02 / (2.0 * s.layers as f64).sqrt();
        let mut all = vec![];
        let mut matrix = |name: String, shape: [usize; 2], deviation: f64, role: Role| {
            Parameter::normal(name, shape, role, deviation, random, &self.device)
        };
        let ones = |name: String| Parameter::new(name, &[d], Role::Vector, vec![1.0; d], &self.device);
        all.push(matrix("model.embed_tokens.weight".into(), [s.vocab_size, d], 0.02, Role::Table));
        for layer in 0..s.layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
            all.push(ones(name("input_layernorm")));
            all.push(matrix(name("self_attn.q_proj"), [d, d], 0.02, Role::Matrix));
            all.push(matrix(name("self_attn.k_proj"), [kv, d], 0.02, Role::Matrix));
            all.push(matrix(name("self_attn.v_proj"), [kv, d], 0.02, Role::Matrix));
            all.push(matrix(name("self_attn.o_proj"), [d, d], ends, Role::Matrix));
            all.push(ones(name("post_attention_layernorm")));
            all.push(matrix(name("mlp.gate_proj"), [ff, d], 0.02, Role::Matrix));
            all.push(matrix(name("mlp.up_proj"), [ff, d], 0.02, Role::Matrix));
            all.push(matrix(name("mlp.down_proj"), [d, ff], ends, Role::Matrix));
        }
        all.push(ones("model.norm.weight".into()));
        if !self.tied {
            let head = [s.vocab_size, d];
            all.push(Parameter::normal("lm_head.weight", head, Role::Table, 0.02, random, &self.device));
        }
        all
    }

    /// Number of values of each parameter.
    pub fn sizes(&self) -> Vec<usize> {
        let s = &self.shape;
        let (d, ff, kv) = (s.hidden_size, s.intermediate_size, s.kv_heads * (s.hidden_size / s.heads));
        let layer = [d, d * d, kv * d, kv * d, d * d, d, ff * d, ff * d, d * ff];
        let layers = (0..s.layers).flat_map(|_| layer);
        let head = if self.tied { None } else { Some(s.vocab_size * d) };
        std::iter::once(s.vocab_size * d).chain(layers).chain([d]).chain(head).collect()
    }

    /// Hidden states after the final norm.
    ///
    /// # Shapes
    /// `weights` as in [`Self::parameters`], flat; result `[tokens, d]`.
    pub fn hidden(&self, weights: &[Tensor<1>], packed: &Packed) -> Tensor<2> {
        let (x, segments) = self.enter(weights, packed);
        let layers = weights[1..self.final_norm()].chunks_exact(PER_LAYER);
        let x = layers.fold(x, |x, layer| self.layer(x, layer, &segments));
        rms_norm_tracked(x, &weights[self.final_norm()], self.norm_eps)
    }

    /// As [`Self::hidden`], with one embedding in the place of some tokens'. `masked` marks these.
    ///
    /// # Shapes
    /// The embedding `[d]`; `masked` an entry per token.
    pub fn hidden_masked(
        &self,
        weights: &[Tensor<1>],
        packed: &Packed,
        (mask, masked): (&Tensor<1>, &[bool]),
    ) -> Tensor<2> {
        let (x, segments) = self.enter(weights, packed);
        let shares: Vec<f32> = masked.iter().map(|&masked| f32::from(u8::from(masked))).collect();
        let shares = Tensor::<2>::from_data(TensorData::new(shares, [masked.len(), 1]), &self.device).autodiff();
        let others = shares.clone().neg().add_scalar(1.0);
        let x = x * others + shares.matmul(mask.clone().reshape([1, self.shape.hidden_size]));
        let layers = weights[1..self.final_norm()].chunks_exact(PER_LAYER);
        let x = layers.fold(x, |x, layer| self.layer(x, layer, &segments));
        rms_norm_tracked(x, &weights[self.final_norm()], self.norm_eps)
    }

    /// The LM head among all weights, `[V, d]`.
    pub fn lm_head_of(&self, weights: &[Tensor<1>]) -> Table {
        Table::from(weights[self.lm_head()].clone().reshape([self.shape.vocab_size, self.shape.hidden_size]))
    }

    /// Hidden states after some layers and the final norm, as the LM head reads them at an early exit.
    ///
    /// `exits[l]` asks for those after layer `l`. `dropped[i][l]` leaves layer `l` out for dialogue `i`, whose residual
    /// stream passes it unchanged; nothing is rescaled.
    ///
    /// # Shapes
    /// `weights` as in [`Self::parameters`], flat; `exits` an entry per layer, `dropped` one per dialogue; results
    /// `[tokens, d]`, in the order of the layers.
    pub fn exits(
        &self,
        weights: &[Tensor<1>],
        packed: &Packed,
        exits: &[bool],
        dropped: &[Vec<bool>],
    ) -> Vec<Tensor<2>> {
        let (mut x, segments) = self.enter(weights, packed);
        let layers = weights[1..self.final_norm()].chunks_exact(PER_LAYER);
        let mut states = vec![];
        for (l, (layer, &exit)) in layers.zip(exits).enumerate() {
            let kept: Vec<bool> = dropped.iter().map(|dropped| !dropped[l]).collect();
            if kept.contains(&true) {
                let y = self.layer(x.clone(), layer, &segments);
                x = if kept.contains(&false) { self.chosen(y, x, packed, &kept) } else { y };
            }
            if exit {
                states.push(rms_norm_tracked(x.clone(), &weights[self.final_norm()], self.norm_eps));
            }
        }
        states
    }

    /// The rows of `y` for the dialogues that are kept, those of `x` for the others.
    fn chosen(&self, y: Tensor<2>, x: Tensor<2>, packed: &Packed, kept: &[bool]) -> Tensor<2> {
        let mut shares = vec![0f32; packed.tokens.len()];
        for (segment, kept) in packed.segments.iter().zip(kept) {
            shares[segment.clone()].fill(f32::from(u8::from(*kept)));
        }
        let n = shares.len();
        let shares = Tensor::<2>::from_data(TensorData::new(shares, [n, 1]), &self.device).autodiff();
        let others = shares.clone().neg().add_scalar(1.0);
        y * shares + x * others
    }

    /// The embeddings, and the attention's geometry.
    fn enter(&self, weights: &[Tensor<1>], packed: &Packed) -> (Tensor<2>, Segments) {
        let s = &self.shape;
        let ids: Vec<i32> = packed.tokens.iter().map(|&token| token as i32).collect();
        let ids = Tensor::<1, Int>::from_data(TensorData::new(ids, [packed.tokens.len()]), &self.device);
        let table = weights[0].clone().reshape([s.vocab_size, s.hidden_size]);
        let segments = Segments {
            heads: s.heads,
            kv_heads: s.kv_heads,
            head_dim: s.hidden_size / s.heads,
            angles: self.angles.clone(),
            rows: packed.segments.clone().into(),
        };
        (table.select(0, ids), segments)
    }

    fn layer(&self, x: Tensor<2>, w: &[Tensor<1>], segments: &Segments) -> Tensor<2> {
        let s = &self.shape;
        let (d, ff) = (s.hidden_size, s.intermediate_size);
        let kv = s.kv_heads * (d / s.heads);
        let linear = |x: &Tensor<2>, w: &Tensor<1>, out: usize, into: usize| {
            x.clone().matmul(w.clone().reshape([out, into]).transpose())
        };
        let normed = rms_norm_tracked(x.clone(), &w[0], self.norm_eps);
        let (q, k, v) = (linear(&normed, &w[1], d, d), linear(&normed, &w[2], kv, d), linear(&normed, &w[3], kv, d));
        let x = x + linear(&segment_attention(segments, q, k, v), &w[4], d, d);
        let normed = rms_norm_tracked(x.clone(), &w[5], self.norm_eps);
        let gated = silu_gate_tracked(linear(&normed, &w[6], ff, d), linear(&normed, &w[7], ff, d));
        x + linear(&gated, &w[8], d, ff)
    }
}
