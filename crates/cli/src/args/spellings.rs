//! Spellings of earlier versions, which keep working.

use std::ffi::OsString;

/// Rewrites arguments of earlier versions in the spelling of `command`; the notice says so.
pub fn today(mut args: Vec<OsString>, command: &clap::Command) -> (Vec<OsString>, Option<String>) {
    let weights = weights_of_today(&mut args);
    let (args, verb) = verb_of_today(args, command);
    (args, weights.or(verb))
}

/// `--int8 drafts` and `--int8 all`.
fn weights_of_today(args: &mut Vec<OsString>) -> Option<String> {
    let old = take(args, "--int8")?;
    let new = match old.as_str() {
        "off" => "--weights=stored",
        "drafts" => "--draft-weights=int8",
        "all" => "--weights=int8",
        other => {
            // Refused as it was given.
            args.push(format!("--int8={other}").into());
            return None;
        }
    };
    args.push(new.into());
    Some(format!("note: \"--int8 {old}\" is now \"{}\"", new.replace('=', " ")))
}

fn verb_of_today(mut args: Vec<OsString>, command: &clap::Command) -> (Vec<OsString>, Option<String>) {
    let Some(at) = verb(&args, command) else { return (args, None) };
    let verb = args[at].to_string_lossy().into_owned();
    let (old, new) = match verb.as_str() {
        "logits" | "features" | "synth" | "pretrain" => (verb.clone(), vec!["dev".to_owned(), verb]),
        "convert" => (verb, vec!["export".to_owned(), "--to=safetensors".to_owned()]),
        "plan" => (verb, vec!["tree".to_owned(), "plan".to_owned()]),
        "bench" => match (take(&mut args, "--suite"), take(&mut args, "--sweep")) {
            (Some(device), _) => {
                rename(&mut args, "--context", "--prompt-tokens");
                ("bench --suite".to_owned(), vec!["dev".to_owned(), "suite".to_owned(), device])
            }
            (None, Some(range)) => ("bench --sweep".to_owned(), vec!["dev".to_owned(), "sweep".to_owned(), range]),
            (None, None) => return (args, None),
        },
        _ => return (args, None),
    };
    let notice = format!("note: \"gorgon {old}\" is now \"gorgon {}\"", new[..2].join(" "));
    args.splice(at..=at, new.into_iter().map(OsString::from));
    (args, Some(notice))
}

/// Where the verb is: the first argument that is neither a global option nor the value of one.
fn verb(args: &[OsString], command: &clap::Command) -> Option<usize> {
    let globals = command.get_arguments().filter(|argument| argument.get_action().takes_values());
    let with_value: Vec<String> =
        globals.filter_map(|argument| argument.get_long()).map(|name| format!("--{name}")).collect();
    let mut at = 1;
    loop {
        let argument = args.get(at)?.to_str()?;
        match argument.starts_with('-') {
            false => return Some(at),
            true => at += if with_value.iter().any(|name| name == argument) { 2 } else { 1 },
        }
    }
}

/// Removes an option, `--name VALUE` or `--name=VALUE`, and returns its value.
fn take(args: &mut Vec<OsString>, name: &str) -> Option<String> {
    let begins = format!("{name}=");
    let at = args.iter().position(|arg| arg == name || arg.to_string_lossy().starts_with(&begins))?;
    let argument = args.remove(at).to_string_lossy().into_owned();
    match argument.strip_prefix(&begins) {
        Some(value) => Some(value.to_owned()),
        None if at < args.len() => Some(args.remove(at).to_string_lossy().into_owned()),
        None => Some(String::new()),
    }
}

fn rename(args: &mut [OsString], old: &str, new: &str) {
    let begins = format!("{old}=");
    for argument in args {
        let text = argument.to_string_lossy().into_owned();
        if text == old {
            *argument = new.into();
        } else if let Some(value) = text.strip_prefix(&begins) {
            *argument = format!("{new}={value}").into();
        }
    }
}

#[cfg(test)]
mod tests;
