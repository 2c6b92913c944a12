//! Input of a chat: messages, and commands that begin with a slash.

use super::input::{Block, block};
use gorgon_core::accept::RuleChoice;
use gorgon_core::suggest::did_you_mean;
use gorgon_core::tree::TreeChoice;
use gorgon_draft::choice::DrafterChoice;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

/// One input.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Nothing but white space.
    Empty,
    /// A message to the model.
    Message(String),
    /// A command.
    Command(Command),
}

/// A command of the chat.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Shows all settings.
    Settings,
    /// Changes a setting.
    Set(Setting),
    /// Sets the system message, or takes it away.
    System(Option<String>),
    /// Writes the conversation to a file.
    Save(PathBuf),
    /// Continues the conversation of a file.
    Load(PathBuf),
    /// Forgets the conversation.
    Reset,
    /// Answers the last message anew.
    Retry,
    /// Answers a message, or the last one again, plainly and with drafts.
    Compare(Option<String>),
    /// Shows totals.
    Stats,
    /// Lists the commands.
    Help,
    /// Ends the chat.
    Exit,
}

/// A setting with its new value.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// 0 takes the top-1 token.
    Temperature(f64),
    /// Probability of the tokens that are sampled from; none samples from all.
    TopP(Option<f64>),
    /// Number of tokens that are sampled from; none samples from all.
    TopK(Option<usize>),
    /// New tokens of an answer at most.
    MaxNewTokens(usize),
    /// Seed of the random source, which begins anew.
    Seed(u64),
    /// The drafter.
    Drafter(DrafterChoice),
    /// The tree; none takes the drafter's default.
    Tree(Option<TreeChoice>),
    /// The acceptance rule.
    Accept(RuleChoice),
}

/// Names of commands, as they are completed and suggested.
pub const COMMANDS: [&str; 13] = [
    "/set", "/system", "/save", "/load", "/reset", "/clear", "/retry", "/compare", "/drafter", "/stats", "/help",
    "/exit", "/quit",
];

/// Names of settings.
pub const SETTINGS: [&str; 8] =
    ["temperature", "top_p", "top_k", "max_new_tokens", "seed", "drafter", "tree", "accept"];

/// The list of commands.
pub const HELP: &str = "\
/set NAME VALUE   change temperature, top_p, top_k, max_new_tokens, seed, drafter, tree or accept; /set shows them
/drafter none     answer without drafts; /drafter auto uses them again
/system TEXT      set the system message; /system alone removes it
/retry            answer the last message anew
/compare [TEXT]   answer plainly and with drafts, side by side; without TEXT the last message again
/save FILE        write the conversation as JSON; /load FILE continues one
/reset            forget the conversation
/stats            totals of this chat
/exit             end the chat (so does Ctrl-D)
Ctrl-C stops an answer and keeps it. \"\"\" begins and ends a message of several lines.
A message that begins with a slash needs a space before it.
\"× plain\" compares with plain steps, which gorgon times at the end of the conversation, a few per answer.";

/// Reads one input.
///
/// # Errors
/// One line that names the offending command or value.
pub fn parse(text: &str) -> Result<Input, String> {
    if let Block::Closed(message) = block(text) {
        return Ok(if message.trim().is_empty() { Input::Empty } else { Input::Message(message) });
    }
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Ok(Input::Empty);
    }
    if !text.starts_with('/') {
        return Ok(Input::Message(trimmed.to_owned()));
    }
    let (name, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
    let known = COMMANDS.contains(&name);
    // Pasted source code may well begin with a slash.
    if !known && trimmed.contains('\n') {
        return Ok(Input::Message(trimmed.to_owned()));
    }
    command(name, rest.trim()).map(Input::Command)
}

fn command(name: &str, rest: &str) -> Result<Command, String> {
    let text = || (!rest.is_empty()).then(|| rest.to_owned());
    let file = || text().map(PathBuf::from).ok_or_else(|| format!("{name} needs the name of a file"));
    let parsed = match name {
        "/set" if rest.is_empty() => Command::Settings,
        "/set" => return setting(rest).map(Command::Set),
        "/drafter" if rest.is_empty() => return Err("/drafter needs a drafter, such as none or auto".into()),
        "/drafter" => return Ok(Command::Set(Setting::Drafter(value("drafter", rest)?))),
        "/system" => return Ok(Command::System(text())),
        "/save" => return file().map(Command::Save),
        "/load" => return file().map(Command::Load),
        "/compare" => return Ok(Command::Compare(text())),
        "/reset" | "/clear" => Command::Reset,
        "/retry" => Command::Retry,
        "/stats" => Command::Stats,
        "/help" => Command::Help,
        "/exit" | "/quit" => Command::Exit,
        _ if SETTINGS.contains(&name.trim_start_matches('/')) => {
            let setting = name.trim_start_matches('/');
            return Err(format!("{name}: no such command; /set {setting} changes it"));
        }
        _ => {
            let suggestion = did_you_mean(name, COMMANDS);
            return Err(format!("{name}: no such command; {suggestion}/help lists them"));
        }
    };
    if rest.is_empty() { Ok(parsed) } else { Err(format!("{name} takes no value, but got {rest:?}")) }
}

fn setting(text: &str) -> Result<Setting, String> {
    let (name, rest) = text.split_once(|c: char| c.is_whitespace() || c == '=').unwrap_or((text, ""));
    let rest = rest.trim().trim_start_matches('=').trim();
    if !SETTINGS.contains(&name) {
        let suggestion = did_you_mean(name, SETTINGS);
        return Err(format!("/set {name}: no such setting; {suggestion}known are {}", SETTINGS.join(", ")));
    }
    if rest.is_empty() {
        return Err(format!("/set {name} needs a value"));
    }
    Ok(match name {
        "temperature" => Setting::Temperature(value(name, rest)?),
        "top_p" => Setting::TopP(unless("none", name, rest)?),
        "top_k" => Setting::TopK(unless("none", name, rest)?),
        "max_new_tokens" => match value(name, rest)? {
            0 => return Err("/set max_new_tokens 0: at least 1 is needed".into()),
            tokens => Setting::MaxNewTokens(tokens),
        },
        "seed" => Setting::Seed(value(name, rest)?),
        "drafter" => Setting::Drafter(value(name, rest)?),
        "tree" => Setting::Tree(unless("auto", name, rest)?),
        _ => Setting::Accept(value(name, rest)?),
    })
}

fn value<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("/set {name} {text}: {error}"))
}

/// A value, or none where the word for it is given.
fn unless<T: FromStr<Err: Display>>(word: &str, name: &str, text: &str) -> Result<Option<T>, String> {
    if text == word { Ok(None) } else { value(name, text).map(Some) }
}

#[cfg(test)]
mod tests;
