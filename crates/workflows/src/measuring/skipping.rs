//! Search for the sub-layers that a model drafts fastest without.

use crate::console::BarStyle;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{load, prompts};
use gorgon_bench::measure::{BenchPrompt, Comparison};
use gorgon_bench::skip_search::{self, Found};
use gorgon_core::accept::Greedy;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::ChainTree;
use gorgon_draft::skip::{SkipDrafter, Sublayers};
use gorgon_infer::Limits;
use gorgon_model::config::ModelConfig;
use gorgon_model::pass::SkippedSublayers;
use std::path::PathBuf;

/// Drafts of a chain.
const CHAIN: usize = 8;

/// Settings of a search.
#[derive(Clone, Debug)]
pub struct Options {
    /// A model folder or a repo id.
    pub model: String,
    /// A file of prompts.
    pub prompts: PathBuf,
    /// Prompts at most.
    pub limit: usize,
    /// New tokens of an answer at most.
    pub max_new_tokens: usize,
    /// How often a score is taken at most.
    pub evaluations: usize,
}

/// Searches by greedy tokens per second of answers to the prompts, prefill left out.
///
/// # Errors
/// When model or prompts are wrong.
pub fn search(options: &Options, settings: &Settings) -> Result<(Sublayers, Found), Failure> {
    let dir = load::folder(&options.model, settings)?;
    let config = ModelConfig::read(&dir)?;
    let renderer = prompts::renderer(&dir, None, settings)?;
    let (context, new_tokens) = (load::context(&config, settings)?, options.max_new_tokens);
    let openings = prompts::load(&options.prompts, &renderer, options.limit, context, new_tokens, settings)?;
    let prompts: Vec<BenchPrompt> = openings.into_iter().map(|opening| opening.prompt).collect();
    let longest = prompts.iter().map(|prompt| prompt.ids.len()).max().unwrap_or(0);
    let decoder = load::decoder(&dir, longest + new_tokens, settings)?;
    let chain = ChainTree::new(CHAIN).map_err(Failure::run)?;
    let bar = settings.console.bar(BarStyle::Count, "scores", options.evaluations as u64);
    let mut score = |skipped: &SkippedSublayers| {
        let [attention, mlp] = skipped.lists();
        let mut drafter = SkipDrafter::new("skip".into(), Sublayers { attention, mlp }, None);
        let mut comparison = Comparison {
            decoder: &decoder,
            drafter: &mut drafter,
            builder: &chain,
            rule: &Greedy,
            limits: Limits { max_new_tokens: new_tokens, end_tokens: config.eos_tokens.clone() },
            recorded: None,
            seed: settings.seed,
        };
        let mut target = comparison.target(longest);
        let (mut tokens, mut seconds) = (0, 0.0);
        for prompt in &prompts {
            let generation = comparison.drafted(&mut target, &prompt.ids)?;
            tokens += generation.ids.len() - 1;
            seconds += generation.decode_time.as_secs_f64();
        }
        bar.inc(1);
        Ok::<_, Failure>(if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 })
    };
    let found =
        skip_search::search(config.layers, options.evaluations, &mut SeededRandom::new(settings.seed), &mut score)?;
    let [attention, mlp] = found.skipped.lists();
    Ok((Sublayers { attention, mlp }, found))
}
