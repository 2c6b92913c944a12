//! The one decoder, for every supported architecture.

mod logits;
mod staged;
mod tables;

use crate::attention::{Pass, join_tables, pad, unpad};
use crate::cache::{KvCache, LayerKv};
use crate::config::ModelConfig;
use crate::device::{Compute, DraftWeights, Weights};
use crate::embedding::Embedding;
use crate::encoder::Encoder;
use crate::hidden_states::HiddenStates;
use crate::hooks::Hooks;
use crate::layer::Layer;
use crate::layout::{self, LayerNames};
use crate::linear::{Linear, Loader};
use crate::lm_head::LmHead;
use crate::norm::Norm;
use crate::pass::{Bounds, Input, Inputs, PassOutput, PassPlan, PlanError, SkippedSublayers};
use crate::position_bias;
use crate::residual::ResidualStream;
use crate::rope::Rope;
use crate::source::EncodedSource;
use crate::stages::Stage;
use crate::weights::Checkpoint;
use burn::tensor::{Int, Tensor};
use gorgon_core::Token;
use smallvec::SmallVec;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use crate::error::ModelError;

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
    /// Of a model whose layers read a source.
    encoder: Option<Encoder>,
    layers: Vec<Layer>,
    /// Where they are.
    stages: Arc<[Stage]>,
    final_norm: Norm,
    lm_head: LmHead,
    /// In 8 bits, if drafts are made with that.
    draft_head: Option<Linear>,
    /// Shared by all caches.
    rope: Arc<Rope>,
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
        let config = checkpoint.resolved(&config);
        let loader = Loader { checkpoint, compute };
        let stages = Stage::of(&config, compute)?;
        let table = loader.weight(&[layout::embedding(&config).to_owned()])?;
        let embedding = Embedding::new(table, config.embedding_scale);
        let lm_head = match config.tied_embeddings {
            // A table of embeddings that is looked up on a GPU stays in 16 bits.
            true if compute.has_codes_on_gpu() => {
                loader.linear(&[layout::embedding(&config).trim_end_matches(".weight").to_owned()], false)?
            }
            true => Linear::shared(embedding.weight()),
            false => loader.linear(&["lm_head".to_owned()], false)?,
        };
        let encoder = Encoder::load(&loader, &config)?;
        let bias = position_bias::load(&loader, &config, &LayerNames::new(&config, 0))?;
        let mut layers = vec![];
        for stage in stages.iter() {
            let loader = Loader { checkpoint, compute: &compute.on(&stage.device) };
            for i in stage.layers.clone() {
                layers.push(Layer::load(&loader, &config, &LayerNames::new(&config, i), i)?.biased(bias.clone()));
            }
        }
        // A soft cap makes ties of logits that a prefilter tells apart.
        let lm_head = if config.final_soft_cap.is_some() {
            LmHead::unfiltered(lm_head, compute)
        } else {
            LmHead::new(lm_head, compute)
        };
        let final_norm = Norm::load(&loader, layout::final_norm(&config), config.norm_plus_one)?;
        let integers = compute.integers();
        let draft_head = match (integers.draft_weights, integers.weights) {
            (DraftWeights::Int8, Weights::Stored) => {
                lm_head.in_eight_bits(integers).map_err(|error| loader.wrong("lm_head", error))?
            }
            _ => None,
        };
        let (rope, compute) = (Rope::new(&config.rope), compute.clone());
        Ok(Self { config, compute, embedding, encoder, layers, stages, final_norm, lm_head, draft_head, rope })
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

    /// Bytes of weights that one greedy step reads, which needs nothing but the argmax ([`Self::top_tokens`]).
    pub fn bytes_per_greedy_step(&self) -> usize {
        self.lm_head.bytes_for_top_tokens() + self.layers.iter().map(Layer::bytes).sum::<usize>()
    }

    /// A cache for one sequence of at most `context` tokens. It grows as tokens come, and never beyond what the model's
    /// positions and uncommitted rows need.
    pub fn new_cache(&self, context: usize) -> KvCache {
        let size = (context.min(self.config.max_positions), 0);
        KvCache::over(self.stages.clone(), &self.config, &self.compute, &self.rope, size)
    }

    /// Whether the model reads a source before its text ([`Self::read_source`]).
    pub fn has_encoder(&self) -> bool {
        self.encoder.is_some()
    }

    /// Reads a source for the text that `cache` is for, which begins anew; a source that it has read last is not
    /// encoded again. The source counts among the cache's tokens.
    ///
    /// # Shapes
    /// Result `[tokens, d]`: the encoder's states after its final norm.
    ///
    /// # Errors
    /// When the model has no encoder, or the source is empty, does not fit, or holds a token outside the vocabulary.
    pub fn read_source<'a>(&self, tokens: &[Token], cache: &'a mut KvCache) -> Result<&'a EncodedSource, ModelError> {
        let encoder = self.encoder.as_ref().ok_or(ModelError::NoEncoder)?;
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let x = self.embed(tokens)?;
        cache.truncate(0);
        cache.check_context(tokens.len())?;
        let cross = self.layers.iter().filter_map(Layer::cross);
        Ok(cache.begin_source(tokens, || encoder.encode(&self.config, &self.rope, tokens, x, cross)))
    }

    /// The embeddings of tokens, as the first layer reads them.
    ///
    /// # Errors
    /// When a token is outside the vocabulary.
    pub fn embed(&self, tokens: &[Token]) -> Result<HiddenStates, ModelError> {
        self.check_tokens(tokens)?;
        Ok(self.embedding.look_up(tokens, self.compute.device()))
    }

    /// The embeddings of tokens that are on a GPU; all of them are within the vocabulary.
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
    /// As of [`Self::forward_batch`].
    pub fn forward(&self, plan: &PassPlan<'_>, cache: &mut KvCache, hooks: &Hooks) -> Result<PassOutput, ModelError> {
        self.forward_batch(&mut [Rows { plan: plan.clone(), cache }], hooks)
    }

    /// One forward pass over rows of several sequences, each with its own cache. On the CPU a sequence's results do not
    /// depend on which others it is computed with.
    ///
    /// # Shapes
    /// The output has the rows of all sequences, one after another.
    ///
    /// # Errors
    /// When a plan contradicts itself, the model, its cache or the other plans, a token is outside the vocabulary, or
    /// there are no rows. Caches do not change then.
    pub fn forward_batch(&self, batch: &mut [Rows<'_>], hooks: &Hooks) -> Result<PassOutput, ModelError> {
        let (layers, skipped) = self.check_batch(batch, hooks)?;
        let mut passes = SmallVec::<[Pass<'_>; 1]>::new();
        let mut streams = SmallVec::<[HiddenStates; 1]>::new();
        let mut caches = Caches::new();
        for Rows { plan, cache } in batch {
            cache.begin(plan.mask, plan.positions, &layers, skipped.is_some());
            let (kvs, view) = cache.parts();
            let pass = Pass::new(&self.config, &view, plan.mask, plan.inputs.tokens());
            streams.push(self.enter(&plan.inputs, &pass));
            passes.push(pass);
            caches.push(kvs);
        }
        join_tables(&mut passes);
        let alone = if streams.len() == 1 { streams.pop() } else { None };
        let x = alone.unwrap_or_else(|| HiddenStates::concat(&streams));
        let output = self.run(x, &passes, &mut caches, (layers, skipped), hooks);
        Ok(PassOutput {
            hidden: unpad(output.hidden, &passes),
            hooks: output.hooks.into_iter().map(|states| unpad(states, &passes)).collect(),
            stream: output.stream.map(|stream| unpad(stream, &passes)),
        })
    }

    /// The layers of a batch and the sub-layers left out, if all of its plans can be run as they are.
    fn check_batch<'a>(&self, batch: &[Rows<'a>], hooks: &Hooks) -> Result<Run<'a>, ModelError> {
        let bounds = Bounds {
            layers: self.config.layers,
            hidden_size: self.config.hidden_size,
            max_positions: self.config.max_positions,
            is_host: self.compute.is_host(),
        };
        let mut all: Option<Range<usize>> = None;
        for Rows { plan, cache } in batch {
            if plan.inputs.rows() == 0 {
                return Err(ModelError::EmptyPrompt);
            }
            self.check_tokens(plan.inputs.tokens())?;
            if let Inputs::Rows { rows, .. } = plan.inputs {
                rows.iter().try_for_each(|row| {
                    if let Input::Token(token) = row { self.check_tokens(&[*token]) } else { Ok(()) }
                })?;
            }
            let layers = plan.check(&bounds)?;
            if self.encoder.is_some() && cache.source().is_none() {
                return Err(ModelError::NoSource);
            }
            cache.check(plan.mask, &layers, plan.skipped.is_some())?;
            if plan.skipped != batch[0].plan.skipped {
                return Err(PlanError::SkippedTogether.into());
            }
            match &all {
                Some(first) if *first != layers => {
                    return Err(PlanError::Together { first: first.clone(), other: layers }.into());
                }
                _ => all = Some(layers),
            }
        }
        let Range { start, end } = all.clone().ok_or(ModelError::EmptyPrompt)?;
        match hooks.layers().iter().find(|&&hook| hook < start || hook > end) {
            Some(&hook) => Err(PlanError::Hook { hook, start, end }.into()),
            None => Ok((start..end, batch.first().and_then(|rows| rows.plan.skipped))),
        }
    }

    /// The residual stream in front of a pass's first layer, with the pass's padding.
    fn enter(&self, inputs: &Inputs<'_>, pass: &Pass<'_>) -> HiddenStates {
        let device = self.compute.device();
        match (*inputs, pass) {
            (Inputs::Tokens(_), Pass::Device { pass_table, .. }) => {
                HiddenStates::on_device(self.embedding.select(pass_table.tokens()))
            }
            (Inputs::Tokens(tokens), Pass::Host { .. }) => self.embedding.look_up(tokens, device),
            (Inputs::Rows { rows, table }, _) => pad(self.embedding.look_up_rows(rows, table, device), pass),
            (Inputs::States(states), _) => pad(states.clone(), pass),
        }
    }

    /// Some layers on a residual stream of all passes' rows, padding included.
    fn run(
        &self,
        x: HiddenStates,
        passes: &[Pass<'_>],
        caches: &mut Caches<'_>,
        (layers, skipped): Run<'_>,
        hooks: &Hooks,
    ) -> PassOutput {
        let eps = self.config.norm_eps;
        let mut hooked: SmallVec<[Option<HiddenStates>; 4]> = hooks.layers().iter().map(|_| None).collect();
        let mut hook = |entered: usize, stream: ResidualStream| {
            if !hooks.layers().contains(&entered) {
                return stream;
            }
            let x = stream.sum();
            for (slot, _) in hooked.iter_mut().zip(hooks.layers()).filter(|(_, layer)| **layer == entered) {
                *slot = Some(self.moved(x.clone(), 0));
            }
            x.into()
        };
        let mut stream = ResidualStream::from(x);
        for (stage, layers) in self.stages_of(&layers) {
            let moved = self.passes_at(stage, passes);
            let passes = moved.as_deref().unwrap_or(passes);
            stream = self.stream_at(stage, stream);
            for i in layers {
                stream = hook(i, stream);
                let mut kvs: SmallVec<[&mut LayerKv; 1]> = caches.iter_mut().map(|layers| &mut layers[i]).collect();
                stream = match skipped {
                    None => self.layers[i].forward(None, stream, eps, passes, &mut kvs),
                    Some(skipped) => {
                        let left_out = (skipped.attention(i), skipped.mlp(i));
                        self.layers[i].forward_partly(stream, eps, passes, &mut kvs, left_out)
                    }
                };
            }
        }
        let stream = hook(layers.end, self.stream_at(0, stream));
        let (x, hidden) = stream.normed(&self.final_norm, eps);
        let stream = (layers.end < self.layers.len()).then_some(x);
        PassOutput { hidden, hooks: hooked.into_iter().flatten().collect(), stream }
    }
}

/// The layers that run, and the sub-layers of them that are left out.
type Run<'a> = (Range<usize>, Option<&'a SkippedSublayers>);

/// The layers of each sequence's cache.
type Caches<'a> = SmallVec<[&'a mut [LayerKv]; 1]>;
