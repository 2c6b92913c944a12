//! `gorgon quantize`: a model in integers.

use crate::args::Quantize;
use crate::printer;
use crate::settings::Settings;
use gorgon_kernels::quantised_matmul::ScaleSearch;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::quantize::{self, Options};
use std::process::ExitCode;

pub fn run(args: &Quantize, settings: &Settings) -> Result<ExitCode, Failure> {
    let options = Options {
        model: args.model.clone(),
        out: args.out.clone(),
        to: args.to,
        group: args.group,
        search: if args.no_search { ScaleSearch::Greatest } else { ScaleSearch::Clipped },
        prompts: args.prompts.clone(),
        limit: args.limit as usize,
        hashes: args.hashes,
        dry_run: args.dry_run,
    };
    let mut document = quantize::execute(&options, settings)?;
    if settings.json {
        document["out"] = args.out.display().to_string().into();
        printer::document(&document.to_string());
    }
    Ok(ExitCode::SUCCESS)
}
