//! The one decoder, for every supported architecture.

use crate::attention::{Pass, unpad};
use crate::cache::{CacheError, KvCache, LayerKv, Place};
use crate::config::{ConfigError, ModelConfig};
use crate::device::{Compute, Int8};
use crate::hidden_states::{HiddenStates, read};
use crate::hooks::Hooks;
use crate::layer::Layer;
use crate::layout::{self, LayerNames};
use crate::linear::{Embedding, Linear, Loader};
use crate::lm_head::LmHead;
use crate::norm::Norm;
use crate::pass::{Inputs, PassOutput, PassPlan};
use crate::weights::{Checkpoint, WeightsError};
use burn::tensor::{Int, Tensor};
use gorgon_core::{PooledVec, Token};
use gorgon_kernels::tree_attention::PassTable;
use gorgon_kernels::{Isa, activation};
use smallvec::SmallVec;
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

/// One sequence's part in a forward pass.
#[derive(Debug)]
pub struct Rows<'a> {
    /// Its rows.
    pub plan: PassPlan<'a>,
    /// Its cache.
    pub cache: &'a mut KvCache,
}

/// A frozen decoder with its weights on a device.
#[derive(Debug)]
pub struct Decoder {
    config: ModelConfig,
    compute: Compute,
    embedding: Embedding,
    layers: Vec<Layer>,
    final_norm: Norm,
    lm_head: LmHead,
    /// In 8 bits, if drafts are made with that.
    draft_head: Option<Linear>,
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
        let layers = (0..config.layers)
            .map(|i| Layer::load(&loader, &config, &LayerNames::new(&config, i), i))
            .collect::<Result<_, _>>()?;
        // A soft cap makes ties of what a screen tells apart.
        let lm_head = if config.final_soft_cap.is_some() { LmHead::whole(lm_head) } else { LmHead::new(lm_head) };
        let final_norm = Norm::load(&loader, layout::FINAL_NORM, config.norm_plus_one)?;
        let draft_head = match compute.int8() {
            Int8::Drafts => lm_head.in_eight_bits().map_err(|error| loader.wrong("lm_head", error))?,
            Int8::Off | Int8::All => None,
        };
        Ok(Self { config, compute: compute.clone(), embedding, layers, final_norm, lm_head, draft_head })
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
        self.lm_head.bytes() + self.layers.iter().map(Layer::bytes).sum::<usize>()
    }

    /// The same of a greedy step, which wants nothing but the likeliest token ([`Self::top_tokens`]).
    pub fn bytes_per_greedy_step(&self) -> usize {
        self.lm_head.bytes_for_top_tokens() + self.layers.iter().map(Layer::bytes).sum::<usize>()
    }

    /// A cache for one sequence of at most `capacity` tokens.
    pub fn new_cache(&self, capacity: usize) -> KvCache {
        KvCache::new(&self.config, &self.compute, capacity.min(self.config.max_positions))
    }

    /// The embeddings of tokens, as the first layer reads them.
    ///
    /// # Errors
    /// When a token is outside the vocabulary.
    pub fn embed(&self, tokens: &[Token]) -> Result<HiddenStates, ModelError> {
        self.check_tokens(tokens)?;
        Ok(self.embedding.look_up(tokens, self.compute.device()))
    }

    /// The same for tokens that are on a GPU already; all of them are within the vocabulary.
    ///
    /// # Shapes
    /// `ids [tokens]`, result `[1, tokens, d]`.
    ///
    /// # Panics
    /// If the decoder is on the CPU.
    pub fn embed_on_device(&self, ids: Tensor<1, Int>) -> Tensor<3> {
        self.embedding.select(ids)
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

    /// One forward pass over the uncommitted rows of one sequence, for which `cache` has room.
    ///
    /// # Errors
    /// When a token is outside the vocabulary or the rows are not the ones there is room for.
    pub fn forward(&self, plan: &PassPlan<'_>, cache: &mut KvCache, hooks: &Hooks) -> Result<PassOutput, ModelError> {
        self.forward_batch(&mut [Rows { plan: plan.clone(), cache }], hooks)
    }

    /// Fails unless a cache has room reserved for these rows.
    fn check_rows<'a>(&self, rows: &'a Rows<'_>) -> Result<&'a [Token], ModelError> {
        let Inputs::Tokens(tokens) = rows.plan.inputs else { return Err(CacheError::NotReserved.into()) };
        self.check_tokens(tokens)?;
        let mask = rows.plan.mask;
        if rows.cache.reserved() != Some(mask.uncommitted()) || mask.rows() != tokens.len() {
            return Err(CacheError::NotReserved.into());
        }
        Ok(tokens)
    }

    /// One forward pass over rows of several sequences, each with its own cache. On the CPU a sequence's results do not
    /// depend on which others it is computed with.
    ///
    /// # Shapes
    /// The output has the rows of all sequences, one after another.
    ///
    /// # Errors
    /// When a token is outside the vocabulary, rows are not the ones there is room for, or there are none.
    pub fn forward_batch(&self, batch: &mut [Rows<'_>], hooks: &Hooks) -> Result<PassOutput, ModelError> {
        let mut tokens = PooledVec::new();
        for rows in batch.iter() {
            tokens.extend_from_slice(self.check_rows(rows)?);
        }
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let (mut passes, mut caches) = (SmallVec::<[Pass<'_>; 1]>::new(), Caches::new());
        for Rows { plan, cache } in batch {
            let Inputs::Tokens(tokens) = plan.inputs else { continue };
            let sizes = (cache.len(), cache.capacity());
            let (layers, place) = cache.parts();
            passes.push(Pass::new(&self.config, place, plan.mask, tokens, sizes));
            caches.push(layers);
        }
        let x = match self.compute.is_host() {
            true => self.embedding.look_up(&tokens, self.compute.device()),
            false => HiddenStates::Device(self.embedding.select(table_tokens(&passes))),
        };
        let output = self.run(x, &passes, &mut caches, hooks);
        let hooks = output.hooks.into_iter().map(|states| unpad(states, &passes)).collect();
        Ok(PassOutput { hidden: unpad(output.hidden, &passes), hooks, stream: None })
    }

    /// All layers on a residual stream of all passes' rows, padding included.
    fn run(&self, mut x: HiddenStates, passes: &[Pass<'_>], caches: &mut Caches<'_>, hooks: &Hooks) -> PassOutput {
        let eps = self.config.norm_eps;
        let mut hooked: SmallVec<[Option<HiddenStates>; 4]> = hooks.layers().iter().map(|_| None).collect();
        let mut hook = |entering: usize, x: &HiddenStates| {
            for (slot, _) in hooked.iter_mut().zip(hooks.layers()).filter(|(_, layer)| **layer == entering) {
                *slot = Some(x.clone());
            }
        };
        for (i, layer) in self.layers.iter().enumerate() {
            hook(i, &x);
            let mut kvs: SmallVec<[&mut LayerKv; 1]> = caches.iter_mut().map(|layers| &mut layers[i]).collect();
            x = layer.forward(None, x, eps, passes, &mut kvs);
        }
        hook(self.layers.len(), &x);
        let hidden = self.final_norm.forward(&x, eps);
        PassOutput { hidden, hooks: hooked.into_iter().flatten().collect(), stream: None }
    }

    /// One forward pass over a table of rows on a GPU, which may have been written there: nothing is sent up or read.
    ///
    /// # Shapes
    /// The output has a row for each of the table's, padding included.
    ///
    /// # Errors
    /// When the cache is on the CPU.
    pub fn forward_table(
        &self,
        pass_table: &PassTable,
        cache: &mut KvCache,
        hooks: &Hooks,
    ) -> Result<PassOutput, ModelError> {
        let (layers, Place::Device(angles)) = cache.parts() else { return Err(CacheError::NotReserved.into()) };
        let passes = [Pass::Device { pass_table: pass_table.clone(), angles }];
        let x = HiddenStates::Device(self.embedding.select(pass_table.tokens()));
        Ok(self.run(x, &passes, &mut Caches::from_buf([layers]), hooks))
    }

    /// The logits of hidden states, after any final soft cap.
    ///
    /// # Shapes
    /// `hidden [1, rows, d]` after the final norm, result `[1, rows, V]`.
    pub fn logits(&self, hidden: &Tensor<3>) -> Tensor<3> {
        self.capped(self.lm_head.forward_tensor(hidden))
    }

    /// The `counts[i]` likeliest tokens of each row, exactly, without computing all logits; see [`LmHead::top_tokens`].
    ///
    /// # Shapes
    /// `hidden` after the final norm, `counts [rows]`.
    pub fn top_tokens(&self, hidden: &HiddenStates, counts: &[usize]) -> Option<PooledVec<(Token, f32)>> {
        self.lm_head.top_tokens(hidden, counts)
    }

    /// The LM head.
    pub fn lm_head(&self) -> &LmHead {
        &self.lm_head
    }

    /// The logits of hidden states as rows on the host: a step's one read from a device.
    ///
    /// # Shapes
    /// Result `[rows, V]`, row-major.
    pub fn scores(&self, hidden: &HiddenStates) -> PooledVec<f32> {
        match hidden {
            HiddenStates::Host { values, .. } => self.scores_by(&self.lm_head, values),
            HiddenStates::Device(hidden) => read(self.logits(hidden)).into(),
        }
    }

    /// The same for drafts ([`Self::draft_logits`]).
    ///
    /// # Shapes
    /// `states` as the LM head reads them, result `[rows, V]`, row-major.
    pub fn draft_scores(&self, states: &HiddenStates) -> PooledVec<f32> {
        match states {
            HiddenStates::Host { values, .. } => {
                self.scores_by(self.draft_head.as_ref().unwrap_or(&self.lm_head), values)
            }
            HiddenStates::Device(states) => read(self.draft_logits(states)).into(),
        }
    }

    fn scores_by(&self, lm_head: &Linear, states: &[f32]) -> PooledVec<f32> {
        let mut logits = PooledVec::unset(states.len() / self.config.hidden_size * lm_head.width());
        lm_head.rows(states, &mut logits);
        self.cap_rows(&mut logits);
        logits
    }

    fn cap_rows(&self, logits: &mut [f32]) {
        if let Some(cap) = self.config.final_soft_cap {
            activation::soft_cap_rows(Isa::detect(), logits, cap);
        }
    }

    /// As [`Self::logits`], for drafts: from weights in 8 bits under [`Int8::Drafts`], a quarter to half of the
    /// reading. No output depends on a draft's logits as far as a lossless rule verifies it.
    pub fn draft_logits(&self, hidden: &Tensor<3>) -> Tensor<3> {
        self.capped(self.draft_head.as_ref().unwrap_or(&self.lm_head).forward_tensor(hidden))
    }

    fn capped(&self, logits: Tensor<3>) -> Tensor<3> {
        match self.config.final_soft_cap {
            Some(cap) => activation::soft_cap(logits, cap),
            None => logits,
        }
    }
}

/// The layers of each sequence's cache.
type Caches<'a> = SmallVec<[&'a mut [LayerKv]; 1]>;

/// The tokens of all passes on a device, padding included.
fn table_tokens(passes: &[Pass<'_>]) -> Tensor<1, Int> {
    let tokens = |pass: &Pass<'_>| match pass {
        Pass::Device { pass_table, .. } => Some(pass_table.tokens()),
        Pass::Host { .. } => None,
    };
    let mut all: Vec<Tensor<1, Int>> = passes.iter().filter_map(tokens).collect();
    if all.len() == 1 { all.remove(0) } else { Tensor::cat(all, 0) }
}
