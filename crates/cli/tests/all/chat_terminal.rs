//! `gorgon chat` on a terminal, with a person's keys. Waits for what is shown, never for a clock.
#![cfg(unix)]

use rexpect::session::{PtySession, spawn_command};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Milliseconds after which a test has failed.
const PATIENCE: u64 = 60_000;
const CTRL_C: char = 'c';
const UP: &str = "\x1b[A";
const LEFT: &str = "\x1b[D";

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny")
}

/// A chat in a terminal, and the folder with its history.
struct Chat {
    terminal: PtySession,
    folder: TempDir,
}

impl Chat {
    fn with(model: &Path, args: &[&str], folder: TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gorgon"));
        command.args(["chat", "--offline", "--model"]).arg(model).args(args);
        command.env("GORGON_HISTORY", folder.path().join("state/history")).env("TERM", "xterm");
        let mut terminal = spawn_command(command, Some(PATIENCE)).unwrap();
        terminal.exp_string("/help lists commands").unwrap();
        terminal.exp_string("> ").unwrap();
        Self { terminal, folder }
    }

    fn new(args: &[&str]) -> Self {
        Self::with(&tiny(), args, tempfile::tempdir().unwrap())
    }

    fn keys(&mut self, keys: &str) {
        self.terminal.send(keys).unwrap();
        self.terminal.flush().unwrap();
    }

    fn waits_for(&mut self, text: &str) -> String {
        self.terminal.exp_string(text).unwrap()
    }

    /// Sends a message and waits for its whole answer.
    fn answered(&mut self, keys: &str) -> String {
        self.keys(keys);
        let status = self.waits_for(" cached");
        self.waits_for("> ");
        status
    }

    /// The messages so far.
    fn messages(&mut self) -> Vec<String> {
        let file = self.folder.path().join("talk.json");
        self.keys(&format!("/save {}\r", file.display()));
        self.waits_for(" written");
        self.waits_for("> ");
        let saved: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        saved["messages"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap().to_owned()).collect()
    }

    fn ends(mut self) -> TempDir {
        self.terminal.send_control('d').unwrap();
        self.terminal.exp_eof().unwrap();
        let status = format!("{:?}", self.terminal.process_mut().wait().unwrap());
        assert!(status.contains(", 0)"), "{status}");
        self.folder
    }
}

/// The letters and marks of a terminal's text, without colours, up to a colour that was cut off.
fn letters(shown: &str) -> String {
    let mut parts = shown.split("\x1b[");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        text += part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    text.retain(|c| c.is_ascii_graphic());
    text
}

/// The tiny model without an end: its answers go on until they are stopped.
fn endless() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json", "model.safetensors"] {
        std::fs::copy(tiny().join(file), folder.path().join(file)).unwrap();
    }
    let config = std::fs::read(tiny().join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    config["eos_token_id"] = Value::Null;
    config["max_position_embeddings"] = 200_000.into();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn ctrl_c_stops_an_answer_and_keeps_it() {
    let model = endless();
    let args = ["--max-new-tokens", "150000", "--context", "200000", "--temperature", "1.5", "--drafter", "ngram:2"];
    let mut chat = Chat::with(model.path(), &args, tempfile::tempdir().unwrap());
    let mut answers = Vec::new();
    for turn in 0..2 {
        chat.keys("hello\r");
        // The answer has begun.
        let (_, begun) = chat.terminal.exp_regex("(?s)hello.{300}").unwrap();
        answers.push(letters(&begun["hello".len()..]));
        chat.terminal.send_control(CTRL_C).unwrap();
        chat.waits_for("stopped; the answer so far stays");
        let (_, status) = chat.terminal.exp_regex("[0-9]+ new, [0-9]+ cached").unwrap();
        chat.waits_for("> ");
        // What was stopped is in the conversation, and in the cache as far as a template can show it: this model says
        // end tokens, which it cannot.
        assert_eq!(turn == 0, status.ends_with(" 0 cached"), "{status}");
    }
    let messages = chat.messages();
    assert_eq!(messages.len(), 4);
    for (begun, kept) in answers.iter().zip([&messages[1], &messages[3]]) {
        let kept: String = kept.chars().filter(char::is_ascii_graphic).collect();
        assert!(!begun.is_empty() && kept.starts_with(begun), "{begun} {kept}");
    }
    chat.ends();
}

#[test]
fn ctrl_c_clears_the_line_and_then_says_how_to_leave() {
    let mut chat = Chat::new(&["--max-new-tokens", "8"]);
    chat.keys("never sent");
    chat.waits_for("never sent");
    chat.terminal.send_control(CTRL_C).unwrap();
    chat.waits_for("> ");
    chat.terminal.send_control(CTRL_C).unwrap();
    chat.waits_for("Ctrl-D or /exit ends the chat");
    chat.waits_for("> ");
    chat.answered("hello\r");
    assert_eq!(chat.messages()[0], "hello");
    chat.ends();
}

#[test]
fn arrows_edit_and_never_reach_the_model() {
    let mut chat = Chat::new(&["--max-new-tokens", "8"]);
    chat.answered(&format!("helo{LEFT}l\r"));
    chat.answered(&format!("{UP}\r"));
    let messages = chat.messages();
    assert_eq!((messages[0].as_str(), messages[2].as_str()), ("hello", "hello"));
    // The next chat remembers.
    let folder = chat.ends();
    let mut chat = Chat::with(&tiny(), &["--max-new-tokens", "8"], folder);
    chat.answered(&format!("{UP}{UP}\r"));
    assert_eq!(chat.messages()[0], "hello");
    chat.ends();
}

#[test]
fn a_pasted_block_is_one_message() {
    let mut chat = Chat::new(&["--max-new-tokens", "8"]);
    chat.answered("\x1b[200~line one\nline two\n\nline four\x1b[201~\r");
    chat.answered("\"\"\"\rfirst\rsecond\"\"\"\r");
    let messages = chat.messages();
    assert_eq!(messages.len(), 4);
    assert_eq!((messages[0].as_str(), messages[2].as_str()), ("line one\nline two\n\nline four", "first\nsecond"));
    chat.ends();
}

#[test]
fn beyond_the_context_the_chat_goes_on() {
    let mut chat = Chat::new(&["--max-new-tokens", "48", "--context", "200"]);
    let mut left_out = false;
    for _ in 0..8 {
        left_out |= chat.answered("Tell me a story about a cat.\r").contains("turns are left out");
    }
    assert!(left_out);
    chat.keys(&format!("{}\r", "word ".repeat(400)));
    chat.waits_for("the message is too long");
    chat.waits_for("> ");
    chat.answered("hello\r");
    assert_eq!(chat.messages().len(), 18);
    chat.ends();
}
