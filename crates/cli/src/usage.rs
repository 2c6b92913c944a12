//! Wrong usage: clap's words, and better suggestions where it has none or a wrong one.

use crate::args::Cli;
use crate::printer::{self, Style};
use crate::settings::build;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use gorgon_core::suggest::closest;
use gorgon_runs::visible;
use gorgon_workflows::config::Kind;
use gorgon_workflows::failure::Failure;
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

/// Options that are called otherwise: the verb, the option as other verbs have it, and its name here.
const OPTIONS: [(&str, &str, &str); 1] = [("init", "--out", "--dir")];

/// Words that belong to another verb: the verb, the word, and the command that is meant.
const COMMANDS: [(&str, &str, &str); 2] = [
    ("verify", "--sweep", "gorgon dev sweep alpha=A1,A2,… measures rules over values of α"),
    ("dev", "convert", "gorgon export --to safetensors converts a PyTorch file"),
];

/// Words of the standard library about numbers, and plain ones.
const NUMBERS: [(&str, &str); 5] = [
    ("invalid digit found in string", "expected a whole number"),
    ("cannot parse integer from empty string", "expected a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("invalid float literal", "expected a number"),
    ("cannot parse float from empty string", "expected a number"),
];

/// Reports wrong usage as clap words it: the error, its suggestions and the usage of the verb. Requests for help end
/// well.
pub fn report(mut error: clap::Error, args: &[OsString]) -> ExitCode {
    let (worded, json) = (error.to_string(), args.iter().any(|arg| arg == "--json"));
    let text = NUMBERS.iter().fold(worded.clone(), |text, (theirs, ours)| text.replace(theirs, ours));
    let hint = corrected(&mut error, &text, args).or_else(|| from_environment(&error, args));
    // The message quotes arguments, which may hold control characters.
    if (text != worded || text.chars().any(|c| visible::is_command(c) && c != '\n')) && !json {
        printer::complain(text.trim_end());
        hint.iter().for_each(|hint| printer::complain(&format!("hint: {hint}")));
        return ExitCode::from(2);
    }
    let missing = [ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ErrorKind::MissingSubcommand];
    let is_missing = missing.contains(&error.kind());
    if json && (is_missing || !error.use_stderr()) {
        return asked_for(&error, is_missing, args);
    }
    if !json {
        let _ = error.print();
        hint.iter().for_each(|hint| printer::complain(&format!("hint: {hint}")));
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let (first, named) = (lines.next().unwrap_or_default(), lines.collect::<Vec<_>>().join(", "));
    let failure = Failure::input(format!("{} {named}", first.trim_start_matches("error: ")).trim_end());
    let suggestions = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let suggested = suggestions.into_iter().find_map(|kind| error.get(kind));
    printer::set_up(Style::of_wrong_usage());
    printer::failure(&match suggested {
        Some(ContextValue::String(name)) => failure.hint(format!("did you mean {name}?")),
        Some(ContextValue::Strings(names)) => failure.hint(format!("did you mean {}?", names.join(" or "))),
        _ => failure.hint(hint.unwrap_or_else(|| format!("see {} --help", verb(args)))),
    })
}

/// Help or version as a document, or the error where a verb is missing.
fn asked_for(error: &clap::Error, is_missing: bool, args: &[OsString]) -> ExitCode {
    printer::set_up(Style::of_wrong_usage());
    if is_missing {
        let missing = format!("{} needs a subcommand", verb(args));
        return printer::failure(&Failure::input(missing).hint(format!("see {} --help", verb(args))));
    }
    printer::document(&match error.kind() {
        ErrorKind::DisplayVersion => json!(build()).to_string(),
        _ => json!({ "help": error.to_string() }).to_string(),
    });
    ExitCode::SUCCESS
}

/// The verb that arguments name, as far as they do.
fn verb(args: &[OsString]) -> String {
    let (mut words, mut command) = (vec!["gorgon".to_owned()], Cli::command());
    let mut is_value = false;
    for word in args.iter().skip(1).filter_map(|arg| arg.to_str()) {
        match command.find_subcommand(word).cloned() {
            Some(inner) => {
                command = inner;
                words.push(word.to_owned());
            }
            // Options, and what follows one, may stand in front of a verb.
            None if word.starts_with('-') || is_value => {}
            None => break,
        }
        is_value = word.starts_with('-');
    }
    words.join(" ")
}

/// The hint for a wrong value that no argument gives: which variable of the environment does.
fn from_environment(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let option = option.split_whitespace().next()?;
    let is_given = args.iter().filter_map(|arg| arg.to_str()).any(|arg| arg.split('=').next() == Some(option));
    let variable = format!("GORGON_{}", option.trim_start_matches('-').replace('-', "_").to_uppercase());
    let is_set = error.kind() == ErrorKind::ValueValidation && !is_given && std::env::var_os(&variable).is_some();
    is_set.then(|| format!("the value comes from the environment variable {variable}"))
}

/// Puts suggestions right. Returns a hint where a suggestion is more than a word.
fn corrected(error: &mut clap::Error, text: &str, args: &[OsString]) -> Option<String> {
    let context = error.get(ContextKind::InvalidArg).or(error.get(ContextKind::InvalidSubcommand));
    let Some(ContextValue::String(word)) = context else { return None };
    let word = word.clone();
    let is_of = |verb: &str, theirs: &str| theirs == word && text.contains(&format!("Usage: gorgon {verb} "));
    if let Some((.., option)) = OPTIONS.iter().find(|(verb, theirs, _)| is_of(verb, theirs)) {
        forget(error);
        error.insert(ContextKind::SuggestedArg, ContextValue::String((*option).into()));
        return None;
    }
    if let Some((.., hint)) = COMMANDS.iter().find(|(verb, theirs, _)| is_of(verb, theirs)) {
        forget(error);
        return Some((*hint).into());
    }
    // `gorgon help VERB` suggests nothing of its own.
    if error.kind() == ErrorKind::InvalidSubcommand && error.get(ContextKind::SuggestedSubcommand).is_none() {
        let verbs = nearest_verb(&word, args).into_iter().collect::<Vec<_>>();
        if !verbs.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(verbs));
        }
        return None;
    }
    as_setting(error, &word, text)
}

/// Drops clap's suggestion, and the usage that repeats it.
fn forget(error: &mut clap::Error) {
    for kind in
        [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::Suggested, ContextKind::Usage]
    {
        error.remove(kind);
    }
}

/// The verb nearest to a word, among those that may stand in its place.
fn nearest_verb(word: &str, args: &[OsString]) -> Option<String> {
    let program = Cli::command();
    let before = args.iter().skip(1).map_while(|arg| arg.to_str().filter(|arg| *arg != word));
    let command = before.fold(&program, |command, arg| command.find_subcommand(arg).unwrap_or(command));
    closest(word, command.get_subcommands().map(clap::Command::get_name)).map(String::from)
}

/// Where a verb reads a config and an unknown option is near one of its keys: how that key is set.
fn as_setting(error: &clap::Error, option: &str, text: &str) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument || !text.contains("[KEY.PATH=VALUE]") {
        return None;
    }
    let name = option.trim_start_matches('-').replace('-', "_");
    let kind = Kind::ALL.into_iter().find(|kind| text.contains(&format!(" {kind} ")))?;
    kind.nearest_key(&name).map(|key| format!("settings of a config are given without dashes: {key}=VALUE"))
}
