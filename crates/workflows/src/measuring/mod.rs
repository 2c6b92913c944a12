//! Measurements: the parts that `bench`, `verify`, `doctor` and `tree calibrate` share.

pub mod calibration;
pub mod prediction;
pub mod replaying;
pub mod side_by_side;
pub mod skipping;
pub mod sweep;

use crate::drafting::{DrafterChoice, Drafting, Loaded, recording};
use crate::failure::Failure;
use crate::load;
use crate::prompts::{self, Opening};
use crate::settings::Settings;
use gorgon_bench::measure::{self, BenchPrompt, Run};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::TreeChoice;
use gorgon_draft::choice::Drafters;
use gorgon_draft::drafter::NoDrafter;
use gorgon_infer::{Limits, RecordedPair, decode};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// Models, drafters and prompts of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// A model folder or a repo id.
    pub model: String,
    /// A folder of draft heads, or the run folder of a training.
    pub heads: Option<PathBuf>,
    /// The drafter.
    pub drafter: DrafterChoice,
    /// The tree, if it is named.
    pub tree: Option<TreeChoice>,
    /// A file of prompts.
    pub prompts: PathBuf,
    /// User turns of each conversation; later ones follow the model's own answers.
    pub turns: usize,
    /// Prompts at most.
    pub limit: usize,
    /// New tokens of an answer at most.
    pub max_new_tokens: usize,
    /// The acceptance rule.
    pub accept: RuleChoice,
    /// Temperature, top-k and top-p.
    pub transform: Transform,
    /// Whether answers continue past end tokens.
    pub ignore_eos: bool,
}

/// A loaded model with its drafter and the prompts to measure them on.
pub struct Setup {
    /// The model.
    pub decoder: Arc<Decoder>,
    /// The drafter and its tree, by name.
    pub drafting: Drafting,
    /// The drafter with its weights.
    pub loaded: Loaded,
    /// Makes further ones of the same weights, where a drafter keeps texts.
    drafters: Option<Drafters>,
    /// The acceptance rule.
    pub rule: Box<dyn AcceptanceRule>,
    /// Its name.
    pub rule_name: String,
    /// When answers end.
    pub limits: Limits,
    /// The prompts.
    pub prompts: Vec<BenchPrompt>,
    /// Recorded steps, on devices that record them.
    pub recorded: Option<RecordedPair>,
}

