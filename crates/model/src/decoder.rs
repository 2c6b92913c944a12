//! The one decoder, for every supported architecture.

use crate::attention::{Attention, Pass};
use crate::cache::{CacheError, KvCache, LayerKv};
use crate::config::{ConfigError, ModelConfig};
use crate::device::Compute;
use crate::layout::{self, LayerNames};
use crate::linear::{Embedding, Linear, Loader};
use crate::mlp::FeedForward;
use crate::taps::Taps;
use crate::weights::{Checkpoint, WeightsError};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_kernels::tree_attention::Visible;
use gorgon_kernels::{activation, norm};
use std::path::Path;

/// Why a model cannot be loaded or run.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The config.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A token that the model does not have.
    #[error("token {token} is outside the vocabulary of {vocab_size}")]
    Token {
        /// The offending token.
        token: Token,
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// Nothing to run on.
    #[error("the prompt is empty: at least one token is needed")]
    EmptyPrompt,
}

/// What a forward pass yields.
#[derive(Debug)]
pub struct PassOutput {
    /// Hidden states after the final norm, `[1, rows, d]`: what the LM head reads.
    pub hidden: Tensor<3>,
    /// The tapped states, `[1, rows, d]` each, in the order they were asked for.
    pub taps: Vec<Tensor<3>>,
}

/// One sequence's rows in a forward pass.
#[derive(Debug)]
pub struct Rows<'a> {
    /// The tokens: as many as the cache has room reserved for.
    pub tokens: &'a [Token],
    /// Which of them each of them sees.
    pub visible: &'a Visible,
    /// The sequence's cache.
    pub cache: &'a mut KvCache,
}

/// A frozen decoder with its weights on a device.
#[derive(Debug)]
pub struct Decoder {
    config: ModelConfig,
    compute: Compute,
    embedding: Embedding,
    layers: Vec<Layer>,
    final_norm: Tensor<1>,
    lm_head: Linear,
}

#[derive(Debug)]
struct Layer {
    input_norm: Tensor<1>,
    attention: Attention,
    post_attention_norm: Option<Tensor<1>>,
    pre_mlp_norm: Tensor<1>,
    feed_forward: FeedForward,
    post_mlp_norm: Option<Tensor<1>>,
}

impl Layer {
    fn load(loader: &Loader<'_>, config: &ModelConfig, layer: usize) -> Result<Self, WeightsError> {
        let names = LayerNames::new(config, layer);
        let norm = |name: &str| loader.norm(name, config.norm_plus_one);
        let post = |name: &str| if config.post_norms { norm(name).map(Some) } else { Ok(None) };
        Ok(Self {
            input_norm: norm(&names.input_norm)?,
            attention: Attention::load(loader, config, &names, layer)?,
            post_attention_norm: post(&names.post_attention_norm)?,
            pre_mlp_norm: norm(&names.pre_mlp_norm)?,
            feed_forward: FeedForward::load(loader, config, &names)?,
            post_mlp_norm: post(&names.post_mlp_norm)?,
        })
    }

    fn forward(&self, x: Tensor<3>, eps: f32, passes: &[Pass<'_>], kvs: &mut [&mut LayerKv]) -> Tensor<3> {
        let post = |y: Tensor<3>, weight: &Option<Tensor<1>>| match weight {
            Some(weight) => norm::rms_norm(&y, weight, eps),
            None => y,
        };
        let attended = self.attention.forward(&norm::rms_norm(&x, &self.input_norm, eps), passes, kvs);
        let x = x + post(attended, &self.post_attention_norm);
        let fed = self.feed_forward.forward(&norm::rms_norm(&x, &self.pre_mlp_norm, eps));
        x + post(fed, &self.post_mlp_norm)
    }
}

impl Decoder {
    /// Loads config and weights from a model folder.
    ///
    /// # Errors
    /// One line that names the file and what is wrong with it.
    pub fn load(dir: &Path, compute: &Compute) -> Result<Self, ModelError> {
        let config = ModelConfig::read(dir)?;
        let checkpoint = Checkpoint::open(dir)?;
        Self::from_checkpoint(config, &checkpoint, compute)
    }

    /// Loads weights from an opened checkpoint.
    ///
    /// # Errors
    /// When the tensors are not those that the config calls for, or cannot be read.
    pub fn from_checkpoint(
        config: ModelConfig,
        checkpoint: &Checkpoint,
        compute: &Compute,
    ) -> Result<Self, ModelError> {
        checkpoint.check(&config)?;
        let loader = Loader { checkpoint, compute };
        let table = loader.weight(&[layout::EMBEDDING.to_owned()])?;
        let embedding = Embedding::new(table, config.embedding_scale);
        let lm_head = match config.tied_embeddings {
            true => Linear::shared(embedding.weight()),
            false => loader.linear(&["lm_head".to_owned()], false)?,
        };
        let layers = (0..config.layers).map(|i| Layer::load(&loader, &config, i)).collect::<Result<_, _>>()?;
        let final_norm = loader.norm(layout::FINAL_NORM, config.norm_plus_one)?;
        Ok(Self { config, compute: compute.clone(), embedding, layers, final_norm, lm_head })
    }

