//! Methods that run the backbone's own layers with gradients.

use super::super::job::Job;
use super::super::trajectories::Trajectories;
use super::{Backbone, held, refuse_quantised};
use crate::failure::Failure;
use gorgon_data::shard::Row;
use gorgon_draft::medusa::{Heads, MedusaConfig};
use gorgon_draft::probes::{ProbeTraining, SpaceConfig};
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;
use gorgon_train::config::{CllmConfig, FittedWeights, MedusaTwoConfig, SpaceSftConfig, TrainConfig};
use gorgon_train::llama::Llama;
use gorgon_train::lora::{Lora, NetworkWeights};
use gorgon_train::methods::{CllmFitting, Conversations, MedusaTwoFitting, ProbeFitting, SpaceSftFitting};
use std::path::Path;

/// The network of a backbone, for sequences of at most `longest` tokens.
fn llama(checkpoint: &Checkpoint, data: &Conversations, longest: usize) -> Result<Llama, Failure> {
    let decoder = &data.features.decoder;
    let unfit = |error: String| Failure::input(format!("{}: {error}", checkpoint.dir().display()));
    decoder.compute().check_whole("a training of the model's own layers")?;
    Llama::of(decoder.config(), longest, decoder.compute().device().clone()).map_err(unfit)
}

/// How the probes of a config are fitted in a model.
///
/// # Errors
/// When its method has none.
pub fn probes(config: &TrainConfig, model: &ModelConfig) -> Result<ProbeTraining, Failure> {
    let found = config.method.probes(model.hidden_size, model.vocab_size);
    found.ok_or_else(|| Failure::run(format!("{} has no probes", config.method.name())))
}

impl Backbone {
    /// Medusa heads on it, and an adapter for itself.
    ///
    /// # Errors
    /// When the backbone is no plain Llama, cannot be read, or the settings of the training are wrong.
    pub fn medusa_two(
        self,
        config: &TrainConfig,
        medusa: MedusaConfig,
        medusa2: &MedusaTwoConfig,
    ) -> Result<Job<MedusaTwoFitting>, Failure> {
        refuse_quantised(self.checkpoint.dir(), &self.model)?;
        let lm_head = self.lm_head(Some(held(config, true)))?;
        let Self { checkpoint, model, data, longest, .. } = self;
        let llama = llama(&checkpoint, &data, longest)?;
        let lora = Lora::new(medusa2.lora.clone(), llama.load(&checkpoint).map_err(Failure::training)?);
        let heads = Heads {
            config: medusa,
            hidden_size: model.hidden_size,
            vocab_size: model.vocab_size,
            chunk_rows: config.chunk_rows,
        };
        let steps = config
            .training
            .settings(data.packing.steps_per_epoch(), config.seed)
            .map_err(|errors| Failure::settings(&errors))?;
        let (config_two, steps) = (medusa2.clone(), steps.schedule.steps);
        let objective =
            MedusaTwoFitting { heads, lm_head, llama, lora, base: checkpoint, config: config_two, steps, data };
        Job::new(objective, config)
    }

    /// Probes in it.
    ///
    /// # Errors
    /// When the backbone is no plain Llama or cannot be read, or the settings of the training are wrong.
    pub fn probes(self, config: &TrainConfig) -> Result<Job<ProbeFitting>, Failure> {
        refuse_quantised(self.checkpoint.dir(), &self.model)?;
        let lm_head = self.lm_head(Some(held(config, true)))?;
        let Self { checkpoint, model, data, longest, .. } = self;
        let llama = llama(&checkpoint, &data, longest)?;
        let weights = llama.load_layers(&checkpoint).map_err(Failure::training)?;
        let (training, chunk_rows) = (probes(config, &model)?, config.chunk_rows);
        let objective = ProbeFitting::new(training, weights, data, lm_head, chunk_rows, config.seed);
        Job::new(objective.map_err(Failure::training)?, config)
    }

    /// The backbone and a mask token in it.
    ///
    /// # Errors
    /// When it is no plain Llama, has no such token or cannot be read, or the settings of the training are wrong.
    pub fn space_sft(self, config: &TrainConfig, space: &SpaceSftConfig) -> Result<Job<SpaceSftFitting>, Failure> {
        refuse_quantised(self.checkpoint.dir(), &self.model)?;
        let lm_head = self.lm_head(Some(held(config, true)))?;
        let Self { checkpoint, model, data, longest, .. } = self;
        let probes = SpaceConfig { masks: space.masks, mask_token: space.mask_token, ..SpaceConfig::default() };
        let training = ProbeTraining::space(&probes, model.hidden_size, model.vocab_size);
        let start = training.start.unwrap_or_default();
        if start as usize >= model.vocab_size {
            let message = format!("space_sft.mask_token = {start}: the model has {} tokens", model.vocab_size);
            return Err(Failure::input(message));
        }
        let llama = llama(&checkpoint, &data, longest + space.masks)?;
        let network = llama.load(&checkpoint).map_err(Failure::training)?;
        let weights = match space.weights {
            FittedWeights::Lora => NetworkWeights::Lora(Lora::new(space.lora.clone(), network)),
            FittedWeights::Full => NetworkWeights::Full(network),
        };
        let (chunk_rows, config_space, seed) = (config.chunk_rows, space.clone(), config.seed);
        let (base, shape) = (checkpoint, training.shape);
        let objective = SpaceSftFitting {
            llama,
            weights,
            base,
            lm_head,
            chunk_rows,
            config: config_space,
            shape,
            start,
            seed,
            data,
        };
        Job::new(objective, config)
    }

    /// The backbone itself, for Jacobi decoding.
    ///
    /// # Errors
    /// When it is no plain Llama or cannot be read, the shards have no trajectories of it, or the settings of the
    /// training are wrong.
    pub fn cllm(self, config: &TrainConfig, cllm: &CllmConfig) -> Result<Job<CllmFitting>, Failure> {
        refuse_quantised(self.checkpoint.dir(), &self.model)?;
        let lm_head = self.lm_head(Some(held(config, true)))?;
        let Self { checkpoint, model, data, longest, .. } = self;
        let llama = llama(&checkpoint, &data, longest)?;
        let start = llama.load(&checkpoint).map_err(Failure::training)?;
        let weights = match cllm.weights {
            FittedWeights::Lora => NetworkWeights::Lora(Lora::new(cllm.lora.clone(), start)),
            FittedWeights::Full => NetworkWeights::Full(start),
        };
        let read = |folder: &Path, rows: &[Row]| Trajectories::read(folder, checkpoint.dir(), rows, model.vocab_size);
        let fitted = read(&config.data, &data.rows)?;
        let measured = read(config.eval_data.as_deref().unwrap_or(&config.data), &data.held_out)?;
        let objective = CllmFitting {
            llama,
            weights,
            base: checkpoint,
            lm_head,
            chunk_rows: config.chunk_rows,
            config: cllm.clone(),
            seed: config.seed,
            block: fitted.block,
            trajectories: fitted.by_row,
            held_out: data.held_out.iter().map(|row| row.row).zip(measured.by_row).collect(),
            data,
        };
        Job::new(objective, config)
    }
}
