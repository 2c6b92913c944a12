//! One decoder layer: attention and feed-forward network, each on a residual stream; inside the decoder, or alone.

use crate::attention::{Attention, Pass, pad, unpad};
use crate::cache::{CacheError, KvCache, LayerKv};
use crate::config::ModelConfig;
use crate::convolution::Convolution;
use crate::cross_attention::CrossAttention;
use crate::device::Compute;
use crate::feed_forward::FeedForward;
use crate::hidden_states::HiddenStates;
use crate::layout::LayerNames;
use crate::linear::Loader;
use crate::linear_output::LinearOutput;
use crate::norm::Norm;
use crate::residual::ResidualStream;
use crate::rope::Rope;
use crate::weights::{Checkpoint, WeightsError};
use burn::tensor::Tensor;
use gorgon_core::PooledVec;
use gorgon_kernels::tree_attention::PositionBias;
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use smallvec::SmallVec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Layer {
    /// A drafter's layer may have none.
    input_norm: Option<Norm>,
    attention: Attention,
    post_attention_norm: Option<Norm>,
    /// In a decoder that reads an encoder's states.
    cross: Option<CrossAttention>,
    pre_mlp_norm: Norm,
    feed_forward: FeedForward,
    post_mlp_norm: Option<Norm>,
    /// Around attention and feed-forward network; a drafter's layer may have them.
    convolutions: Option<[Convolution; 2]>,
}

impl Layer {
    /// Layer `layer` of a config, under these names.
    pub fn load(
        loader: &Loader<'_>,
        config: &ModelConfig,
        names: &LayerNames,
        layer: usize,
    ) -> Result<Self, WeightsError> {
        let input_norm = norm_of(loader, config, &names.input_norm)?;
        Self::without_input_norm(loader, config, names, layer).map(|rest| Self { input_norm: Some(input_norm), ..rest })
    }

    /// With terms of the scores by distance, which all layers of a stack share.
    pub fn biased(self, bias: Option<Arc<PositionBias>>) -> Self {
        Self { attention: self.attention.biased(bias), ..self }
    }

    /// Loads a layer without a norm in front of the attention.
    pub fn without_input_norm(
        loader: &Loader<'_>,
        config: &ModelConfig,
        names: &LayerNames,
        layer: usize,
    ) -> Result<Self, WeightsError> {
        let norm = |name: &str| norm_of(loader, config, name);
        let post = |name: &str| if config.post_norms { norm(name).map(Some) } else { Ok(None) };
        Ok(Self {
            input_norm: None,
            attention: Attention::load(loader, config, names, layer)?,
            post_attention_norm: post(&names.post_attention_norm)?,
            cross: names.cross.as_ref().map(|names| CrossAttention::load(loader, config, names, layer)).transpose()?,
            pre_mlp_norm: norm(&names.pre_mlp_norm)?,
            feed_forward: FeedForward::load(loader, config, names)?,
            post_mlp_norm: post(&names.post_mlp_norm)?,
            convolutions: None,
        })
    }