    /// The config.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Device and number format.
    pub fn compute(&self) -> &Compute {
        &self.compute
    }

    /// Bytes of weights that one decode step reads: all but the embedding rows it does not look up.
    pub fn bytes_per_step(&self) -> usize {
        let layers = self.layers.iter().map(|layer| layer.attention.bytes() + layer.feed_forward.bytes());
        self.lm_head.bytes() + layers.sum::<usize>()
    }

    /// A cache for one sequence of at most `capacity` tokens.
    pub fn new_cache(&self, capacity: usize) -> KvCache {
        KvCache::new(&self.config, &self.compute, capacity.min(self.config.max_positions))
    }

    /// Fails if a token is outside the vocabulary.
    ///
    /// # Errors
    /// [`ModelError::Token`] with the first offending one.
    pub fn check_tokens(&self, tokens: &[Token]) -> Result<(), ModelError> {
        let vocab_size = self.config.vocab_size;
        match tokens.iter().find(|&&token| token as usize >= vocab_size) {
            Some(&token) => Err(ModelError::Token { token, vocab_size }),
            None => Ok(()),
        }
    }

    /// One forward pass over `tokens`, the rows that `cache` has room reserved for. Row `i` sees the committed rows and
    /// those that `visible` says; its position is their number.
    ///
    /// # Errors
    /// When a token is outside the vocabulary or the rows are not the reserved ones.
    pub fn forward(
        &self,
        tokens: &[Token],
        visible: &Visible,
        cache: &mut KvCache,
        taps: &Taps,
    ) -> Result<PassOutput, ModelError> {
        self.forward_batch(&mut [Rows { tokens, visible, cache }], taps)
    }

    /// One forward pass over rows of several sequences, each with its own cache. On the CPU a sequence's results do not
    /// depend on which others it is computed with.
    ///
    /// # Shapes
    /// The output has the rows of all sequences, one after another.
    ///
    /// # Errors
    /// When a token is outside the vocabulary, rows are not the reserved ones, or there are none.
    pub fn forward_batch(&self, batch: &mut [Rows<'_>], taps: &Taps) -> Result<PassOutput, ModelError> {
        let mut tokens = vec![];
        for rows in batch.iter() {
            self.check_tokens(rows.tokens)?;
            if rows.cache.reserved() != Some(rows.tokens.len()) || rows.visible.rows() != rows.tokens.len() {
                return Err(CacheError::NotReserved.into());
            }
            tokens.extend_from_slice(rows.tokens);
        }
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let device = self.compute.device();
        let (mut passes, mut caches) = (vec![], vec![]);
        for Rows { visible, cache, .. } in batch {
            let (prefix, capacity) = (cache.len(), cache.capacity());
            let KvCache { layers, rope, .. } = &mut **cache;
            passes.push(Pass::new(&self.config, rope, visible, prefix, capacity, device));
            caches.push(layers.iter_mut());
        }
        let eps = self.config.norm_eps;
        let mut tapped: Vec<Option<Tensor<3>>> = vec![None; taps.layers().len()];
        let mut tap = |entering: usize, x: &Tensor<3>| {
            for (slot, _) in tapped.iter_mut().zip(taps.layers()).filter(|(_, layer)| **layer == entering) {
                *slot = Some(x.clone());
            }
        };
        let mut x = self.embedding.look_up(&tokens, device);
        for (i, layer) in self.layers.iter().enumerate() {
            tap(i, &x);
            let mut kvs: Vec<&mut LayerKv> = caches.iter_mut().filter_map(Iterator::next).collect();
            x = layer.forward(x, eps, &passes, &mut kvs);
        }
        tap(self.layers.len(), &x);
        let hidden = norm::rms_norm(&x, &self.final_norm, eps);
        Ok(PassOutput { hidden, taps: tapped.into_iter().flatten().collect() })
    }

    /// The logits of hidden states, after any final soft cap.
    ///
    /// # Shapes
    /// `hidden [1, rows, d]` after the final norm, result `[1, rows, V]`.
    pub fn logits(&self, hidden: &Tensor<3>) -> Tensor<3> {
        let logits = self.lm_head.forward(hidden);
        match self.config.final_soft_cap {
            Some(cap) => activation::soft_cap(logits, cap),
            None => logits,
        }
    }
}
