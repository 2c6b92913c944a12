//! Small T5 models, fitted from scratch to a synthetic task.

use crate::failure::Failure;
use crate::files;
use crate::fitting::Progress;
use crate::settings::Settings;
use gorgon_model::config::ModelConfig;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::random::{self, BYTE_VOCAB, T5Shape};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::optimizer::Optimizer;
use gorgon_train::schedule::Schedule;
use gorgon_train::t5::{T5, T5Fitting, Task, write_weights};
use gorgon_train::trainer::{FitSettings, Report, fit};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Letters of a source.
const LETTERS: (usize, usize) = (12, 24);

/// Held-out prompts beside the model.
const PROMPTS: u64 = 64;

/// The file of held-out prompts.
const PROMPTS_FILE: &str = "held-out.jsonl";

/// Tokens of the byte-level tokenizer that texts begin and end with.
const TOKENS: [u32; 2] = [256, 257];

/// Sizes and length of a fitting.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder to write.
    pub out: PathBuf,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Layers of the encoder, and of the decoder.
    pub layers: usize,
    /// Heads, which divide the width.
    pub heads: usize,
    /// Steps.
    pub steps: u64,
    /// Pairs of a step.
    pub pairs: usize,
    /// Highest learning rate.
    pub learning_rate: f64,
}

/// Fits a model to the task of [`Task`] and writes it with a byte-level tokenizer and held-out prompts. Returns sizes
/// and the last evaluation as a document.
///
/// # Errors
/// When the sizes do not fit each other, the folder holds something or cannot be written, a loss is not finite, or the
/// fitting is interrupted: nothing is written then.
pub fn execute(options: &Options, settings: &Settings) -> Result<Value, Failure> {
    if !options.hidden_size.is_multiple_of(options.heads) {
        let Options { hidden_size, heads, .. } = options;
        return Err(Failure::input(format!("--hidden-size {hidden_size}: no multiple of --heads {heads}")));
    }
    files::check_empty(&options.out)?;
    let shape = options.shape();
    let config = ModelConfig::from_json(&shape.config()).map_err(Failure::input)?;
    let network = T5::new(config, Compute::cpu(FloatFormat::F32).device().clone())?;
    let task = Task { seed: settings.seed, shortest: LETTERS.0, longest: LETTERS.1 };
    let objective = T5Fitting { network, task, pairs: options.pairs, tokens: TOKENS };
    let folder = tempfile::tempdir().map_err(Failure::run)?;
    let run = RunDir::create(folder.path(), "t5")?;
    let fit_settings = fit_settings(options, settings.seed);
    let progress = Progress::new(&run, &fit_settings, settings);
    let mut last = Value::Null;
    let stop = settings.console.stop_flag();
    let outcome = fit(&objective, &run, &fit_settings, &stop, &mut |report| {
        if let Report::Evaluation(record) = &report {
            last = json!(record);
        }
        progress.show(&report);
    });
    progress.finish();
    let outcome = outcome.map_err(Failure::training)?;
    if !outcome.finished {
        return Err(Failure::run(format!("stopped after step {}; nothing was written", outcome.step)));
    }
    let staged = files::staging(&options.out)?;
    random::write_description(&fitted(&shape), staged.path()).map_err(|error| Failure::io(staged.path(), &error))?;
    write_weights(staged.path(), &outcome.parameters)?;
    write_prompts(&task, staged.path())?;
    files::publish(staged, &options.out)?;
    let parameters: usize = outcome.parameters.iter().map(gorgon_train::parameters::Parameter::len).sum();
    Ok(json!({"out": options.out, "parameters": parameters, "steps": options.steps, "evaluation": last}))
}

impl Options {
    fn shape(&self) -> T5Shape {
        T5Shape {
            hidden_size: self.hidden_size,
            intermediate_size: 2 * self.hidden_size,
            encoder_layers: self.layers,
            layers: self.layers,
            heads: self.heads,
            head_dim: self.hidden_size / self.heads,
            vocab_size: BYTE_VOCAB,
            gated: true,
        }
    }
}

/// The config of a model whose weights were fitted.
fn fitted(shape: &T5Shape) -> Value {
    let mut config = shape.config();
    if let Some(config) = config.as_object_mut() {
        config.remove(random::MARK);
    }
    config
}

fn fit_settings(options: &Options, seed: u64) -> FitSettings {
    let every = (options.steps / 4).max(1);
    FitSettings {
        schedule: Schedule {
            peak: options.learning_rate,
            warmup_steps: options.steps / 20,
            steps: options.steps,
            min_lr_ratio: 0.05,
            restart: None,
        },
        optimizer: Optimizer::default(),
        max_grad_norm: 1.0,
        log_every: (options.steps / 40).max(1),
        eval_every: every,
        save_every: 0,
        save_total_limit: 1,
        seed,
        keep_start: false,
        evaluates: true,
        memory_limit: None,
    }
}

/// Held-out sources, with the answers that are right.
fn write_prompts(task: &Task, folder: &Path) -> Result<(), Failure> {
    let path = folder.join(PROMPTS_FILE);
    let lines = (0..PROMPTS).map(|number| {
        let pair = task.held_out(number);
        json!({"prompt": pair.source, "answer": pair.answer}).to_string() + "\n"
    });
    let text: String = lines.collect();
    gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::io(&path, &error))
}
