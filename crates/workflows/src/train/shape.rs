//! The plan of a training from the model's `config.json` alone: before there are weights, or before there is data.

use super::backbone::{check_folder, probes};
use crate::absent;
use crate::estimate::{Disk, Plan};
use crate::failure::Failure;
use crate::settings::Settings;
use crate::units::{bytes, count, duration};
use gorgon_data::shard;
use gorgon_draft::block::BlockShape;
use gorgon_draft::eagle::EagleShape;
use gorgon_draft::eagle::three::Eagle3Shape;
use gorgon_draft::hydra::{HydraHeads, HydraShape};
use gorgon_draft::kangaroo::KangarooShape;
use gorgon_draft::layer::LayerShape;
use gorgon_draft::medusa::Heads;
use gorgon_draft::mtp::{MtpHeads, MtpShape};
use gorgon_draft::parameter::ParameterSpec;
use gorgon_draft::probes::ProbeTraining;
use gorgon_model::config::ModelConfig;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use gorgon_train::config::{MethodConfig, TrainConfig};
use gorgon_train::methods::{HeadStack, at_work};
use gorgon_train::micro_batch;
use serde_json::{Value, json};
use std::path::Path;

/// Facts that a plan from a shape cannot measure, as the user declares them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assumed {
    /// Tokens of the data; unknown before there is any.
    pub tokens: Option<u64>,
    /// Floating-point operations per second of the device, in units of 10¹²; time is unknown without.
    pub teraflops: Option<f64>,
}

/// The cost of a method on a backbone.
struct Cost {
    specs: Vec<ParameterSpec>,
    /// Bytes of a micro-batch at work.
    at_work: usize,
    /// Products with the parameters in a step: applications of what is trained.
    applications: usize,
    /// Products with the backbone's LM head at every token: one without gradients, or two.
    lm_head_products: usize,
}

/// True where a plan has to go by shapes: the model has no weights yet, or there are no shards yet.
pub fn is_needed(config: &TrainConfig, dir: &Path) -> bool {
    Checkpoint::open(dir).is_err() || shard::files(&config.data).map_or(true, |files| files.is_empty())
}

/// Says the plan of a training by formula, and returns it as a document; numbers that nothing declares are `null`.
///
/// # Errors
/// When the model's config is wrong, or the method has no plan by formula.
pub fn plan(config: &TrainConfig, dir: &Path, assumed: Assumed, settings: &Settings) -> Result<Value, Failure> {
    let (document, plan) = by_formula(config, dir, assumed)?;
    let from = dir.join("config.json");
    settings.console.say(format!("planned by formula from {}: weights or shards are not there yet", from.display()));
    settings.console.say_all(missing(config, dir).iter().map(|missing| format!("note: {missing}")));
    report(&document, &plan, settings);
    Ok(document)
}

/// The plan of a training by formula, as a document too.
///
/// # Errors
/// When the model's config is wrong, or the method has no plan by formula.
pub fn by_formula(config: &TrainConfig, dir: &Path, assumed: Assumed) -> Result<(Value, Plan), Failure> {
    let model = ModelConfig::read(dir)?;
    let cost = Cost::of(config, &model)?;
    let size = |specs: &[ParameterSpec]| specs.iter().map(|spec| spec.shape.iter().product::<usize>()).sum::<usize>();
    let parameters = size(&cost.specs);
    let backbone: usize = layout::tensors(&model).iter().map(|spec| spec.shape.iter().product::<usize>()).sum();
    let training = &config.training;
    let per_step = (training.gradient_accumulation * training.micro_batch_tokens) as u64;
    let steps = match (training.steps, assumed.tokens) {
        (0, Some(tokens)) => Some(((tokens as f64 * training.epochs / per_step as f64).ceil() as u64).max(1)),
        (0, None) => None,
        (steps, _) => Some(steps),
    };
    // AdamW keeps two moments of every value.
    let fit = training.settings(steps.unwrap_or(u64::MAX / 2), config.seed).map_err(|e| Failure::settings(&e))?;
    let mut disk = Disk::of_run(parameters, 2 * parameters, cost.specs.len(), &fit);
    disk.other = 4 * parameters as u64;
    let lm_head = 4 * model.vocab_size * model.hidden_size;
    let at_work = (cost.at_work * training.gradient_accumulation + lm_head) as u64;
    let memory = micro_batch::fixed_bytes(parameters, training.gradient_accumulation) + at_work;
    let flops = cost.flops_per_token(&model, backbone, parameters);
    let seconds = steps.zip(assumed.teraflops).map(|(steps, rate)| flops * (steps * per_step) as f64 / (rate * 1e12));
    let plan = Plan { memory, memory_by_formula: memory, disk, seconds, ..Plan::default() };
    let mut document = plan.document();
    let own = json!({
        "method": config.method.name(), "by_formula_alone": true, "parameters": parameters, "steps": steps,
        "backbone_parameters": backbone, "backbone_bytes": 2 * backbone, "tokens_per_step": per_step,
        "flops_per_token": flops, "assumed_tokens": assumed.tokens, "assumed_tflops": assumed.teraflops,
    });
    if let (Some(all), Value::Object(own)) = (document.as_object_mut(), own) {
        all.extend(own);
    }
    Ok((document, plan))
}

