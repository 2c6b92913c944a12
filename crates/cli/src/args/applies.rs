//! Which options of every verb have an effect on a verb. Those that have none are refused.

use super::{Command, DevCommand, StoreCommand, SuiteDevice, TreeCommand};
use clap::ArgMatches;
use clap::parser::ValueSource;
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
        Command::Generate(_) | Command::Chat(_) | Command::Bench(_) | Command::Verify(_) => SELECTIVE.to_vec(),
        Command::Tree(TreeCommand::Calibrate(_)) => SELECTIVE.to_vec(),
        Command::Serve(_) => compute(&["context", "template_var"]),
        Command::Dev(DevCommand::Trajectories(_)) => compute(&["seed"]),
        Command::Dev(DevCommand::Logits(_)) => compute(&["seed", "context"]),
        Command::Doctor(doctor) if doctor.model.is_some() => SELECTIVE.to_vec(),
        Command::Dev(DevCommand::Suite(suite)) if suite.measured == SuiteDevice::Cpu => vec![],
        Command::Doctor(_) | Command::Dev(DevCommand::Suite(_)) => compute(&[]),
        Command::Distill(_) | Command::Compare(_) => compute(&["seed", "template_var"]),
        Command::Train(_) | Command::Demo(_) => compute(&["seed"]),
        Command::Dev(DevCommand::Features(_) | DevCommand::Pretrain(_) | DevCommand::Sweep(_)) => compute(&["seed"]),
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
