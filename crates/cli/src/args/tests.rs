//! The page `docs/src/reference/cli.md` is generated from the command line's own description.

use super::Cli;
use clap::{Arg, Command, CommandFactory};
use std::path::Path;

const WIDTH: usize = 110;
const INTRODUCTION: &str = "\
<!-- Generated from the command line. Do not edit: `GORGON_WRITE_REFERENCE=1 make test` writes it. -->

# Command line

Results go to stdout, messages to stderr. Exit code 0 means success, 1 that a run failed, 2 wrong use, config
or input. `gorgon VERB --help` prints what this page has. Tools for engineers are
[at the end](#tools-for-engineers).

![gorgon --help](../images/help.svg)
";

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/cli.md");
    let page = page();
    if std::env::var_os("GORGON_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written == page, "{} is stale: GORGON_WRITE_REFERENCE=1 make test writes it", path.display());
}

fn page() -> String {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Options of every verb\n\n");
    program.get_arguments().filter(|arg| arg.is_global_set()).for_each(|arg| option(&mut page, arg));
    let of_engineers = |command: &&Command| command.get_name() == "dev";
    program
        .get_subcommands()
        .filter(|command| !of_engineers(command))
        .for_each(|verb| section(&mut page, verb, "gorgon"));
    page.push_str("\n## Tools for engineers\n");
    program.get_subcommands().filter(of_engineers).for_each(|dev| section(&mut page, dev, "gorgon"));
    page
}

fn section(page: &mut String, command: &Command, parent: &str) {
    if command.is_hide_set() {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    let depth = if parent == "gorgon" { "##" } else { "###" };
    page.push_str(&format!("\n{depth} {name}\n\n"));
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    wrap(page, "", "", &ended(&about));
    if command.has_subcommands() {
        command.get_subcommands().for_each(|below| section(page, below, &name));
        return;
    }
    page.push('\n');
    let own: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_global_set() && !arg.is_hide_set()).collect();
    let own = own.into_iter().filter(|arg| arg.get_id() != "help" && arg.get_id() != "version");
    let (mut positional, mut options): (Vec<&Arg>, Vec<&Arg>) = own.partition(|arg| arg.is_positional());
    positional.append(&mut options);
    if positional.is_empty() {
        wrap(page, "", "", "It has no options of its own.");
    }
    positional.into_iter().for_each(|arg| option(page, arg));
    if let Some(more) = command.get_after_help() {
        page.push('\n');
        wrap(page, "", "", &ended(&more.to_string()));
    }
}

/// One list item: the option with its value, its help, default, values and variable.
fn option(page: &mut String, arg: &Arg) {
    let value = arg.get_value_names().filter(|_| arg.get_action().takes_values()).map_or("", |names| &names[0]);
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = arg.get_short().map(|short| format!("-{short}")).into_iter().chain(long).collect();
    let shown = [names.join(", "), value.to_owned()].join(" ").trim().to_owned();
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = format!("`{shown}`: {}", ended(&help));
    let values: Vec<String> = arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if !values.is_empty() && arg.get_action().takes_values() {
        text.push_str(&format!(" Values: {}.", values.join(", ")));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        text.push_str(&format!(" Default: `{}`.", defaults.join(", ")));
    }
    if arg.is_required_set() {
        text.push_str(" Required.");
    }
    if let Some(variable) = arg.get_env() {
        text.push_str(&format!(" Environment: `{}`.", variable.to_string_lossy()));
    }
    wrap(page, "- ", "  ", &text);
}

fn ended(text: &str) -> String {
    let text = text.trim().replace('<', "\\<");
    if text.ends_with(['.', '…', '?']) { text } else { format!("{text}.") }
}

/// Adds a paragraph, broken between words.
fn wrap(page: &mut String, first: &str, others: &str, text: &str) {
    let mut line = first.to_owned();
    for word in text.split_whitespace() {
        if !line.trim_end().is_empty() && line.chars().count() + word.chars().count() >= WIDTH && line != first {
            page.push_str(line.trim_end());
            page.push('\n');
            line = others.to_owned();
        }
        line.push_str(word);
        line.push(' ');
    }
    page.push_str(line.trim_end());
    page.push('\n');
}
