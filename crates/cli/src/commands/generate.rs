//! `gorgon generate`: one answer.

mod report;

use self::report::Answer;
use crate::args::Generate;
use crate::settings::{Settings, token_ids};
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_infer::{DecodeError, Event, Generation, Method, Request, Session, decode};
use gorgon_model::target::DecoderTarget;
use gorgon_workflows::drafting::{Loaded, recording};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use gorgon_workflows::question::{Options, Question, decode_failure};
use serde_json::Value;
use std::ops::ControlFlow;
use std::process::ExitCode;

pub fn run(args: &Generate, settings: &Settings) -> Result<ExitCode, Failure> {
    let transform = Transform::new(args.temperature, args.top_k, args.top_p)?;
    settings.warn_without_effect(&transform);
    let rule = args.accept.resolve(&transform);
    let request = Question::prepare(&options(args)?, settings)?;
    let drafting = args.draft.resolve(&settings.console)?;
    let drafting = drafting.for_text_of(&request.dir, (rule, transform), &settings.console)?;
    let tokens = request.prompt.len() + request.limits.max_new_tokens - 1;
    let decoder = load::decoder(&request.dir, tokens, settings)?;
    request.note_template(&settings.console);
    let answer = Answer { args, settings, decoder: &decoder, request: &request, drafting: &drafting };
    let random = &mut SeededRandom::behind(settings.seed, &request.prompt, 0);
    if let Some(mut recorded) = recording::steps(&drafting, &decoder, tokens, (rule, transform))? {
        let generation = answered(&request, args, settings, &mut |request, observe| {
            recorded.decode(&request.prompt, &request.limits, &mut *random, observe)
        })?;
        let counts = recording::report(recorded.take_counts(), settings);
        answer.report(&generation, true, &rule.to_string(), counts)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut loaded = drafting.load_for_use(&decoder, settings.seed)?;
    drafting.note_calibration(args.draft.tree.as_ref(), &request.dir, &settings.console)?;
    let mut target = DecoderTarget::new(decoder.clone(), tokens, loaded.drafter().needs().hooks);
    let acceptance = rule.rule(transform);
    if let Loaded::Oracle(oracle) = &mut loaded {
        oracle.reveal(request.truth(&mut target, acceptance.as_ref(), settings.seed)?);
    }
    let drafter = loaded.drafter();
    let generation = answered(&request, args, settings, &mut |request, observe| {
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

fn options(args: &Generate) -> Result<Options, Failure> {
    Ok(Options {
        model: args.model.clone(),
        heads: args.draft.heads.clone(),
        prompt: args.prompt.prompt.clone(),
        ids: args.prompt.ids.as_deref().map(|text| token_ids("--ids", text)).transpose()?,
        raw: args.raw,
        system: args.system.clone(),
        max_new_tokens: args.max_new_tokens.map(|n| n as usize),
        ignore_eos: args.ignore_eos,
    })
}

/// Answers a request and reports every token.
type Decode<'a> =
    &'a mut dyn FnMut(&Question, &mut dyn FnMut(Event) -> ControlFlow<()>) -> Result<Generation, DecodeError>;

/// Lets `decode` answer, printing text as it comes.
fn answered(
    request: &Question,
    args: &Generate,
    settings: &Settings,
    decode: Decode<'_>,
) -> Result<Generation, Failure> {
    let streamed = request.text.as_ref().filter(|_| !settings.json && !args.print_ids);
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
    let generation = decode(request, &mut observe).map_err(decode_failure)?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    if let Some(mut stream) = stream {
        crate::printer::untrusted(&stream.finish()?);
        crate::printer::line("");
    }
    Ok(generation)
}
