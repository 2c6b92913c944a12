//! `gorgon dev logits`: hidden states and logits of given tokens, of a model and of draft heads beside it.

use crate::args::Logits;
use crate::settings::{Settings, token_ids};
use gorgon_core::Token;
use gorgon_core::dist::Row;
use gorgon_core::tree::{ChainTree, TreeChoice};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::trace::Trace;
use gorgon_model::config::ModelConfig;
use gorgon_model::pass::PassOutput;
use gorgon_model::target::{DecoderTarget, Target, read};
use gorgon_runs::tensors::{self, Source};
use gorgon_workflows::drafting::{DrafterChoice, Drafting};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use safetensors::Dtype;
use serde_json::{Map, Value};
use std::path::Path;
use std::process::ExitCode;

/// Guesses at every token, if nothing is said.
const DRAFTS: usize = 4;

/// A tensor to be written.
struct Rows {
    name: &'static str,
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Rows {
    fn source(self) -> Source<'static> {
        let Self { name, shape, values } = self;
        let fill = Box::new(move |file: &mut dyn std::io::Write| tensors::write_f32(file, &values));
        Source { name: name.into(), dtype: Dtype::F32, shape, fill }
    }
}

pub fn run(args: &Logits, settings: &Settings) -> Result<ExitCode, Failure> {
    let mut ids = token_ids("--ids", &args.ids)?;
    load::check_output(&args.out)?;
    let heads = args.heads.as_deref().map(|heads| drafting(heads, args.drafts, ids.len(), settings)).transpose()?;
    let dir = load::folder(&args.model, settings)?;
    let source = source(args, &dir, &mut ids)?;
    let decoder = load::decoder(&dir, ids.len(), settings)?;
    let mut loaded = heads.map(|heads| heads.load(&decoder, settings.seed)).transpose()?;
    let needs = loaded.as_mut().map(|loaded| loaded.drafter().needs()).unwrap_or_default();
    let mut target = DecoderTarget::new(decoder, ids.len(), needs.hooks);
    let output = target.prefill_behind(source, &ids)?;
    let (rows, width) = (output.hidden.rows(), output.hidden.width());
    let logits = target.logits(&output.hidden);
    let vocab = logits.len() / rows;
    if let Some(row) = logits.chunks_exact(vocab).position(|row| !Row::Logits(row).is_valid()) {
        return Err(Failure::run(format!("the model's logits at position {row} are not finite; nothing was written")));
    }
    let hidden = read(output.hidden.tensor());
    let mut all = vec![
        Rows { name: "hidden", shape: vec![rows, width], values: hidden },
        Rows { name: "logits", shape: vec![rows, vocab], values: logits.into_vec() },
    ];
    if let Some(source) = target.source() {
        let shape = vec![source.states().rows(), source.states().width()];
        all.push(Rows { name: "encoder", shape, values: read(source.states().tensor()) });
    }
    if let Some(loaded) = &mut loaded {
        all.extend(drafted(loaded.drafter(), &ids, &output, args.drafts)?);
    }
    write(&args.out, all, rows, settings)?;
    Ok(ExitCode::SUCCESS)
}

/// How many tokens are the source of a model with an encoder, to which the decoder's side is added.
fn source(args: &Logits, dir: &Path, ids: &mut Vec<Token>) -> Result<usize, Failure> {
    let config = ModelConfig::read(dir)?;
    match (config.encoder, &args.decoder_ids) {
        (None, None) => Ok(0),
        (None, Some(_)) => Err(Failure::input(format!("--decoder-ids: {} has no encoder", dir.display()))
            .hint("--ids are the tokens of a decoder-only model")),
        (Some(encoder), decoder_ids) => {
            if args.heads.is_some() {
                load::refuse_encoder(dir, &config, "--heads")?;
            }
            let source = ids.len();
            let decoder_ids = decoder_ids.as_deref().map(|text| token_ids("--decoder-ids", text)).transpose()?;
            ids.extend(decoder_ids.unwrap_or_else(|| vec![encoder.start_token]));
            Ok(source)
        }
    }
}

