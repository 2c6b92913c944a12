//! Which options of every verb have an effect on a verb. Those that have none are refused.

use super::{Command, DevCommand, Draft, StoreCommand, SuiteDevice, TreeCommand};
use clap::ArgMatches;
use clap::parser::ValueSource;
use gorgon_core::tree::TreeChoice;
use gorgon_workflows::failure::Failure;

/// Where a model runs, and in which numbers.
const COMPUTE: [&str; 6] = ["device", "dtype", "compute_dtype", "weights", "draft_weights", "activation_bits"];

/// All options that only some verbs take. The others take `--device cpu` too: they run on it.
const SELECTIVE: [&str; 9] = [
    "device",
    "dtype",
    "compute_dtype",
    "weights",
    "draft_weights",
    "activation_bits",
    "seed",
    "context",
    "template_var",
];

/// The options among [`SELECTIVE`] that have an effect on a verb.
fn effective(command: &Command) -> Vec<&'static str> {
    let compute = |more: &[&'static str]| [&COMPUTE[..], more].concat();
    match command {
        Command::Dev(DevCommand::Skip(_)) => SELECTIVE.to_vec(),
        Command::Chat(chat) if chat.url.is_some() => vec!["seed"],
        Command::Bench(bench) if bench.url.is_some() => vec!["seed"],
        Command::Generate(_) | Command::Chat(_) | Command::Bench(_) | Command::Verify(_) => SELECTIVE.to_vec(),
        Command::Tree(TreeCommand::Calibrate(_)) => SELECTIVE.to_vec(),
        Command::Serve(_) => compute(&["context", "template_var"]),
        Command::Dev(DevCommand::Trajectories(_)) => compute(&["seed"]),
        Command::Dev(DevCommand::Logits(_)) => compute(&["seed", "context"]),
        Command::Doctor(doctor) if doctor.model.is_some() => SELECTIVE.to_vec(),
        Command::Dev(DevCommand::Suite(suite)) if suite.measured == SuiteDevice::Cpu => vec![],
        Command::Doctor(_) | Command::Dev(DevCommand::Suite(_)) => compute(&[]),
        Command::Distill(_) | Command::Compare(_) => compute(&["seed", "template_var"]),
        Command::Demo(_) => compute(&["seed"]),
        Command::Train(_) => without("draft_weights", &compute(&["seed"])),
        Command::Dev(DevCommand::Features(_) | DevCommand::Pretrain(_)) => {
            without("draft_weights", &compute(&["seed"]))
        }
        Command::Dev(DevCommand::Sweep(_)) => compute(&["seed"]),
        Command::Dev(DevCommand::Synth(synth)) if synth.check.is_some() => compute(&["seed"]),
        Command::Dev(DevCommand::Synth(_) | DevCommand::T5(_)) => vec!["seed"],
        Command::Dev(DevCommand::Replay(replay)) if replay.step_times.is_some() => compute(&["seed", "template_var"]),
        Command::Dev(DevCommand::Replay(_)) => vec!["seed", "template_var"],
        Command::Export(_) => vec!["dtype"],
        Command::Quantize(_) | Command::Store(StoreCommand::Build(_)) => vec!["template_var"],
        Command::Store(StoreCommand::Inspect(_) | StoreCommand::Save(_)) => vec![],
        Command::Fetch(_) | Command::Inspect(_) | Command::Config(_) | Command::Init(_) | Command::Runs(_) => vec![],
        Command::Tree(TreeCommand::Sequoia(_) | TreeCommand::Show(_) | TreeCommand::Plan(_)) => vec![],
        Command::Completions(_) | Command::Dev(DevCommand::Man(_) | DevCommand::Plot(_)) => vec![],
    }
}

fn without(option: &str, options: &[&'static str]) -> Vec<&'static str> {
    options.iter().copied().filter(|known| *known != option).collect()
}

/// Options of single verbs that only have an effect beside another one. Clap does not require an option that conflicts
/// with one that was typed.
const BESIDE: [(&str, &str); 2] = [("plot", "url"), ("concurrency", "url")];

/// How drafts are made, of the verbs that decode.
fn draft(command: &Command) -> Option<&Draft> {
    match command {
        Command::Generate(generate) => Some(&generate.draft),
        Command::Chat(chat) if chat.url.is_none() => Some(&chat.draft),
        Command::Bench(bench) if bench.url.is_none() => Some(&bench.measure.draft),
        Command::Verify(verify) => Some(&verify.measure.draft),
        Command::Serve(serve) => Some(&serve.draft),
        Command::Dev(DevCommand::Sweep(sweep)) => Some(&sweep.draft),
        _ => None,
    }
}

/// Refuses heads beside a drafter and a tree that read nothing of them, and a number format for weights that draft where
/// none do.
fn check_draft(draft: &Draft, is_typed: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let choice = draft.choice();
    let reads_heads = choice.uses_heads() || draft.tree.as_ref().is_some_and(TreeChoice::is_measured);
    if let Some(heads) = draft.heads.as_ref().filter(|_| !reads_heads) {
        let message = format!("--heads {}: --drafter {choice} does not draft with heads", heads.display());
        return Err(Failure::input(message).hint("leave one of them out"));
    }
    if is_typed("draft_weights") && draft.heads.is_none() && !choice.has_weights() {
        return Err(Failure::input(format!("--draft-weights has no effect: --drafter {choice} has no weights")));
    }
    Ok(())
}

/// Refuses options that were typed and have no effect on the verb. Environment variables are for all verbs.
///
/// # Errors
/// Then.
pub fn check(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let (mut verb, mut leaf) = (String::from("gorgon"), matches);
    while let Some((name, inner)) = leaf.subcommand() {
        verb.push(' ');
        verb.push_str(name);
        leaf = inner;
    }
    let is_typed = |option: &str| {
        leaf.try_contains_id(option).is_ok() && leaf.value_source(option) == Some(ValueSource::CommandLine)
    };
    let knows = |option: &str| leaf.try_contains_id(option).is_ok();
    let alone = |(option, other): &&(&str, &str)| knows(other) && is_typed(option) && !is_typed(other);
    if let Some((option, other)) = BESIDE.iter().find(alone) {
        let option = option.replace('_', "-");
        return Err(Failure::input(format!("--{option} has no effect on {verb} without --{other}")));
    }
    if let Some(draft) = draft(command) {
        check_draft(draft, is_typed)?;
    }
    let effective = effective(command);
    let on_cpu = |option: &str| {
        let mut values = leaf.get_raw(option).into_iter().flatten();
        option == "device" && values.all(|value| value == "cpu" || value == "auto")
    };
    let typed = |option: &&&str| leaf.value_source(option) == Some(ValueSource::CommandLine) && !on_cpu(option);
    match SELECTIVE.iter().filter(|option| !effective.contains(option)).find(typed) {
        None => Ok(()),
        Some(option) => {
            let option = option.replace('_', "-");
            let failure = Failure::input(format!("--{option} has no effect on {verb}"));
            Err(failure.hint("leave it out"))
        }
    }
}

#[cfg(test)]
mod tests;
