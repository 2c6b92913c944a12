//! `gorgon dev skip`: the sub-layers that a model drafts fastest without.

use crate::args::SkipSearch;
use crate::printer;
use crate::settings::Settings;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::skipping::{Options, search};
use gorgon_workflows::{files, load};
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &SkipSearch, settings: &Settings) -> Result<ExitCode, Failure> {
    load::check_output(&args.out)?;
    let (sublayers, found) = search(
        &Options {
            model: args.model.clone(),
            prompts: args.prompts.clone(),
            limit: args.limit as usize,
            max_new_tokens: args.max_new_tokens as usize,
            evaluations: args.evaluations as usize,
        },
        settings,
    )?;
    files::write_json(&args.out, &json!(sublayers))?;
    match settings.json {
        true => printer::document(
            &json!({"sublayers": sublayers, "tokens_per_second": found.score, "evaluations": found.evaluations})
                .to_string(),
        ),
        false => printer::line(&format!(
            "without {} of {} sub-layers: {:.1} tokens/s, the best of {} measurements",
            found.skipped.count(),
            2 * found.skipped.layers(),
            found.score,
            found.evaluations
        )),
    }
    settings.console.say(format!("stored as {0}: --drafter skip:{0}", args.out.display()));
    Ok(ExitCode::SUCCESS)
}