/// The heads in a folder, if there are tokens enough to draft along.
fn drafting(heads: &Path, drafts: Option<u8>, tokens: usize, settings: &Settings) -> Result<Drafting, Failure> {
    let least = drafts.map_or(1, usize::from) + 1;
    if tokens < least {
        return Err(Failure::input(format!("--ids: {tokens} token ids; drafting along them takes at least {least}")));
    }
    // Heads are asked along tokens; the tree is the least that counts as drafting.
    let chain = TreeChoice::Chain(ChainTree::new(1).map_err(Failure::input)?);
    Drafting::resolve(Some(heads), &DrafterChoice::Auto, Some(&chain), &settings.console)
}

/// Drafter states and logits at every token that is followed by enough others.
fn drafted(
    drafter: &mut dyn Drafter,
    ids: &[Token],
    output: &PassOutput,
    asked: Option<u8>,
) -> Result<Vec<Rows>, Failure> {
    let mut drafts = asked.map_or(DRAFTS.min(ids.len() - 1), usize::from);
    let (mut traces, mut at) = (vec![], 0);
    while at + drafts < ids.len() {
        drafter.observe(VerifiedPass::prompt(&ids[at..=at], output, &[at]))?;
        let trace = drafter.trace(ids[at + 1], &ids[at + 2..at + drafts + 1])?;
        let trace = trace.ok_or_else(|| Failure::run("the drafter has no states to show"))?;
        let guesses = trace.guesses.len();
        if asked.is_some() && guesses < drafts {
            return Err(Failure::input(format!("--drafts {drafts}: there are {guesses} heads")));
        }
        drafts = guesses.min(drafts);
        traces.push(trace);
        at += 1;
    }
    Ok(tables(&traces, drafts))
}

/// Traces of `drafts` guesses each, as tensors.
fn tables(traces: &[Trace], drafts: usize) -> Vec<Rows> {
    let inputs: Vec<f32> = traces.iter().flat_map(|trace| trace.input.iter().copied()).collect();
    let guesses = || traces.iter().flat_map(|trace| &trace.guesses[..drafts]);
    let states: Vec<f32> = guesses().flat_map(|guess| guess.state.iter().copied()).collect();
    let logits: Vec<f32> = guesses().flat_map(|guess| guess.logits.iter().copied()).collect();
    let rows = traces.len();
    let width = |values: &[f32], of: usize| values.len() / of.max(1);
    vec![
        Rows { name: "draft_inputs", shape: vec![rows, width(&inputs, rows)], values: inputs },
        Rows { name: "draft_states", shape: vec![rows, drafts, width(&states, rows * drafts)], values: states },
        Rows { name: "draft_logits", shape: vec![rows, drafts, width(&logits, rows * drafts)], values: logits },
    ]
}

fn write(out: &Path, all: Vec<Rows>, tokens: usize, settings: &Settings) -> Result<(), Failure> {
    let shapes: Vec<(&str, Vec<usize>)> = all.iter().map(|rows| (rows.name, rows.shape.clone())).collect();
    let sources: Vec<Source<'_>> = all.into_iter().map(Rows::source).collect();
    let failed = |error| Failure::run(format!("{}: cannot be written: {error}", out.display()));
    tensors::write(out, &sources).map_err(failed)?;
    if settings.json {
        let mut document = Map::new();
        document.insert("out".into(), out.display().to_string().into());
        document.insert("tokens".into(), tokens.into());
        document.extend(shapes.into_iter().map(|(name, shape)| (name.to_owned(), Value::from(shape))));
        crate::printer::document(&Value::Object(document).to_string());
    } else {
        let list: Vec<String> = shapes.iter().map(|(name, shape)| format!("{name} {shape:?}")).collect();
        settings.console.say(format!("{}: {}", out.display(), list.join(", ")));
    }
    Ok(())
}
