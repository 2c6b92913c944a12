//! `gorgon`: the only crate that prints or exits.

mod args;
mod commands;
mod console;
mod interrupt;
mod printer;
mod progress;
mod settings;

use args::{Cli, Command};
use clap::Parser;
use clap::error::ErrorKind;
use gorgon_workflows::failure::{Failure, panic_message};
use settings::Settings;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: gorgon_bench::allocations::Counted = gorgon_bench::allocations::Counted;

fn main() -> ExitCode {
    gorgon_bench::allocations::share();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                error.exit();
            }
            let json = std::env::args_os().any(|arg| arg == "--json");
            return printer::failure(&Failure::input(usage_error(&error)).hint("see gorgon --help"), json);
        }
        Err(error) => error.exit(),
    };
    let membership = gorgon_train::process_group::join();
    let json = cli.global.json;
    // A panic is a defect of this program. It still ends in one line and an exit code, and leaves no half-written file,
    // since files appear by renaming.
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = std::panic::catch_unwind(|| run(cli));
    if outcome.is_ok() {
        gorgon_model::tuning::seal();
    }
    let code = match outcome {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => abandoned(printer::failure(&failure, json)),
        Err(panic) => {
            let failure = Failure::run(format!("internal error: {}", panic_message(&*panic)));
            abandoned(printer::failure(&failure, json))
        }
    };
    drop(membership);
    code
}

/// A process that failed takes those with it that would wait for it.
fn abandoned(code: ExitCode) -> ExitCode {
    gorgon_train::process_group::ProcessGroup::current().abort();
    code
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let settings = Settings::new(cli.global)?;
    if !matches!(cli.command, Command::Train(_) | Command::Pretrain(_)) {
        settings.check_one_device()?;
    }
    // From inside the thread pool, work is split without waking and waiting for another thread each time.
    rayon::scope(|_| execute(cli.command, &settings))
}

fn execute(command: Command, settings: &Settings) -> Result<ExitCode, Failure> {
    match command {
        Command::Doctor => commands::doctor::run(settings),
        Command::Fetch(args) => commands::fetch::run(&args, settings),
        Command::Inspect(args) => commands::inspect::run(&args, settings),
        Command::Logits(args) => commands::logits::run(&args, settings),
        Command::Generate(args) => commands::generate::run(&args, settings),
        Command::Chat(args) => commands::chat::run(&args, settings),
        Command::Distill(args) => commands::distill::run(&args, settings),
        Command::Features(args) => commands::train::features(&args, settings),
        Command::Train(args) => commands::train::run(&args, settings),
        Command::Compare(args) => commands::compare::run(&args, settings),
        Command::Bench(args) if args.suite.is_some() => commands::suite::run(&args, settings),
        Command::Bench(args) => match &args.sweep {
            Some(range) => commands::sweep::run(&args, range, settings),
            None => commands::bench::run(&args, settings),
        },
        Command::Verify(args) => commands::verify::run(&args, settings),
        Command::Tree(command) => commands::tree::run(&command, settings),
        Command::Plan(args) => commands::plan::run(&args, settings),
        Command::Convert(args) => commands::convert::run(&args, settings),
        Command::Export(args) => commands::export::run(&args, settings),
        Command::Synth(args) => commands::synth::run(&args, settings),
        Command::Pretrain(args) => commands::pretrain::run(&args, settings),
        Command::Demo(args) => commands::demo::run(&args, settings),
    }
}

/// What clap says is wrong, without the usage that follows.
fn usage_error(error: &clap::Error) -> String {
    let text = error.to_string();
    let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
    text[..end.unwrap_or(text.len())].trim_start_matches("error: ").to_owned()
}