/// The paths that a plan from weights and data would have read, and that lack them.
fn missing(config: &TrainConfig, dir: &Path) -> Vec<String> {
    let weights = Checkpoint::open(dir).err().map(|error| error.to_string());
    let folders = std::iter::once(&config.data).chain(&config.eval_data);
    weights.into_iter().chain(folders.filter_map(|folder| without_shards(folder))).collect()
}

/// Why a folder has no shards, and where they may be.
fn without_shards(folder: &Path) -> Option<String> {
    if let Err(failure) = check_folder(folder) {
        return Some(format!("{}; {}", failure.message(), failure.advice().unwrap_or_default()));
    }
    match shard::files(folder) {
        Ok(_) => None,
        Err(_) if folder.is_dir() => {
            Some(format!("{}: no shards are here yet; {}", folder.display(), absent::inside(folder)))
        }
        Err(error) => Some(error.to_string()),
    }
}

fn report(document: &Value, plan: &Plan, settings: &Settings) {
    let say = |line: String| settings.console.say(line);
    let number = |key: &str| document[key].as_u64().unwrap_or_default();
    say(format!(
        "{} with {} parameters; memory {}, and {} for the backbone in 16 bits; {}",
        document["method"].as_str().unwrap_or_default(),
        count(u128::from(number("parameters"))),
        bytes(plan.memory),
        bytes(number("backbone_bytes")),
        plan.disk.words()
    ));
    say(match (document["steps"].as_u64(), plan.seconds) {
        (Some(steps), Some(seconds)) => format!("{steps} steps; about {} at the assumed rate", duration(seconds)),
        (Some(steps), None) => format!("{steps} steps; time unknown without --assume-tflops"),
        (None, _) => "steps and time unknown without --assume-tokens".into(),
    });
}

