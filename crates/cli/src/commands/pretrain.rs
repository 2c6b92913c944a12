//! `gorgon pretrain`: a small Llama from scratch.

use crate::args::Fit;
use crate::config;
use crate::error::Failure;
use crate::fitting::{self, Progress};
use crate::printer::{bytes, count};
use crate::settings::Settings;
use gorgon_data::pack::Packing;
use gorgon_data::render::{Example, Renderer};
use gorgon_data::synth::{self, Dialogue, Split};
use gorgon_data::vocabulary;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::PretrainConfig;
use gorgon_train::llama::Llama;
use gorgon_train::pretrain::{self, Pretraining};
use gorgon_train::trainer::{FitSettings, fit};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn run(args: &Fit, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: PretrainConfig = config::load(&args.config, &args.overrides)?;
    config.training.check()?;
    config.model.with_vocabulary(config.tokenizer.size)?;
    let compute = settings.compute()?;
    if args.dry_run {
        let plan = format!("{} dialogues", config.data.synthetic);
        settings.talk.say(plan);
        return Ok(ExitCode::SUCCESS);
    }
    let stem = format!("pretrain-{}", fitting::stem(&config.out));
    let run = fitting::run_folder(&config.runs, &stem, args.resume.as_deref(), &config, &[], settings)?;
    settings.talk.say(format!("run folder {}", run.path().display()));
    let tokenizer = tokenizer(&config, &run, settings)?;
    let (objective, fit_settings, tokens) = prepare(&config, &tokenizer, compute.device(), settings)?;
    let stop = fitting::stop_flag()?;
    let progress = Progress::new(&run, &fit_settings, settings);
    let outcome = fit(&objective, &run, &fit_settings, &stop, &mut |report| progress.show(&report));
    progress.finish();
    let outcome = outcome.map_err(fitting::failure)?;
    fitting::plots(&run, PLOTS)?;
    if !outcome.finished {
        settings.talk.say(format!(
            "saved step {}; go on with: {}",
            outcome.step,
            fitting::resume_line(args, "pretrain", &run)
        ));
        return Ok(ExitCode::FAILURE);
    }
    let shape = config.model.with_vocabulary(config.tokenizer.size)?;
    std::fs::create_dir_all(&config.out).map_err(|e| Failure::run(format!("{}: {e}", config.out.display())))?;
    pretrain::write_model(&config.out, &shape, &outcome.parameters, tokens).map_err(fitting::failure)?;
    for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        fitting::copy(&tokenizer.join(name), &config.out.join(name))?;
    }
    settings.talk.say(format!("wrote {}", config.out.display()));
    Ok(ExitCode::SUCCESS)
}

const PLOTS: &[(&str, &str, &str, &[&str])] = &[
    ("loss.svg", "Loss of answers", "nats per token", &["answer_loss", "evaluation/answer_loss"]),
    ("accuracy.svg", "Answers' tokens predicted", "share", &["answer_top1", "evaluation/answer_top1"]),
];

/// The folder of the tokenizer: trained once, then taken from the run.
fn tokenizer(config: &PretrainConfig, run: &RunDir, settings: &Settings) -> Result<PathBuf, Failure> {
    if let Some(from) = &config.tokenizer.from {
        return Ok(from.clone());
    }
    let dir = run.path().join("tokenizer");
    // Written last of the three.
    if dir.join("generation_config.json").is_file() {
        return Ok(dir);
    }
    settings.talk.say(format!("training a tokenizer of {} tokens", config.tokenizer.size));
    std::fs::create_dir_all(&dir).map_err(|e| Failure::run(format!("{}: {e}", dir.display())))?;
    let dialogues = (0..config.tokenizer.conversations as u64).map(|i| synth::dialogue(config.seed, Split::Train, i));
    let texts = dialogues.flat_map(|dialogue| {
        let turns = dialogue.exchanges.into_iter().flat_map(|exchange| [exchange.user, exchange.assistant]);
        dialogue.system.into_iter().chain(turns).collect::<Vec<_>>()
    });
    vocabulary::train(texts, config.tokenizer.size, &dir)
        .map_err(|error| Failure::run(format!("{}: {error}", dir.display())))?;
    // A renderer reads a model's folder, and there is no model yet.
    let shape = config.model.with_vocabulary(config.tokenizer.size)?;
    pretrain::write_config(&dir, &shape, [0, 1]).map_err(fitting::failure)?;
    Ok(dir)
}

fn prepare(
    config: &PretrainConfig,
    tokenizer: &Path,
    device: &burn::tensor::Device,
    settings: &Settings,
) -> Result<(Pretraining, FitSettings, [u32; 2]), Failure> {
    let renderer = Renderer::load(tokenizer)?;
    let longest = config.training.max_tokens.min(config.model.max_positions);
    let render = |split, n| examples(&renderer, config.seed, split, n, longest);
    let (examples, held_out) =
        (render(Split::Train, config.data.synthetic)?, render(Split::HeldOut, config.data.held_out)?);
    let training = &config.training;
    let lengths = examples.iter().map(|e| e.ids.len()).collect();
    let packing = Packing::new(lengths, training.batch_tokens, training.batches_per_step, config.seed);
    let fit_settings = training.settings(packing.steps_per_epoch(), config.seed)?;
    let labels: usize = examples.iter().map(Example::labels).sum();
    if labels == 0 {
        return Err(Failure::input("no token of the data is the assistant's: there is nothing to learn from"));
    }
    let shape = config.model.with_vocabulary(renderer.text().vocab_size())?;
    let llama = Llama::new(shape, device.clone());
    let parameters: usize = llama.sizes().iter().sum();
    settings.talk.say(format!(
        "{} conversations, {} tokens, {} of them answers; {} parameters ({} as f16); {} steps",
        examples.len(),
        count(packing.tokens() as u128),
        count(labels as u128),
        count(parameters as u128),
        bytes(2 * parameters as u64),
        fit_settings.schedule.steps
    ));
    let ids = renderer.text().special_ids();
    let tokens = [ids.bos.unwrap_or(0), ids.eos.unwrap_or(1)];
    let objective = Pretraining::new(llama, shape, examples, held_out, packing, config.data.prompt_weight);
    Ok((objective, fit_settings, tokens))
}

/// Dialogues of a split, rendered.
fn examples(renderer: &Renderer, seed: u64, split: Split, n: u64, longest: usize) -> Result<Vec<Example>, Failure> {
    let one = |i: u64| {
        let Dialogue { system, exchanges, .. } = synth::dialogue(seed, split, i);
        let turns = exchanges.iter().map(|exchange| (exchange.user.as_str(), exchange.assistant.as_str()));
        let mut example = renderer.conversation(system.as_deref(), turns)?;
        example.truncate(longest);
        Ok(example)
    };
    (0..n).into_par_iter().map(one).collect::<Result<_, gorgon_data::render::RenderError>>().map_err(Failure::from)
}