    /// The layer applied to a residual stream. `read` is what the attention reads where that is not the (normed)
    /// stream.
    ///
    /// # Shapes
    /// `stream [rows, d]` with the rows of all passes, `read [rows, width]`, result as `stream`.
    pub fn forward(
        &self,
        read: Option<&HiddenStates>,
        stream: ResidualStream,
        eps: f32,
        passes: &[Pass<'_>],
        kvs: &mut [&mut LayerKv],
    ) -> ResidualStream {
        let mut attend = |u: &HiddenStates| self.attention.forward(u, passes, kvs);
        let (x, attended) = match (read, &self.input_norm) {
            (Some(read), _) => (stream.sum(), attend(read)),
            (None, Some(norm)) => {
                let (x, normed) = stream.normed(norm, eps);
                (x, self.convolved(0, normed, attend))
            }
            (None, None) => {
                let x = stream.sum();
                let attended = attend(&x);
                (x, attended)
            }
        };
        let attended = post(attended, &self.post_attention_norm, eps);
        let (x, attended) = match &self.cross {
            Some(cross) => cross.add_forward(x, attended, passes),
            None => (x, attended),
        };
        let (x, normed) = self.pre_mlp_norm.add_forward(x, attended, eps);
        let output = self.convolved(1, normed, |u| self.feed_forward.forward(u));
        ResidualStream::new(x, post(output, &self.post_mlp_norm, eps))
    }

    /// As [`Self::forward`], without the sub-layers that are left out: both attentions, or the feed-forward network.
    ///
    /// # Shapes
    /// As of [`Self::forward`].
    pub fn forward_partly(
        &self,
        stream: ResidualStream,
        eps: f32,
        passes: &[Pass<'_>],
        kvs: &mut [&mut LayerKv],
        (no_attention, no_mlp): (bool, bool),
    ) -> ResidualStream {
        if !no_attention && !no_mlp {
            return self.forward(None, stream, eps, passes, kvs);
        }
        if !no_attention {
            let (x, read) = match &self.input_norm {
                Some(norm) => stream.normed(norm, eps),
                None => {
                    let x = stream.sum();
                    (x.clone(), x)
                }
            };
            let attended = post(self.attention.forward(&read, passes, kvs), &self.post_attention_norm, eps);
            let (x, attended) = match &self.cross {
                Some(cross) => cross.add_forward(x, attended, passes),
                None => (x, attended),
            };
            return ResidualStream::new(x, attended);
        }
        if no_mlp {
            return stream;
        }
        let (x, normed) = stream.normed(&self.pre_mlp_norm, eps);
        ResidualStream::new(x, post(self.feed_forward.forward(&normed), &self.post_mlp_norm, eps))
    }

    /// A sublayer of what it reads, between the two sides of its convolution if it has one.
    fn convolved(
        &self,
        number: usize,
        u: HiddenStates,
        sublayer: impl FnOnce(&HiddenStates) -> LinearOutput,
    ) -> LinearOutput {
        match &self.convolutions {
            Some(convolutions) => LinearOutput::Whole(convolutions[number].around(u, |u| sublayer(u).whole())),
            None => sublayer(&u),
        }
    }

    /// Writes the keys and values of what the attention reads.
    ///
    /// # Shapes
    /// `read [rows, width]` with the rows of the pass.
    fn place(&self, read: &HiddenStates, pass: &Pass<'_>, kv: &mut LayerKv) {
        self.attention.place(read, pass, kv);
    }

    /// The attention over an encoder's states, if there is one.
    pub fn cross(&self) -> Option<&CrossAttention> {
        self.cross.as_ref()
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        let convolutions = self.convolutions.iter().flatten().map(Convolution::bytes).sum::<usize>();
        self.attention.bytes()
            + self.cross.as_ref().map_or(0, CrossAttention::bytes)
            + self.feed_forward.bytes()
            + convolutions
    }
}

/// A sublayer's output after the norm behind it, if there is one.
fn post(output: LinearOutput, norm: &Option<Norm>, eps: f32) -> LinearOutput {
    match norm {
        Some(norm) => LinearOutput::Whole(norm.forward(&output.whole(), eps)),
        None => output,
    }
}

/// Fails unless the rows of a pass are the last reserved ones.
pub(crate) fn check_rows(rows: usize, mask: &AttentionMask, cache: &KvCache) -> Result<(), CacheError> {
    let uncommitted = mask.uncommitted();
    match cache.reserved() {
        Some(reserved) if uncommitted == reserved && mask.rows() == rows => Ok(()),
        Some(reserved) => Err(CacheError::Rows { rows: uncommitted, reserved }),
        None => Err(CacheError::NotReserved),
    }
}

fn norm_of(loader: &Loader<'_>, config: &ModelConfig, name: &str) -> Result<Norm, WeightsError> {
    Norm::load(loader, name, config.norm_plus_one)
}

/// A layer outside the decoder, with a cache of its own: what drafters of one layer are made of.
#[derive(Debug)]
pub struct DraftDecoderLayer {
    config: ModelConfig,
    compute: Compute,
    layer: Layer,
    /// Shared by all of its caches.
    rope: Arc<Rope>,
}

impl DraftDecoderLayer {
    fn new(config: ModelConfig, compute: &Compute, layer: Layer) -> Self {
        let rope = Rope::new(&config.rope);
        Self { config, compute: compute.clone(), layer, rope }
    }

    /// Loads a whole layer; `prefix` is what its tensors' names start with, the last dot included.
    ///
    /// # Errors
    /// When a tensor is missing or cannot be read.
    pub fn load(
        checkpoint: &Checkpoint,
        config: ModelConfig,
        prefix: &str,
        compute: &Compute,
    ) -> Result<Self, WeightsError> {
        let names = LayerNames::with_prefix(&config, prefix);
        let layer = Layer::load(&Loader { checkpoint, compute }, &config, &names, 0)?;
        Ok(Self::new(config, compute, layer))
    }

    /// Loads a layer without a norm in front of its attention, as EAGLE has it; `prefix` is what its tensors' names
    /// start with, the last dot included.
    ///
    /// # Errors
    /// When a tensor is missing or cannot be read.
    pub fn load_without_input_norm(
        checkpoint: &Checkpoint,
        config: ModelConfig,
        prefix: &str,
        compute: &Compute,
    ) -> Result<Self, WeightsError> {
        let names = LayerNames::with_prefix(&config, prefix);
        let layer = Layer::without_input_norm(&Loader { checkpoint, compute }, &config, &names, 0)?;
        Ok(Self::new(config, compute, layer))
    }

    /// The layer with the convolutions of a block around its attention and its feed-forward network,
    /// `{prefix}attention_conv.*` and `{prefix}mlp_conv.*`. The rows of its passes are the slots of one block.
    ///
    /// # Errors
    /// When a tensor is missing or cannot be read.
    pub fn with_convolutions(self, checkpoint: &Checkpoint, prefix: &str) -> Result<Self, WeightsError> {
        let loader = Loader { checkpoint, compute: &self.compute };
        let load = |name: &str| Convolution::load(&loader, &format!("{prefix}{name}."));
        let convolutions = Some([load("attention_conv")?, load("mlp_conv")?]);
        Ok(Self { layer: Layer { convolutions, ..self.layer }, ..self })
    }

    /// A cache with memory for `capacity` rows; it grows where more are reserved.
    pub fn new_cache(&self, capacity: usize) -> KvCache {
        KvCache::new(&self.config, &self.compute, &self.rope, usize::MAX, capacity)
    }

    /// One pass over rows of the residual stream, the last ones that `cache` has room reserved for. `read` is what the
    /// attention reads where that is not the residual stream, as wide as its projections are.
    ///
    /// # Shapes
    /// `x [rows, d]`, `read [rows, width]`, result as `x`.
    ///
    /// # Errors
    /// When the rows are not the reserved ones.
    pub fn forward(
        &self,
        read: Option<&HiddenStates>,
        x: HiddenStates,
        mask: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, CacheError> {
        check_rows(x.rows(), mask, cache)?;
        let (layers, view) = cache.parts();
        let pass = [Pass::new(&self.config, &view, mask, &[])];
        let mut kvs: SmallVec<[&mut LayerKv; 1]> = layers.iter_mut().collect();
        let padded = read.filter(|_| pass[0].padded_rows() > x.rows()).map(|read| pad(read.clone(), &pass[0]));
        let (read, x) = (padded.as_ref().or(read), pad(x, &pass[0]));
        let y = self.layer.forward(read, x.into(), self.config.norm_eps, &pass, &mut kvs);
        Ok(unpad(y.sum(), &pass))
    }

    /// As [`Self::forward`] without `read`, over all reserved rows, which have `positions`, counted from the committed
    /// rows.
    ///
    /// # Errors
    /// When the rows are not the reserved ones.
    pub fn forward_at(
        &self,
        x: HiddenStates,
        mask: &AttentionMask,
        positions: &[usize],
        cache: &mut KvCache,
    ) -> Result<HiddenStates, CacheError> {
        check_rows(x.rows(), mask, cache)?;
        cache.begin(mask, Some(positions), &(0..1), false);
        self.forward(None, x, mask, cache)
    }

    /// Commits the keys and values of rows that nothing attends from: the attention reads `x` as it is, without the norm
    /// in front of it.
    ///
    /// # Shapes
    /// `x [rows, width]`, as wide as the projections are.
    ///
    /// # Errors
    /// When rows are uncommitted.
    pub fn commit_context(&self, x: &HiddenStates, cache: &mut KvCache) -> Result<(), CacheError> {
        let rows = x.rows();
        cache.reserve(rows)?;
        let mask = AttentionMask::Causal { rows };
        let (layers, view) = cache.parts();
        let pass = Pass::new(&self.config, &view, &mask, &[]);
        let padded = (pass.padded_rows() > rows).then(|| pad(x.clone(), &pass));
        layers.iter_mut().for_each(|kv| self.layer.place(padded.as_ref().unwrap_or(x), &pass, kv));
        let path: PooledVec<usize> = (0..rows).collect();
        cache.commit(&path)
    }

    /// One pass over a table of rows on a GPU, which may have been written there: nothing is sent up or read, and the
    /// cache's own count of rows stays as it is. `read` is what the attention reads where that is not the residual
    /// stream.
    ///
    /// # Shapes
    /// `read [1, R, width]`, `x [1, R, d]` with the table's rows, padding included; result as `x`.
    ///
    /// # Errors
    /// When the cache is on the CPU.
    pub fn forward_table(
        &self,
        read: Option<&Tensor<3>>,
        x: Tensor<3>,
        pass_table: &PassTable,
        cache: &mut KvCache,
    ) -> Result<Tensor<3>, CacheError> {
        let (layers, view) = cache.parts();
        let pass = [Pass::of_table(pass_table, &view)?];
        let mut kvs: SmallVec<[&mut LayerKv; 1]> = layers.iter_mut().collect();
        let read = read.map(|read| HiddenStates::on_device(read.clone()));
        let x = HiddenStates::on_device(x);
        Ok(self.layer.forward(read.as_ref(), x.into(), self.config.norm_eps, &pass, &mut kvs).sum().into_tensor())
    }

    /// Its config: sizes, rotary embedding, epsilon.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.layer.bytes()
    }
}
