//! One decoder layer: attention and feed-forward network, each on a residual stream; inside the decoder, or alone.

use crate::attention::{Attention, AttentionSpace, Pass, pad, unpad};
use crate::cache::{CacheError, KvCache, LayerKv, Place};
use crate::config::ModelConfig;
use crate::device::Compute;
use crate::hidden_states::HiddenStates;
use crate::layout::LayerNames;
use crate::linear::Loader;
use crate::mlp::{FeedForward, MlpSpace};
use crate::norm::Norm;
use crate::weights::{Checkpoint, WeightsError};
use crate::workspace::{Workspace, part};
use burn::tensor::Tensor;
use gorgon_kernels::tree_attention::{AttentionMask, PassTable};
use gorgon_kernels::{Isa, norm};

#[derive(Debug)]
pub(crate) struct Layer {
    /// A drafter's layer may have none.
    input_norm: Option<Norm>,
    attention: Attention,
    post_attention_norm: Option<Norm>,
    pre_mlp_norm: Norm,
    feed_forward: FeedForward,
    post_mlp_norm: Option<Norm>,
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

    /// The same without a norm in front of the attention.
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
            pre_mlp_norm: norm(&names.pre_mlp_norm)?,
            feed_forward: FeedForward::load(loader, config, names)?,
            post_mlp_norm: post(&names.post_mlp_norm)?,
        })
    }

    /// On a GPU.
    ///
    /// # Shapes
    /// `x [1, rows, d]` with the rows of all passes, result the same.
    pub fn forward(&self, x: Tensor<3>, eps: f32, passes: &[Pass<'_>], kvs: &mut [&mut LayerKv]) -> Tensor<3> {
        match &self.input_norm {
            Some(norm) => self.forward_reading(&norm::rms_norm(&x, norm.weight(), eps), x, eps, passes, kvs),
            None => self.forward_reading(&x.clone(), x, eps, passes, kvs),
        }
    }

    /// The same where the attention reads something else than the residual stream, of any width.
    ///
    /// # Shapes
    /// `read [1, rows, width]`, `x [1, rows, d]`, result as `x`.
    pub fn forward_reading(
        &self,
        read: &Tensor<3>,
        x: Tensor<3>,
        eps: f32,
        passes: &[Pass<'_>],
        kvs: &mut [&mut LayerKv],
    ) -> Tensor<3> {
        let post = |y: Tensor<3>, norm: &Option<Norm>| match norm {
            Some(norm) => norm::rms_norm(&y, norm.weight(), eps),
            None => y,
        };
        let attended = post(self.attention.forward(read, passes, kvs), &self.post_attention_norm);
        let (x, normed) = norm::add_rms_norm(x, attended, self.pre_mlp_norm.weight(), eps);
        let fed = self.feed_forward.forward(&normed);
        x + post(fed, &self.post_mlp_norm)
    }

    /// On the CPU, in place. `read` is what the attention reads, if that is not the (normed) residual stream.
    ///
    /// # Shapes
    /// `read [rows, width]`, `x [rows, d]` with the rows of all passes.
    pub fn forward_rows(
        &self,
        read: Option<&[f32]>,
        x: &mut [f32],
        eps: f32,
        passes: &[Pass<'_>],
        kvs: &mut [&mut LayerKv],
        space: &mut Workspace,
    ) {
        let Workspace { normed, wide, narrow, rotated, out, .. } = space;
        let (normed, out) = (part(normed, x.len()), part(out, x.len()));
        let read = match (read, &self.input_norm) {
            (Some(read), _) => read,
            (None, Some(norm)) => {
                norm.rows(x, eps, normed);
                &*normed
            }
            (None, None) => x,
        };
        let attention = AttentionSpace { wide: &mut *wide, narrow: &mut *narrow, rotated };
        self.attention.rows(read, passes, kvs, attention, out);
        add(x, out, self.post_attention_norm.as_ref(), eps, normed);
        self.pre_mlp_norm.rows(x, eps, normed);
        let rows = passes.iter().map(Pass::rows).sum();
        self.feed_forward.rows(normed, rows, MlpSpace { wide, narrow }, out);
        add(x, out, self.post_mlp_norm.as_ref(), eps, normed);
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.attention.bytes() + self.feed_forward.bytes()
    }
}

fn norm_of(loader: &Loader<'_>, config: &ModelConfig, name: &str) -> Result<Norm, WeightsError> {
    Norm::load(loader, name, config.norm_plus_one)
}

/// `x ← x + y`, with `y` normed first if there is a norm; that goes by way of `space`.
fn add(x: &mut [f32], y: &[f32], norm: Option<&Norm>, eps: f32, space: &mut [f32]) {
    match norm {
        Some(norm) => {
            norm.rows(y, eps, space);
            norm::add_rows(Isa::detect(), x, space);
        }
        None => norm::add_rows(Isa::detect(), x, y),
    }
}

/// A layer outside the decoder, with a cache of its own: what drafters of one layer are made of.
#[derive(Debug)]
pub struct DraftDecoderLayer {
    config: ModelConfig,
    compute: Compute,
    layer: Layer,
}

impl DraftDecoderLayer {
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
        Ok(Self { config, compute: compute.clone(), layer })
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
        Ok(Self { config, compute: compute.clone(), layer })
    }

    /// A cache that has room for `capacity` rows and can be given more.
    pub fn new_cache(&self, capacity: usize) -> KvCache {
        KvCache::new(&self.config, &self.compute, capacity)
    }

    /// Makes room in a cache of this layer.
    pub fn grow(&self, cache: &mut KvCache, rows: usize) {
        cache.grow(rows, &self.config);
    }

    /// One pass over rows of the residual stream, the last ones that `cache` has room reserved for. `read` is what the
    /// attention reads where that is not the residual stream, as wide as its projections are.
    ///
    /// # Shapes
    /// `read` as many rows as `x`; result as `x`.
    ///
    /// # Errors
    /// When the rows are not the reserved ones.
    pub fn forward(
        &self,
        read: Option<&HiddenStates>,
        x: HiddenStates,
        visible: &AttentionMask,
        cache: &mut KvCache,
    ) -> Result<HiddenStates, CacheError> {
        if cache.reserved() != Some(visible.uncommitted()) || visible.rows() != x.rows() {
            return Err(CacheError::NotReserved);
        }
        let sizes = (cache.len(), cache.capacity());
        let ([kv], place) = cache.parts() else { return Err(CacheError::NotReserved) };
        let pass = [Pass::new(&self.config, place, visible, &[], sizes)];
        let (eps, kvs) = (self.config.norm_eps, &mut [kv]);
        Ok(match x {
            HiddenStates::Host { mut values, width } => {
                let read = read.and_then(HiddenStates::on_host);
                Workspace::lend(|space| self.layer.forward_rows(read, &mut values, eps, &pass, kvs, space));
                HiddenStates::Host { values, width }
            }
            HiddenStates::Device(x) => {
                let x = pad(x, &pass[0]);
                let y = match read {
                    Some(read) => self.layer.forward_reading(&pad(read.tensor(), &pass[0]), x, eps, &pass, kvs),
                    None => self.layer.forward(x, eps, &pass, kvs),
                };
                HiddenStates::Device(unpad(y, &pass))
            }
        })
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
        let (layers, Place::Device(angles)) = cache.parts() else { return Err(CacheError::NotReserved) };
        let passes = [Pass::Device { pass_table: pass_table.clone(), angles }];
        let (eps, mut kvs) = (self.config.norm_eps, layers.iter_mut().collect::<Vec<_>>());
        Ok(match read {
            Some(read) => self.layer.forward_reading(read, x, eps, &passes, &mut kvs),
            None => self.layer.forward(x, eps, &passes, &mut kvs),
        })
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
