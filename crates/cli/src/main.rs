//! `gorgon`: the only crate that prints or exits.

mod args;
mod commands;
mod console;
mod crash;
mod interrupt;
mod logging;
mod printer;
mod progress;
mod settings;
mod usage;

use args::{Cli, Command, DevCommand};
use clap::{CommandFactory, FromArgMatches};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use printer::Style;
use settings::Settings;
use std::process::ExitCode;

#[cfg(feature = "count-allocations")]
#[global_allocator]
static ALLOCATOR: gorgon_bench::allocations::Counted = gorgon_bench::allocations::Counted;

fn main() -> ExitCode {
    gorgon_bench::allocations::share();
    let (args, notice) = args::today(std::env::args_os().collect(), &Cli::command());
    let parsed = args::program().try_get_matches_from(&args);
    let (cli, matches) = match parsed.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches))) {
        Ok(parsed) => parsed,
        Err(error) => {
            notice.iter().for_each(|notice| printer::complain(notice));
            return usage::report(error, &args);
        }
    };
    let membership = gorgon_train::process_group::join();
    printer::set_up(Style::new(&cli.global));
    logging::set_up(cli.global.verbose);
    notice.iter().filter(|_| !cli.global.quiet).for_each(|notice| printer::complain(notice));
    // A panic is a defect of this program. It still ends in one line and an exit code, and leaves no half-written file,
    // since files appear by renaming.
    let outcome = crash::caught(|| {
        interrupt::set_up()?;
        args::check(&cli.command, &matches)?;
        run(cli)
    });
    if outcome.is_ok() {
        gorgon_model::tuning::seal();
    }
    let code = match outcome.and_then(|outcome| outcome) {
        Ok(code) => code,
        Err(failure) => abandoned(printer::failure(&failure)),
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
    if !matches!(cli.command, Command::Train(_) | Command::Dev(DevCommand::Pretrain(_))) {
        settings.check_one_device()?;
    }
    let mut command = cli.command;
    if let Some(heads) = command.heads_mut() {
        *heads = load::heads_path(heads, &settings)?;
    }
    // From inside the thread pool, work is split without waking and waiting for another thread each time.
    rayon::scope(|_| execute(command, &settings))
}

fn execute(command: Command, settings: &Settings) -> Result<ExitCode, Failure> {
    match command {
        Command::Doctor(args) => commands::doctor::run(&args, settings),
        Command::Fetch(args) => commands::fetch::run(&args, settings),
        Command::Inspect(args) => commands::inspect::run(&args, settings),
        Command::Generate(args) => commands::generate::run(&args, settings),
        Command::Chat(args) => commands::chat::run(&args, settings),
        Command::Serve(args) => commands::serve::run(&args, settings),
        Command::Distill(args) => commands::distill::run(&args, settings),
        Command::Train(args) => commands::train::run(&args, settings),
        Command::Config(command) => commands::config::run(&command, settings),
        Command::Init(args) => commands::init::run(&args, settings),
        Command::Compare(args) => commands::compare::run(&args, settings),
        Command::Bench(args) => commands::bench::run(&args, settings),
        Command::Verify(args) => commands::verify::run(&args, settings),
        Command::Tree(command) => commands::tree::run(&command, settings),
        Command::Store(command) => commands::store::run(&command, settings),
        Command::Runs(command) => commands::runs::run(&command, settings),
        Command::Export(args) => commands::export::run(&args, settings),
        Command::Quantize(args) => commands::quantize::run(&args, settings),
        Command::Demo(args) => commands::demo::run(&args, settings),
        Command::Completions(args) => commands::pages::completions(&args, settings),
        Command::Dev(DevCommand::Logits(args)) => commands::logits::run(&args, settings),
        Command::Dev(DevCommand::Features(args)) => commands::train::features(&args, settings),
        Command::Dev(DevCommand::Synth(args)) => commands::synth::run(&args, settings),
        Command::Dev(DevCommand::T5(args)) => commands::t5::run(&args, settings),
        Command::Dev(DevCommand::Pretrain(args)) => commands::pretrain::run(&args, settings),
        Command::Dev(DevCommand::Suite(args)) => commands::suite::run(&args, settings),
        Command::Dev(DevCommand::Sweep(args)) => commands::sweep::run(&args, settings),
        Command::Dev(DevCommand::Replay(args)) => commands::replay::run(&args, settings),
        Command::Dev(DevCommand::Skip(args)) => commands::skip::run(&args, settings),
        Command::Dev(DevCommand::Trajectories(args)) => commands::trajectories::run(&args, settings),
        Command::Dev(DevCommand::Plot(args)) => commands::runs::plot(&args, settings),
        Command::Dev(DevCommand::Man(args)) => commands::pages::man(&args, settings),
    }
}
