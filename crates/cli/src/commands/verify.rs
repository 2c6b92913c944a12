//! `gorgon verify`: whether drafted text is plain text.

use crate::args::Verify;
use crate::commands::contest::Setup;
use crate::error::Failure;
use crate::printer;
use crate::progress;
use crate::settings::Settings;
use gorgon_bench::lossless::Comparison;
use serde_json::json;
use std::process::ExitCode;

pub fn run(args: &Verify, settings: &Settings) -> Result<ExitCode, Failure> {
    if args.contest.temperature > 0.0 {
        return Err(Failure::input("texts are compared token for token, which needs temperature 0"));
    }
    let (comparisons, lossless) = execute(&args.contest, settings)?;
    let tokens: usize = comparisons.iter().map(|c| c.tokens).sum();
    let accepted: usize = comparisons.iter().map(|c| c.accepted).sum();
    let diverged: Vec<&Comparison> = comparisons.iter().filter(|c| c.divergence.is_some()).collect();
    let silent = comparisons.iter().filter(|c| c.accepted == 0).count();
    if settings.json {
        let document = json!({
            "prompts": comparisons.len(), "tokens": tokens, "accepted_drafts": accepted, "diverged": diverged.len(),
            "without_accepted_drafts": silent, "lossless": lossless, "comparisons": comparisons,
        });
        printer::document(&document.to_string());
    } else {
        for comparison in diverged.iter().take(10) {
            if let Some(d) = &comparison.divergence {
                printer::line(&format!(
                    "{}: token {} is {:?} plainly and {:?} with drafts; top-2 logit gap {:.3e}",
                    comparison.id, d.at, d.plain, d.drafted, d.gap
                ));
            }
        }
        printer::line(&format!(
            "{} of {} prompts have the same text ({tokens} tokens, {accepted} drafts accepted; {silent} prompts without any)",
            comparisons.len() - diverged.len(),
            comparisons.len()
        ));
    }
    let shown = accepted > 0 && (diverged.is_empty() || !lossless);
    if accepted == 0 {
        settings.talk.say("no draft was accepted, so nothing was shown");
    }
    Ok(if shown { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares; also tells whether the rule is lossless.
///
/// # Errors
/// When model, heads or prompts are wrong, or there is nothing to compare.
pub fn execute(args: &crate::args::Contest, settings: &Settings) -> Result<(Vec<Comparison>, bool), Failure> {
    let mut setup = Setup::new(args, settings)?;
    if setup.drafting.is_plain() {
        return Err(Failure::input("nothing to verify: no heads, or a tree without drafts"));
    }
    Ok((compare(&mut setup, settings)?, setup.rule.is_lossless()))
}

fn compare(setup: &mut Setup, settings: &Settings) -> Result<Vec<Comparison>, Failure> {
    let bar = progress::count(settings.progress, "prompts", setup.prompts.len() as u64);
    let mut all = vec![];
    for prompt in setup.prompts.clone() {
        setup.reveal(&prompt)?;
        let mut contest = setup.contest(settings.seed);
        all.extend(contest.compare(std::slice::from_ref(&prompt), &mut |_| bar.inc(1))?);
    }
    bar.finish_and_clear();
    Ok(all)
}
