//! What `bench`, `verify` and `tree calibrate` have in common: a model, heads, prompts.

use crate::args::Contest;
use crate::settings::Settings;
use gorgon_bench::measure::{self, BenchPrompt};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy};
use gorgon_core::dist::Transform;
use gorgon_data::render::Renderer;
use gorgon_draft::drafter::NoDrafter;
use gorgon_infer::{Limits, RecordedPair, decode};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use gorgon_workflows::drafting::recording;
use gorgon_workflows::drafting::{DrafterChoice, Drafting, Loaded};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use gorgon_workflows::prompts::{self, Opening};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Everything that a contest needs.
pub struct Setup {
    pub decoder: Arc<Decoder>,
    pub drafting: Drafting,
    pub loaded: Loaded,
    pub rule: Box<dyn AcceptanceRule>,
    pub rule_name: String,
    pub limits: Limits,
    pub prompts: Vec<BenchPrompt>,
    /// Where steps are recorded, those.
    pub recorded: Option<RecordedPair>,
}

impl Setup {
    /// As [`Self::new`], with recorded steps where there are any.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn recorded(args: &Contest, settings: &Settings) -> Result<Self, Failure> {
        Self::made(args, settings, true)
    }

    /// Reads prompts, heads and model, in this order.
    ///
    /// # Errors
    /// When one of them is missing or wrong.
    pub fn new(args: &Contest, settings: &Settings) -> Result<Self, Failure> {
        Self::made(args, settings, false)
    }

    fn made(args: &Contest, settings: &Settings, record: bool) -> Result<Self, Failure> {
        let Some(file) = args.prompts.as_ref().filter(|_| !args.model.is_empty()) else {
            return Err(Failure::input("--model and --prompts are needed").hint("or, for bench, --suite cpu"));
        };
        let transform = Transform::new(args.temperature, args.top_k, args.top_p)?;
        let choice = args.accept.rule()?.resolve(&transform);
        let drafting = Drafting::resolve(args.draft.heads.as_deref(), &args.draft.drafter, args.draft.tree.as_ref())?;
        if matches!(args.draft.drafter, DrafterChoice::Oracle(_)) && args.temperature > 0.0 {
            return Err(Failure::input("the oracle knows greedy text only: use temperature 0"));
        }
        let dir = load::folder(&args.model, settings)?;
        let drafting = drafting.for_text_of(&dir, choice, transform)?;
        let config = ModelConfig::read(&dir)?;
        let renderer = Renderer::load(&dir)?;
        let new_tokens = args.max_new_tokens as usize;
        let openings = prompts::load(file, &renderer, args.limit as usize, config.max_positions, new_tokens, settings)?;
        let longest = openings.iter().map(|opening| opening.prompt.ids.len()).max().unwrap_or(0);
        let decoder = load::decoder(&dir, longest + new_tokens, settings)?;
        let end_tokens = if args.ignore_eos { vec![] } else { config.eos_tokens.clone() };
        let limits = Limits { max_new_tokens: new_tokens, end_tokens };
        let prompts = with_later_turns(openings, args.turns as usize, &decoder, &config.eos_tokens, new_tokens)?;
        let (rule, rule_name) = (choice.rule(transform), choice.to_string());
        let tokens = prompts.iter().map(|prompt| prompt.ids.len()).max().unwrap_or(0) + new_tokens;
        let recorded = if record { recording::steps(&drafting, &decoder, tokens, choice)? } else { None };
        let loaded = match recorded {
            // Recorded steps have the heads on the device already.
            Some(_) => Loaded::Other(Box::new(NoDrafter)),
            None => drafting.load(&decoder, settings.seed)?,
        };
        let recorded = recorded.map(RecordedPair::concat_columns);
        Ok(Self { decoder, drafting, loaded, rule, rule_name, limits, prompts, recorded })
    }

    /// What measures, borrowing everything but the prompts.
    pub fn contest(&mut self, seed: u64) -> measure::Contest<'_> {
        measure::Contest {
            decoder: &self.decoder,
            drafter: self.loaded.drafter(),
            builder: self.drafting.builder.as_ref(),
            rule: self.rule.as_ref(),
            limits: self.limits.clone(),
            recorded: self.recorded.as_mut(),
            seed,
        }
    }

    /// Tells an oracle what plain decoding says after a prompt; other drafters need no telling.
    ///
    /// # Errors
    /// When the model fails.
    pub fn reveal(&mut self, prompt: &BenchPrompt) -> Result<(), Failure> {
        if matches!(self.loaded, Loaded::Other(_)) {
            return Ok(());
        }
        let mut contest = self.contest(0);
        let mut target = contest.target(prompt.ids.len());
        let truth = contest.plain(&mut target, &prompt.ids)?.ids;
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
    decoder: &Arc<Decoder>,
    end_tokens: &[Token],
    new_tokens: usize,
) -> Result<Vec<BenchPrompt>, Failure> {
    let context = decoder.config().max_positions;
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
