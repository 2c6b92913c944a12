//! `gorgon logits`: hidden states and logits of given tokens.

use crate::args::Logits;
use crate::commands::load;
use crate::error::Failure;
use crate::settings::{Settings, token_ids};
use gorgon_model::target::read;
use safetensors::{Dtype, tensor::TensorView};
use std::process::ExitCode;

pub fn run(args: &Logits, settings: &Settings) -> Result<ExitCode, Failure> {
    let ids = token_ids(&args.ids)?;
    load::check_output(&args.out)?;
    let mut target = load::target(&load::folder(&args.model, settings)?, ids.len(), settings)?;
    let output = target.prefill(&ids)?;
    let [_, rows, width] = output.hidden.dims();
    let logits = target.logits(&output.hidden);
    let vocab = logits.len() / rows;
    let hidden = read(output.hidden);
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (hidden, logits) = (bytes(&hidden), bytes(&logits));
    let tensors = [
        ("hidden", TensorView::new(Dtype::F32, vec![rows, width], &hidden).map_err(Failure::run)?),
        ("logits", TensorView::new(Dtype::F32, vec![rows, vocab], &logits).map_err(Failure::run)?),
    ];
    let written = gorgon_runs::atomic::write_path(&args.out, |path| {
        safetensors::serialize_to_file(tensors, None, path).map_err(std::io::Error::other)
    });
    written.map_err(|error| Failure::run(format!("{}: cannot be written: {error}", args.out.display())))?;
    if settings.json {
        let document = serde_json::json!({
            "out": args.out, "tokens": rows, "hidden": [rows, width], "logits": [rows, vocab],
        });
        crate::printer::line(&document.to_string());
    } else {
        settings.talk.say(format!("{}: hidden [{rows}, {width}], logits [{rows}, {vocab}]", args.out.display()));
    }
    Ok(ExitCode::SUCCESS)
}
