//! `gorgon generate`: one answer.

use crate::args::Generate;
use crate::settings::{Settings, token_ids};
use gorgon_core::accept::{AcceptanceRule, random::SeededRandom};
use gorgon_core::dist::Transform;
use gorgon_infer::{DecodeError, Event, Generation, Limits, Method, Request, Session, decode};
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::target::DecoderTarget;
use gorgon_text::template::{ChatTemplate, Render, TemplateError, message};
use gorgon_text::tokenizer::{Tokenizer, TokenizerError};
use gorgon_workflows::drafting::recording;
use gorgon_workflows::drafting::{Drafting, Loaded};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use gorgon_workflows::prompts;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// New tokens when none are asked for.
const DEFAULT_NEW_TOKENS: usize = 256;

pub fn run(args: &Generate, settings: &Settings) -> Result<ExitCode, Failure> {
    let transform = Transform::new(args.temperature, args.top_k, args.top_p)?;
    settings.warn_without_effect(&transform);
    let rule = args.accept.resolve(&transform);
    // Everything that can be wrong with the input is looked at before the weights are read.
    let request = Question::prepare(args, settings)?;
    let drafting = args.draft.resolve(&settings.console)?;
    let drafting = drafting.for_text_of(&request.dir, rule, transform)?;
    let tokens = request.prompt.len() + request.limits.max_new_tokens - 1;
    let decoder = load::decoder(&request.dir, tokens, settings)?;
    let answer = Answer { args, settings, decoder: &decoder, request: &request, drafting: &drafting };
    if let Some(mut recorded) = recording::steps(&drafting, &decoder, tokens, rule)? {
        let generation = request.answer(args, settings, &mut |request, observe| {
            recorded.decode(&request.prompt, &request.limits, observe)
        })?;
        let counts = recording::report(recorded.take_counts(), settings);
        answer.report(&generation, true, &rule.to_string(), counts)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut loaded = drafting.load_for_use(&decoder, settings.seed)?;
    let hooks = loaded.drafter().needs().hooks;
    let mut target = DecoderTarget::new(decoder.clone(), tokens, hooks);
    let acceptance = rule.rule(transform);
    if let Loaded::Oracle(oracle) = &mut loaded {
        oracle.reveal(request.truth(&mut target, acceptance.as_ref(), settings.seed)?);
    }
    let (drafter, random) = (loaded.drafter(), &mut SeededRandom::behind(settings.seed, &request.prompt, 0));
    let generation = request.answer(args, settings, &mut |request, observe| {
        if drafting.is_plain() {
            return decode(&mut target, &request.prompt, acceptance.as_ref(), random, &request.limits, observe);
        }
        let (builder, rule) = (drafting.builder.as_ref(), acceptance.as_ref());
        Session::new(&mut target, &mut *drafter).generate(
            Method { tree: builder, rule },
            Request::new(&request.prompt, &request.limits, &mut *random),
            observe,
        )
    })?;
    answer.report(&generation, acceptance.is_lossless(), &rule.to_string(), Value::Null)?;
    Ok(ExitCode::SUCCESS)
}

/// Tokens of the prompt.
struct Question {
    dir: PathBuf,
    text: Option<Tokenizer>,
    prompt: Vec<u32>,
    limits: Limits,
}

impl Question {
    fn prepare(args: &Generate, settings: &Settings) -> Result<Self, Failure> {
        if (args.raw || args.prompt.ids.is_some()) && !settings.template.is_empty() {
            return Err(Failure::input("--template-var: --raw and --ids use no chat template").hint("leave it out"));
        }
        prompts::check_template(args.draft.heads.as_deref(), settings);
        let given = args.prompt.ids.as_deref().map(token_ids).transpose()?;
        let written = args.prompt.prompt.as_deref();
        let written = written.map(|prompt| prompts::given(prompt, std::io::stdin())).transpose()?;
        let dir = load::folder(&args.model, settings)?;
        let config = ModelConfig::read(&dir)?;
        let text = text(&dir, given.is_some(), &config)?;
        let prompt = match (given, &text) {
            (Some(ids), _) => ids,
            (None, Some(text)) => encode(args, written.as_deref().unwrap_or_default(), &dir, text, settings)?,
            (None, None) => return Err(Failure::input("--prompt needs a tokenizer")),
        };
        if prompt.is_empty() {
            return Err(Failure::input("the prompt is empty: it has no tokens"));
        }
        let limits = limits(args, &config, prompt.len(), settings)?;
        Ok(Self { dir, text, prompt, limits })
    }

    /// Text of plain decoding.
    fn truth(
        &self,
        target: &mut DecoderTarget,
        acceptance: &dyn AcceptanceRule,
        seed: u64,
    ) -> Result<Vec<u32>, Failure> {
        let mut go_on = |_| ControlFlow::Continue(());
        let random = &mut SeededRandom::behind(seed, &self.prompt, 0);
        let truth = decode(target, &self.prompt, acceptance, random, &self.limits, &mut go_on);
        Ok(truth.map_err(decode_failure)?.ids)
    }

    /// Lets `decode` answer, printing text as it comes.
    fn answer(&self, args: &Generate, settings: &Settings, decode: Decode<'_>) -> Result<Generation, Failure> {
        let streamed = self.text.as_ref().filter(|_| !settings.json && !args.print_ids);
        let mut stream = streamed.map(|text| text.stream(true));
        let mut broken = None;
        let mut observe = |event: Event| {
            let (Some(stream), Some(token)) = (&mut stream, event.token()) else { return ControlFlow::Continue(()) };
            match stream.push(token) {
                Ok(piece) => crate::printer::untrusted(&piece),
                Err(error) => broken = Some(error),
            }
            if broken.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let generation = decode(self, &mut observe).map_err(decode_failure)?;
        if let Some(error) = broken {
            return Err(error.into());
        }
        if let Some(mut stream) = stream {
            crate::printer::untrusted(&stream.finish()?);
            crate::printer::line("");
        }
        Ok(generation)
    }
}

/// Answers a request and reports every token.
type Decode<'a> =
    &'a mut dyn FnMut(&Question, &mut dyn FnMut(Event) -> ControlFlow<()>) -> Result<Generation, DecodeError>;

fn decode_failure(error: DecodeError) -> Failure {
    match error {
        DecodeError::NonFinite { .. } => Failure::run(error),
        _ => Failure::input(error),
    }
}

/// The model's tokenizer. Given ids can do without one.
fn text(dir: &Path, optional: bool, config: &ModelConfig) -> Result<Option<Tokenizer>, Failure> {
    match Tokenizer::load(dir) {
        Ok(text) => {
            text.check_vocab(config.vocab_size)?;
            Ok(Some(text))
        }
        Err(TokenizerError::Missing { .. }) if optional => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The prompt as token ids: one user turn of the chat template, or plain text.
fn encode(
    args: &Generate,
    prompt: &str,
    dir: &Path,
    text: &Tokenizer,
    settings: &Settings,
) -> Result<Vec<u32>, Failure> {
    if args.raw {
        return Ok(text.encode(prompt, true)?);
    }
    let template = match ChatTemplate::load(dir) {
        Err(TemplateError::Missing { .. }) if args.system.is_none() && settings.template.is_empty() => {
            tracing::debug!("the model has no chat template; the prompt is used as text");
            return Ok(text.encode(prompt, true)?);
        }
        template => template?,
    };
    let system = args.system.iter().map(|system| message("system", system));
    let messages: Vec<_> = system.chain([message("user", prompt)]).collect();
    let render = Render { add_generation_prompt: true, variables: settings.template.clone(), ..Render::default() };
    // The template writes the special tokens itself.
    Ok(text.encode(&template.render(&messages, &render)?, false)?)
}

/// How many tokens there is room for, and what ends them.
fn limits(args: &Generate, config: &ModelConfig, prompt: usize, settings: &Settings) -> Result<Limits, Failure> {
    let context = load::context(config, settings)?;
    load::check_context(context, prompt)?;
    // The last new token is never read, so it needs no room.
    let room = context - prompt + 1;
    let max_new_tokens = match args.max_new_tokens.map(|n| n as usize) {
        None => DEFAULT_NEW_TOKENS.min(room),
        Some(asked) if asked > room && args.ignore_eos => {
            let message = format!("--max-new-tokens {asked}: the context of {context} tokens has room for {room}");
            return Err(Failure::input(message).hint("ask for fewer, or leave out --ignore-eos"));
        }
        Some(asked) if asked > room => {
            settings.console.say(format!("note: the context has room for {room} of {asked} new tokens"));
            room
        }
        Some(asked) => asked,
    };
    let end_tokens = if args.ignore_eos { vec![] } else { config.eos_tokens.clone() };
    Ok(Limits { max_new_tokens, end_tokens })
}

/// Facts about an answer beside its tokens.
struct Answer<'a> {
    args: &'a Generate,
    settings: &'a Settings,
    decoder: &'a Arc<Decoder>,
    request: &'a Question,
    drafting: &'a Drafting,
}

impl Answer<'_> {
    /// `recorded` is what was counted in recorded steps, if they were.
    fn report(&self, generation: &Generation, lossless: bool, rule: &str, recorded: Value) -> Result<(), Failure> {
        let decode = generation.decode_time.as_secs_f64();
        // The first token comes from prefill, so it does not count for the speed of decoding.
        let decoded = generation.ids.len() - 1;
        let speed = (decoded > 0 && decode > 0.0).then(|| decoded as f64 / decode);
        if self.settings.json {
            let mut document = self.document(generation)?;
            document["tokens_per_second"] = json!(speed);
            document["lossless"] = lossless.into();
            document["accept"] = rule.into();
            document["recorded"] = recorded;
            crate::printer::document(&document.to_string());
            return Ok(());
        }
        if self.request.text.is_none() || self.args.print_ids {
            let ids: Vec<String> = generation.ids.iter().map(u32::to_string).collect();
            crate::printer::line(&ids.join(","));
        }
        let speed = speed.map_or(String::new(), |speed| format!(", {speed:.1} tokens/s"));
        let per_step = generation.tokens_per_step().filter(|_| !self.drafting.is_plain());
        let per_step = per_step.map_or(String::new(), |tau| format!(", {tau:.2} tokens per step"));
        self.settings.console.say(format!(
            "{} tokens in {decode:.3} s{speed}{per_step}; prompt of {} tokens in {:.3} s; {rule}, {}",
            generation.ids.len(),
            self.request.prompt.len(),
            generation.prefill_time.as_secs_f64(),
            if lossless { "lossless" } else { "not lossless" }
        ));
        Ok(())
    }

    fn document(&self, generation: &Generation) -> Result<Value, Failure> {
        let text = self.request.text.as_ref().map(|text| text.decode(&generation.ids, true)).transpose()?;
        let compute = self.decoder.compute();
        Ok(json!({
            "model": self.args.model,
            "prompt_ids": self.request.prompt,
            "ids": generation.ids,
            "text": text,
            "accepted": generation.accepted,
            "steps": generation.accepted.len(),
            "tokens_per_step": generation.tokens_per_step(),
            "seconds": generation.decode_time.as_secs_f64(),
            "prefill_seconds": generation.prefill_time.as_secs_f64(),
            "finish": generation.finish.name(),
            "drafter": self.drafting.name(),
            "tree": if self.drafting.is_plain() { "none" } else { &self.drafting.tree_name },
            "device": compute.choice().to_string(),
            "dtype": compute.precision(),
            "seed": self.settings.seed,
            "max_new_tokens": self.request.limits.max_new_tokens,
        }))
    }
}
