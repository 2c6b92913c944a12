//! Running the program as a person would.
#![allow(dead_code)] // each test file uses its part

use gorgon_model::device::FloatFormat;
use gorgon_model::random::LlamaShape;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A model that loads in no time.
pub const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 64,
};

/// A folder that disappears with its model.
pub struct Model(tempfile::TempDir);

impl Model {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        SHAPE.write(dir.path(), FloatFormat::F32, 7).unwrap();
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn name(&self) -> &str {
        self.path().to_str().unwrap()
    }

    /// Changes a JSON file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut json = serde_json::from_slice(&std::fs::read(self.file(name)).unwrap()).unwrap();
        change(&mut json);
        std::fs::write(self.file(name), json.to_string()).unwrap();
    }

    /// Changes the header of the weights, keeping the data.
    pub fn edit_header(&self, change: impl FnOnce(&mut Value)) {
        let bytes = std::fs::read(self.file("model.safetensors")).unwrap();
        let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let mut header: Value = serde_json::from_slice(&bytes[8..8 + size]).unwrap();
        change(&mut header);
        let header = header.to_string().into_bytes();
        let mut out = (header.len() as u64).to_le_bytes().to_vec();
        out.extend(header);
        out.extend(&bytes[8 + size..]);
        std::fs::write(self.file("model.safetensors"), out).unwrap();
    }
}

/// Runs the program without network, in an empty cache.
pub fn gorgon(args: &[&str]) -> Output {
    let home = std::env::temp_dir().join("gorgon-test-no-such-cache");
    Command::new(env!("CARGO_BIN_EXE_gorgon"))
        .args(args)
        .env("HF_HOME", home)
        .env_remove("HF_HUB_CACHE")
        .env_remove("HF_TOKEN")
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .output()
        .unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The one JSON document on standard output.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {} {}", stdout(output), stderr(output)))
}

/// The program refuses in one clear line with exit code 2, in words and as JSON.
pub fn refused(args: &[&str], words: &[&str]) {
    let output = gorgon(args);
    // Old spellings come with a notice.
    let said = stderr(&output);
    let said: String = said.split_inclusive('\n').filter(|line| !line.starts_with("note: \"gorgon ")).collect();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}{}", stdout(&output));
    assert!(said.starts_with("error: "), "{args:?}: {said}");
    assert!(!said.contains("panicked") && !said.contains("internal error"), "{args:?}: {said}");
    let lines: Vec<&str> = said.lines().collect();
    let usage = lines.iter().any(|line| line.starts_with("Usage:") || line.contains("--help"));
    assert!(
        usage || lines.iter().all(|line| line.starts_with("error: ") || line.starts_with("hint: ")),
        "{args:?} says more: {said}"
    );
    for word in words {
        assert!(said.contains(word), "{args:?}: no \"{word}\" in: {said}");
    }
    let mut args = args.to_vec();
    args.push("--json");
    let output = gorgon(&args);
    assert_eq!(output.status.code(), Some(2));
    let document = json(&output);
    let message = document["error"].as_str().unwrap_or_else(|| panic!("{document}"));
    assert!(!message.contains('\n'), "{message}");
    for word in words {
        assert!(message.contains(word) || usage, "{args:?}: no \"{word}\" in: {message}");
    }
}
