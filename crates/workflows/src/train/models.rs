//! Trainings that fit a whole model: a draft model beside a frozen backbone, or the backbone itself.

use super::backbone::{Backbone, held, refuse_quantised};
use super::job::Job;
use crate::failure::Failure;
use crate::load;
use gorgon_draft::draft_model::DraftModel;
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;
use gorgon_train::config::{DistillSpecConfig, FittedWeights, LayerSkipConfig, TrainConfig};
use gorgon_train::llama::Llama;
use gorgon_train::lora::{Lora, NetworkWeights};
use gorgon_train::methods::{DistillSpecFitting, Distilled, Earlier, LayerSkipFitting, Skipping};
use serde_json::Value;
use std::path::Path;

impl Backbone {
    /// A draft model for it. `dir` is the backbone's folder.
    ///
    /// # Errors
    /// When the draft model is missing, has other tokens or cannot be fitted, or the settings of the training
    /// are wrong.
    pub fn distill_spec(
        self,
        config: &TrainConfig,
        distill_spec: &DistillSpecConfig,
        dir: &Path,
    ) -> Result<Job<DistillSpecFitting>, Failure> {
        let lm_head = self.lm_head(Some(held(config, false)))?;
        let Self { model, data, longest, .. } = self;
        let draft = &distill_spec.draft;
        let small = draft_config(draft, (dir, &model), longest)?;
        refuse_quantised(draft, &small)?;
        let unfit = |reason: String| Failure::input(format!("{}: {reason}", draft.display()));
        let device = data.features.decoder.compute().device();
        let llama = Llama::of(&small, longest.max(1), device.clone()).map_err(unfit)?;
        let draft_checkpoint = Checkpoint::open(draft)?;
        draft_checkpoint.check(&small)?;
        let start = llama.load(&draft_checkpoint).map_err(Failure::training)?;
        let document = document(draft)?;
        let (distill_spec, chunk_rows, seed) = (distill_spec.clone(), config.chunk_rows, config.seed);
        let earlier = distill_spec.earlier.iter().map(|named| {
            let earlier = load::fitted_model(named);
            draft_config(&earlier, (dir, &model), longest)?;
            load::draft_model(&earlier, &data.features.decoder)
        });
        let models = earlier.collect::<Result<_, Failure>>()?;
        let earlier = Earlier { models, top_k: distill_spec.earlier_top_k };
        let with = Distilled { config: distill_spec, lm_head, chunk_rows, seed, longest, earlier, data };
        Job::new(DistillSpecFitting::new(llama, start, document, with), config)
    }

    /// The model itself, whose early layers are to draft. `dir` is its folder.
    ///
    /// # Errors
    /// When the model is no plain Llama, has too few layers, cannot be read, or the settings of the training are wrong.
    pub fn layerskip(
        self,
        config: &TrainConfig,
        layerskip: &LayerSkipConfig,
        dir: &Path,
    ) -> Result<Job<LayerSkipFitting>, Failure> {
        refuse_quantised(dir, &self.model)?;
        let Self { checkpoint, model, data, longest, .. } = self;
        let device = data.features.decoder.compute().device().clone();
        let unfit = |error: String| Failure::input(format!("{}: {error}", dir.display()));
        let llama = Llama::of(&model, longest.max(1), device).map_err(unfit)?;
        let start = llama.load(&checkpoint).map_err(Failure::training)?;
        let weights = match layerskip.weights {
            FittedWeights::Lora => NetworkWeights::Lora(Lora::new(layerskip.lora.clone(), start)),
            FittedWeights::Full => NetworkWeights::Full(start),
        };
        let training = config.training.settings(data.packing.steps_per_epoch(), config.seed);
        let steps = training.map_err(|errors| Failure::settings(&errors))?.schedule.steps;
        let (chunk_rows, seed) = (config.chunk_rows, config.seed);
        let with = Skipping { config: layerskip.clone(), chunk_rows, seed, steps };
        let objective = LayerSkipFitting::new(llama, weights, document(dir)?, data, with);
        Job::new(objective.map_err(Failure::training)?, config)
    }
}

/// The config of a draft model for a backbone in a folder and its conversations.
///
/// # Errors
/// When it is missing, has other tokens or is too short.
fn draft_config(draft: &Path, (dir, model): (&Path, &ModelConfig), longest: usize) -> Result<ModelConfig, Failure> {
    let unfit = |reason: String| Failure::input(format!("{}: {reason}", draft.display()));
    let small = ModelConfig::read(draft)?;
    DraftModel::check_vocabulary(draft, dir)?;
    if small.vocab_size != model.vocab_size {
        let (theirs, ours) = (small.vocab_size, model.vocab_size);
        return Err(unfit(format!("a vocabulary of {theirs} rows; the model's has {ours}")));
    }
    if longest > small.max_positions {
        let hint = format!("set training.max_seq_len to {} at most", small.max_positions);
        return Err(unfit(format!("its context is shorter than a conversation of {longest} tokens")).hint(hint));
    }
    Ok(small)
}

/// A model's `config.json`, for weights in f32.
fn document(dir: &Path) -> Result<Value, Failure> {
    let path = dir.join("config.json");
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format!("{}: {error}", path.display()));
    let bytes = gorgon_runs::file::read(&path, 16 << 20).map_err(|error| wrong(&error))?;
    let mut document: Value = gorgon_runs::json::read(&bytes).map_err(|error| wrong(&error))?;
    for key in ["torch_dtype", "dtype"] {
        if let Some(dtype) = document.get_mut(key) {
            *dtype = "float32".into();
        }
    }
    Ok(document)
}
