//! `gorgon logits`: hidden states and logits of given tokens.

use crate::args::Logits;
use crate::commands::load;
use crate::error::Failure;
use crate::settings::{Settings, token_ids};
use gorgon_core::dist::Row;
use gorgon_model::taps::Taps;
use gorgon_model::target::{Target, read};
use gorgon_runs::tensors::{self, Source};
use safetensors::Dtype;
use std::process::ExitCode;

pub fn run(args: &Logits, settings: &Settings) -> Result<ExitCode, Failure> {
    let ids = token_ids(&args.ids)?;
    load::check_output(&args.out)?;
    let dir = load::folder(&args.model, settings)?;
    let decoder = load::decoder(&dir, ids.len(), settings)?;
    let mut target = Target::new(decoder, ids.len(), Taps::none());
    let output = target.prefill(&ids)?;
    let [_, rows, width] = output.hidden.dims();
    let logits = target.logits(&output.hidden);
    let vocab = logits.len() / rows;
    if let Some(row) = logits.chunks_exact(vocab).position(|row| !Row::Logits(row).is_sound()) {
        return Err(Failure::run(format!("the model's logits at position {row} are not finite; nothing was written")));
    }
    let hidden = read(output.hidden);
    let source = |name: &str, columns: usize, values: Vec<f32>| Source {
        name: name.into(),
        dtype: Dtype::F32,
        shape: vec![rows, columns],
        fill: Box::new(move |file| tensors::write_f32(file, &values)),
    };
    let written = tensors::write(&args.out, &[source("hidden", width, hidden), source("logits", vocab, logits)]);
    written.map_err(|error| Failure::run(format!("{}: cannot be written: {error}", args.out.display())))?;
    if settings.json {
        let document = serde_json::json!({
            "out": args.out.display().to_string(), "tokens": rows, "hidden": [rows, width], "logits": [rows, vocab],
        });
        crate::printer::document(&document.to_string());
    } else {
        settings.talk.say(format!("{}: hidden [{rows}, {width}], logits [{rows}, {vocab}]", args.out.display()));
    }
    Ok(ExitCode::SUCCESS)
}
