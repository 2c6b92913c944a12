//! `gorgon verify`: whether drafted text is plain text.

use crate::args::Verify;
use crate::printer;
use crate::progress;
use crate::settings::Settings;
use gorgon_bench::lossless::TextComparison;
use gorgon_workflows::drafting::recording;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::measuring::{Options, Setup};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Answers per prompt whose distribution is tested, if no number is given.
const SAMPLES: u32 = 4;

pub fn run(args: &Verify, settings: &Settings) -> Result<ExitCode, Failure> {
    let options = args.measure.options()?;
    let is_sampled = !options.transform.is_greedy();
    let is_coupled = options.accept.rule(options.transform).coupling().is_some();
    if is_sampled && (args.samples.is_some() || !is_coupled) {
        return distribution(&options, args.samples.unwrap_or(SAMPLES) as usize, settings);
    }
    args.samples.map_or(Ok(()), |samples| Err(unsampled(samples)))?;
    let (comparisons, lossless, recorded) = execute(&options, settings)?;
    let tokens: usize = comparisons.iter().map(|c| c.tokens).sum();
    let accepted: usize = comparisons.iter().map(|c| c.accepted).sum();
    let diverged: Vec<&TextComparison> = comparisons.iter().filter(|c| c.divergence.is_some()).collect();
    let silent = comparisons.iter().filter(|c| c.accepted == 0).count();
    if settings.json {
        let document = json!({
            "prompts": comparisons.len(), "tokens": tokens, "accepted_drafts": accepted, "diverged": diverged.len(),
            "without_accepted_drafts": silent, "lossless": lossless, "recorded": recorded, "comparisons": comparisons,
        });
        printer::document(&document.to_string());
    } else {
        for comparison in diverged.iter().take(10) {
            if let Some(d) = &comparison.divergence {
                // Sampled tokens are not near because their logits are: the noise takes part.
                let gap = if is_sampled { String::new() } else { format!("; top-2 logit gap {:.3e}", d.gap) };
                printer::line(&format!(
                    "{}: token {} is {:?} plainly and {:?} with drafts{gap}",
                    comparison.id, d.at, d.plain, d.drafted
                ));
            }
        }
        printer::line(&format!(
            "{} of {} prompts have the same text ({tokens} tokens, {accepted} drafts accepted; {silent} prompts without an accepted draft)",
            comparisons.len() - diverged.len(),
            comparisons.len()
        ));
    }
    let shown = accepted > 0 && (diverged.is_empty() || !lossless);
    if accepted == 0 {
        settings.console.say("warning: no draft was accepted, so nothing was shown");
    }
    Ok(if shown { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The failure for a number of samples at temperature 0.
fn unsampled(samples: u32) -> Failure {
    Failure::input(format!("--samples {samples}: at temperature 0 there is one answer to each prompt"))
        .hint("set --temperature too")
}

/// Sampled text of a rule that makes random choices of its own has no one right continuation, so its distribution is
/// tested.
fn distribution(options: &Options, samples: usize, settings: &Settings) -> Result<ExitCode, Failure> {
    let transform = options.transform;
    let mut setup = Setup::new(options, settings)?;
    if setup.drafting.is_plain() {
        return Err(nothing_to_verify());
    }
    say_what(&setup, settings);
    let prompts = setup.prompts.clone();
    let lossless = setup.rule.is_lossless();
    let bar = progress::count(settings.progress, "answers", (prompts.len() * samples) as u64);
    let test = setup.comparison(settings.seed).test_distribution(&prompts, samples, &transform, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    if settings.json {
        let mut document = json!(test);
        document["passes"] = json!(test.passes());
        document["lossless"] = json!(lossless);
        printer::document(&document.to_string());
    } else {
        printer::line(&format!(
            "{} sampled tokens of {} answers, {} drafts accepted: chi-square {:.1} on {} degrees of freedom, p = {:.3}",
            test.tokens, test.generations, test.accepted, test.chi_square, test.degrees, test.p_value
        ));
        let (rule, verdict) = (&setup.rule_name, if test.passes() { "cannot be told from" } else { "is not" });
        let kind = if lossless { "lossless" } else { "not lossless" };
        printer::line(&format!("the distribution of drafted text ({rule}, {kind}) {verdict} that of plain sampling"));
    }
    if test.accepted == 0 {
        settings.console.say("warning: no draft was accepted, so nothing was shown");
    }
    let shown = test.accepted > 0 && (test.passes() || !lossless);
    Ok(if shown { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares; also tells whether the rule is lossless, and what was counted in recorded steps.
///
/// # Errors
/// When model, heads or prompts are wrong, or there is nothing to compare.
pub fn execute(options: &Options, settings: &Settings) -> Result<(Vec<TextComparison>, bool, Value), Failure> {
    let mut setup = Setup::recorded(options, settings)?;
    if setup.drafting.is_plain() {
        return Err(nothing_to_verify());
    }
    say_what(&setup, settings);
    let comparisons = compare(&mut setup, settings)?;
    let recorded = setup.recorded.as_mut().map(|pair| recording::report(pair.take_counts(), settings));
    Ok((comparisons, setup.rule.is_lossless(), recorded.unwrap_or_default()))
}

/// Says what is verified: drafter, tree and rule.
fn say_what(setup: &Setup, settings: &Settings) {
    let (name, tree, rule) = (setup.drafting.name(), &setup.drafting.tree_name, &setup.rule_name);
    settings.console.say(format!("{name} with tree {tree}, {rule}"));
}

fn nothing_to_verify() -> Failure {
    Failure::input("nothing to verify: no heads, or a tree without drafts")
        .hint("name heads with --heads or a draft model with --drafter model:DIR")
}

fn compare(setup: &mut Setup, settings: &Settings) -> Result<Vec<TextComparison>, Failure> {
    let bar = progress::count(settings.progress, "prompts", setup.prompts.len() as u64);
    let mut all = vec![];
    for prompt in setup.prompts.clone() {
        setup.reveal(&prompt)?;
        let mut comparison = setup.comparison(settings.seed);
        all.extend(comparison.compare(std::slice::from_ref(&prompt), &mut |_| bar.inc(1))?);
    }
    bar.finish_and_clear();
    Ok(all)
}
