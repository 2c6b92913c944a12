//! Other programs that decode with the same weights, taking turns with the engine.

use crate::BenchError;
use gorgon_model::device::Compute;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that measures itself at a line on its standard input, and answers with a line of JSON: `decode` with
/// `{"tokens_per_second": …}`, `prefill N` and `verify N` with `{"seconds": …}`. Its first line says that it is ready.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    command: String,
    name: String,
}

/// Programs to measure beside the engine.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    /// A Python with PyTorch and transformers, and the script that decodes with them. Weights are in f32.
    pub transformers: Option<(PathBuf, PathBuf)>,
    /// llama.cpp. Weights are in the engine's format or in the nearest that it has.
    pub llama_cpp: Option<LlamaCpp>,
}

/// llama.cpp through the npm package `node-llama-cpp`.
#[derive(Clone, Debug)]
pub struct LlamaCpp {
    /// The folder of its `node_modules`.
    pub folder: PathBuf,
    /// The script that decodes with it.
    pub script: PathBuf,
    /// A Python with gguf, and the script that writes GGUF files.
    pub converter: (PathBuf, PathBuf),
}

impl Peers {
    /// Starts those that have the format of `compute`, with the weights in `model`.
    ///
    /// # Errors
    /// When weights cannot be converted, or a program cannot be started.
    pub(super) fn start(&self, compute: &Compute, model: &Path) -> Result<Vec<Peer>, BenchError> {
        let precision = compute.precision();
        let transformers = self.transformers.as_ref().filter(|_| precision == "f32");
        let transformers = transformers.map(|(python, script)| Peer::transformers(python, script, model));
        let format = match precision {
            "f32" => Some("f32"),
            "f16" => Some("f16"),
            "int8" => Some("q8_0"),
            "int4" => Some("q4_0"),
            _ => None,
        };
        let llama = self.llama_cpp.as_ref().zip(format).map(|(llama, format)| llama.start(model, format));
        transformers.into_iter().chain(llama).collect()
    }
}

impl LlamaCpp {
    fn start(&self, model: &Path, format: &str) -> Result<Peer, BenchError> {
        let file = model.join(format!("{format}.gguf"));
        let (python, script) = &self.converter;
        let mut convert = Command::new(python);
        convert.arg(script).arg(model).arg(&file).arg(format);
        let name = shown(&convert);
        let failed = |reason| BenchError::Peer { name, reason };
        let output = match convert.output() {
            Ok(output) => output,
            Err(error) => return Err(failed(error.to_string())),
        };
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(failed(text.lines().last().unwrap_or("it failed without a word").to_owned()));
        }
        let mut command = Command::new("node");
        command.arg(&self.script).arg(&self.folder).arg(file);
        Peer::start(command, format!("llama.cpp {format}"))
    }
}

/// A command as one types it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

impl Peer {
    /// Starts `python script MODEL THREADS`.
    ///
    /// # Errors
    /// When it cannot be started or does not become ready.
    pub fn transformers(python: &Path, script: &Path, model: &Path) -> Result<Self, BenchError> {
        let mut command = Command::new(python);
        command.arg(script).arg(model);
        Self::start(command, "transformers".into())
    }

    /// Starts a command, with the number of threads as its last argument.
    fn start(mut command: Command, name: String) -> Result<Self, BenchError> {
        let threads = rayon::current_num_threads().to_string();
        command.arg(&threads).env("OMP_NUM_THREADS", &threads);
        let shown = shown(&command);
        let failed = |reason: String| BenchError::Peer { name: shown.clone(), reason };
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| failed(error.to_string()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no standard input or output".into()));
        };
        let mut peer = Self { child, input, output: BufReader::new(output), command: shown, name };
        peer.line()?;
        Ok(peer)
    }

    /// The program's name, with its weight format if it has several.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn line(&mut self) -> Result<String, BenchError> {
        let failed = |reason: String| BenchError::Peer { name: self.command.clone(), reason };
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(failed("it ended without an answer".into())),
            Ok(_) => Ok(line),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Its plain decoding speed, measured now.
    ///
    /// # Errors
    /// When it ends or answers something else.
    pub fn tokens_per_second(&mut self) -> Result<f64, BenchError> {
        self.ask("decode", "tokens_per_second")
    }

    /// Seconds of a pass over `rows` tokens, into an empty context or (to verify them) after a prompt, measured now.
    ///
    /// # Errors
    /// When it ends or answers something else.
    pub fn seconds(&mut self, what: &str, rows: usize) -> Result<f64, BenchError> {
        self.ask(&format!("{what} {rows}"), "seconds")
    }

    fn ask(&mut self, request: &str, key: &str) -> Result<f64, BenchError> {
        let sent = writeln!(self.input, "{request}").and_then(|()| self.input.flush());
        sent.map_err(|error| BenchError::Peer { name: self.command.clone(), reason: error.to_string() })?;
        let line = self.line()?;
        let answer: Option<Value> = serde_json::from_str(&line).ok();
        answer.and_then(|answer| answer[key].as_f64()).ok_or_else(|| BenchError::Peer {
            name: self.command.clone(),
            reason: format!("it said {:?}", line.trim()),
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended on its own already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