impl Setup {
    /// As [`Self::new`], with recorded steps where there are any.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn recorded(options: &Options, settings: &Settings) -> Result<Self, Failure> {
        Self::made(options, settings, true)
    }

    /// Reads prompts, heads and model, in this order.
    ///
    /// # Errors
    /// When one of them is missing or wrong.
    pub fn new(options: &Options, settings: &Settings) -> Result<Self, Failure> {
        Self::made(options, settings, false)
    }

    fn made(options: &Options, settings: &Settings, record: bool) -> Result<Self, Failure> {
        let (transform, choice) = (options.transform, options.accept.resolve(&options.transform));
        settings.warn_without_effect(&transform);
        let drafting =
            Drafting::resolve(options.heads.as_deref(), &options.drafter, options.tree.as_ref(), &settings.console)?;
        let drafting = drafting.or_best_tree(settings)?;
        if matches!(options.drafter, DrafterChoice::Oracle(_)) && !transform.is_greedy() {
            return Err(Failure::input("the oracle knows greedy text only: use temperature 0"));
        }
        let dir = load::folder(&options.model, settings)?;
        let drafting = drafting.for_text_of(&dir, (choice, transform), &settings.console)?;
        let config = ModelConfig::read(&dir)?;
        let renderer = prompts::renderer(&dir, options.heads.as_deref(), settings)?;
        let new_tokens = options.max_new_tokens;
        let context = load::context(&config, settings)?;
        let openings = prompts::load(&options.prompts, &renderer, options.limit, context, new_tokens, settings)?;
        let longest = openings.iter().map(|opening| opening.prompt.ids.len()).max().unwrap_or(0);
        let decoder = load::decoder(&dir, longest + new_tokens, settings)?;
        let end_tokens = if options.ignore_eos { vec![] } else { config.eos_tokens.clone() };
        let limits = Limits { max_new_tokens: new_tokens, end_tokens };
        let prompts = with_later_turns(openings, options.turns, (&decoder, context), &config.eos_tokens, new_tokens)?;
        let (rule, rule_name) = (choice.rule(transform), choice.to_string());
        let tokens = prompts.iter().map(|prompt| prompt.ids.len()).max().unwrap_or(0) + new_tokens;
        let recorded = if record { recording::steps(&drafting, &decoder, tokens, (choice, transform))? } else { None };
        let drafters = if drafting.keeps_texts() { Some(drafting.drafters(&decoder)?) } else { None };
        let loaded = match (&recorded, &drafters) {
            // Recorded steps have the heads on the device already.
            (Some(_), _) => Loaded::Other(Box::new(NoDrafter)),
            (None, Some(drafters)) => Loaded::Other(drafting.drafter(drafters)),
            (None, None) => drafting.load(&decoder, settings.seed)?,
        };
        let recorded = recorded.map(RecordedPair::new);
        Ok(Self { decoder, drafting, loaded, drafters, rule, rule_name, limits, prompts, recorded })
    }

    /// Decodes some prompts plainly and drafted, after one that is not counted. The drafter knows no text before, so no
    /// answer is drafted from an earlier round's.
    ///
    /// # Errors
    /// When a prompt does not fit, or the model or the drafter fails.
    pub fn run_round(
        &mut self,
        prompts: &[BenchPrompt],
        round: usize,
        seed: u64,
        observe: &mut dyn FnMut(),
    ) -> Result<Vec<Run>, Failure> {
        let mut target = self.comparison(seed).warmed_up(prompts)?;
        if let Some(drafters) = &self.drafters {
            self.loaded = Loaded::Other(self.drafting.drafter(drafters));
        }
        self.drafting.live_store().iter().for_each(|store| store.clear());
        Ok(self.comparison(seed).run_round(&mut target, prompts, round, observe)?)
    }

    /// The pair of plain and drafted decoding to measure; it borrows everything but the prompts.
    pub fn comparison(&mut self, seed: u64) -> measure::Comparison<'_> {
        measure::Comparison {
            decoder: &self.decoder,
            drafter: self.loaded.drafter(),
            builder: self.drafting.builder.as_ref(),
            rule: self.rule.as_ref(),
            limits: self.limits.clone(),
            recorded: self.recorded.as_mut(),
            seed,
        }
    }

    /// Gives an oracle the plain answer to a prompt; other drafters need none.
    ///
    /// # Errors
    /// When the model fails.
    pub fn reveal(&mut self, prompt: &BenchPrompt) -> Result<(), Failure> {
        if matches!(self.loaded, Loaded::Other(_)) {
            return Ok(());
        }
        let mut comparison = self.comparison(0);
        let mut target = comparison.target(prompt.ids.len());
        let truth = comparison.plain(&mut target, &prompt.ids)?.ids;
        if let Loaded::Oracle(oracle) = &mut self.loaded {
            oracle.reveal(truth);
        }
        Ok(())
    }
}

/// All prompts; those of later turns follow the model's own greedy answers to the turns before.
fn with_later_turns(
    openings: Vec<Opening<'_>>,
    turns: usize,
    (decoder, context): (&Arc<Decoder>, usize),
    end_tokens: &[Token],
    new_tokens: usize,
) -> Result<Vec<BenchPrompt>, Failure> {
    let mut target = if turns > 1 { Some(DecoderTarget::new(decoder.clone(), context, Hooks::none())) } else { None };
    let limits = Limits { max_new_tokens: new_tokens, end_tokens: end_tokens.to_vec() };
    let mut prompts = vec![];
    for opening in openings {
        prompts.push(opening.prompt.clone());
        let Some(target) = &mut target else { continue };
        let mut answer = |ids: &[Token]| {
            let mut go_on = |_| ControlFlow::Continue(());
            let generation = decode(target, ids, &Greedy, &mut SeededRandom::new(0), &limits, &mut go_on)?;
            Ok(generation.ids)
        };
        prompts.extend(opening.later_turns(turns, context, new_tokens, &mut answer)?);
    }
    Ok(prompts)
}