impl Cost {
    fn of(config: &TrainConfig, model: &ModelConfig) -> Result<Self, Failure> {
        let (tokens, chunk) = (config.training.micro_batch_tokens, config.chunk_rows);
        let (longest, layer) = (config.training.max_seq_len.min(model.max_positions), LayerShape::of(model));
        Ok(match &config.method {
            MethodConfig::Medusa { medusa } => {
                let (hidden_size, vocab_size) = (model.hidden_size, model.vocab_size);
                Self::of_heads(&Heads { config: *medusa, hidden_size, vocab_size, chunk_rows: chunk }, config, model)
            }
            MethodConfig::Hydra { hydra } => {
                Self::of_heads(&HydraHeads::new(HydraShape { config: *hydra, layer }, longest, chunk), config, model)
            }
            MethodConfig::Mtp { mtp } => {
                let shape = MtpShape { config: *mtp, layer, first_layer: model.layers };
                Self::of_heads(&MtpHeads::new(shape, longest, chunk), config, model)
            }
            MethodConfig::Eagle { eagle } => {
                let specs = EagleShape::of(model, eagle.fc_bias).parameters();
                Self::of_layer(specs, at_work::of_eagle(&layer, chunk, tokens))
            }
            MethodConfig::Eagle3 { eagle3 } => {
                let vocabulary = eagle3.draft_vocab.min(model.vocab_size);
                let shape = Eagle3Shape::of(model, eagle3.hooks_of(model.layers)?, vocabulary);
                let at_work = at_work::of_eagle3(&layer, vocabulary, eagle3.steps, chunk, tokens);
                Self { specs: shape.parameters(), at_work, applications: eagle3.steps, lm_head_products: 1 }
            }
            MethodConfig::Kangaroo { kangaroo } => {
                kangaroo.check_layers(model.layers).map_err(Failure::input)?;
                Self::of_adapter(&KangarooShape { config: *kangaroo, layer }, chunk, tokens)
            }
            MethodConfig::Ppd { .. } | MethodConfig::Pass { .. } | MethodConfig::Space { .. } => {
                Self::of_probes(&probes(config, model)?, model, chunk, tokens)
            }
            MethodConfig::Block { block } => Self::of_block(&block.shape(model)?, chunk, tokens),
            MethodConfig::MedusaTwo { .. }
            | MethodConfig::LayerSkip { .. }
            | MethodConfig::SpaceSft { .. }
            | MethodConfig::Cllm { .. }
            | MethodConfig::DistillSpec { .. } => return Err(needs_weights(config)),
        })
    }

    /// An adapter on an early exit.
    fn of_adapter(shape: &KangarooShape, chunk: usize, tokens: usize) -> Self {
        Self::of_layer(shape.parameters(), at_work::of_adapter(&shape.layer, chunk, tokens))
    }

    /// A layer that is applied once, with the LM head forward, and forward and backward for the loss.
    fn of_layer(specs: Vec<ParameterSpec>, at_work: usize) -> Self {
        Self { specs, at_work, applications: 1, lm_head_products: 3 }
    }

    /// A block drafter with a block at every token.
    fn of_block(shape: &BlockShape, chunk: usize, tokens: usize) -> Self {
        let at_work = at_work::of_block(shape, chunk, tokens, tokens);
        let slots = shape.slots;
        Self { specs: shape.parameters(), at_work, applications: slots, lm_head_products: 2 * slots }
    }

    /// Probes behind every token.
    fn of_probes(training: &ProbeTraining, model: &ModelConfig, chunk: usize, tokens: usize) -> Self {
        let (shape, layer) = (&training.shape, LayerShape::of(model));
        let at_work = at_work::of_probes(shape, (&layer, model.layers), chunk, tokens, tokens);
        let rows = shape.places * shape.members;
        Self { specs: shape.parameters(), at_work, applications: rows, lm_head_products: 2 * shape.places }
    }

    fn of_heads(heads: &impl HeadStack, config: &TrainConfig, model: &ModelConfig) -> Self {
        let tokens = config.training.micro_batch_tokens;
        let at_work = at_work::of_heads(heads, model.vocab_size, heads.chunk_rows(), tokens, false);
        // A shared LM head is multiplied with in both directions; an own one is among the parameters.
        let lm_head_products = if config.method.has_own_lm_heads() { 0 } else { 2 * heads.count() };
        Self { specs: heads.parameters(), at_work, applications: 1, lm_head_products }
    }

    /// Floating-point operations for a token: the backbone forward, what is trained in both directions, the LM head.
    /// Attention scores are left out.
    fn flops_per_token(&self, model: &ModelConfig, backbone: usize, parameters: usize) -> f64 {
        let lm_head = model.vocab_size * model.hidden_size;
        let layers = backbone.saturating_sub(lm_head * if model.tied_embeddings { 1 } else { 2 });
        2.0 * layers as f64
            + 6.0 * (self.applications * parameters) as f64
            + 2.0 * (self.lm_head_products * lm_head) as f64
    }
}

/// The failure of a method whose plan reads weights and conversations.
fn needs_weights(config: &TrainConfig) -> Failure {
    let message = format!("{} is planned with weights and data only", config.method.name());
    Failure::input(message).hint("fetch the model and distil first")
}
