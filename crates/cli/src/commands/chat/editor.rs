//! Where messages come from: a line editor on a terminal, plain lines anywhere else.

use super::slash::Slash;
use gorgon_workflows::chat::input::Lines;
use gorgon_workflows::failure::Failure;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Behavior, Config};
use std::io::BufRead;
use std::path::PathBuf;

/// Names the history file; empty for none.
const HISTORY: &str = "GORGON_HISTORY";
/// Lines that the history holds.
const HISTORY_LINES: usize = 1000;

/// Input of the user.
pub enum Typed {
    /// A message or a command.
    Text(String),
    /// Ctrl-C, which cleared the line.
    Cleared,
    /// Ctrl-C again.
    Interrupted,
    /// The end of the input.
    End,
}

/// Reads messages.
pub enum Editor {
    /// With a person at a terminal.
    Terminal(Box<Terminal>),
    /// From a pipe or a file.
    Lines(Lines),
}

/// A line editor and its history.
pub struct Terminal {
    editor: rustyline::Editor<Slash, FileHistory>,
    history: Option<PathBuf>,
    /// Whether Ctrl-C was pressed on the line before.
    interrupted: bool,
}

impl Editor {
    /// Plain lines from stdin.
    pub fn lines() -> Self {
        Self::Lines(Lines::default())
    }

    /// A line editor. Its history is read from a file, if there is one.
    pub fn terminal() -> Result<Self, Failure> {
        let config = Config::builder()
            // Results may be redirected while a person types.
            .behavior(Behavior::PreferTerm)
            .max_history_size(HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(Failure::run)?
            .bracketed_paste(true)
            .build();
        let mut editor = rustyline::Editor::with_config(config).map_err(Failure::run)?;
        editor.set_helper(Some(Slash));
        let history = history_file();
        if let Some(path) = &history {
            // The first chat has none yet.
            let _ = editor.load_history(path);
        }
        Ok(Self::Terminal(Box::new(Terminal { editor, history, interrupted: false })))
    }

    /// Waits for the next message or command.
    pub fn read(&mut self) -> Result<Typed, Failure> {
        match self {
            Self::Terminal(terminal) => terminal.read(),
            Self::Lines(lines) => read_lines(lines),
        }
    }
}

impl Terminal {
    fn read(&mut self) -> Result<Typed, Failure> {
        match self.editor.readline("> ") {
            Ok(text) => {
                self.interrupted = false;
                self.remember(&text);
                Ok(Typed::Text(text))
            }
            Err(ReadlineError::Interrupted) if self.interrupted => Ok(Typed::Interrupted),
            Err(ReadlineError::Interrupted) => {
                self.interrupted = true;
                Ok(Typed::Cleared)
            }
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(Failure::run(format!("the terminal cannot be read: {error}"))),
        }
    }

    /// Keeps a line for later chats. A history that cannot be written is no reason to end one.
    fn remember(&mut self, text: &str) {
        let added = !text.trim().is_empty() && self.editor.add_history_entry(text).unwrap_or(false);
        if let (true, Some(path)) = (added, &self.history) {
            if let Some(folder) = path.parent() {
                let _ = std::fs::create_dir_all(folder);
            }
            let _ = self.editor.append_history(path);
        }
    }
}

/// `GORGON_HISTORY`, or `gorgon/history` in the folder for state of the XDG base directory specification.
fn history_file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(HISTORY) {
        return (!path.is_empty()).then(|| path.into());
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("gorgon/history"))
}

fn read_lines(lines: &mut Lines) -> Result<Typed, Failure> {
    let mut line = String::new();
    loop {
        line.clear();
        let read = std::io::stdin().lock().read_line(&mut line);
        if read.map_err(|error| Failure::input(format!("stdin: {error}")))? == 0 {
            return Ok(lines.finish().map_or(Typed::End, Typed::Text));
        }
        if let Some(text) = lines.push(line.strip_suffix('\n').unwrap_or(&line)) {
            return Ok(Typed::Text(text));
        }
    }
}
