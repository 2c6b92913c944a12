//! Another program that decodes with the same weights, taking turns with the engine.

use crate::BenchError;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A script that decodes at a line on its standard input, and answers each with a line of JSON,
/// `{"tokens_per_second": …}`; its first line says that it is ready.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    name: String,
}

impl Peer {
    /// Starts `python script MODEL THREADS`.
    ///
    /// # Errors
    /// When it cannot be started or does not become ready.
    pub fn start(python: &Path, script: &Path, model: &Path) -> Result<Self, BenchError> {
        let name = format!("{} {}", python.display(), script.display());
        let failed = |reason: String| BenchError::Peer { name: name.clone(), reason };
        let threads = rayon::current_num_threads().to_string();
        let mut command = Command::new(python);
        command.arg(script).arg(model).arg(&threads).env("OMP_NUM_THREADS", &threads);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| failed(error.to_string()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no standard input or output".into()));
        };
        let mut peer = Self { child, input, output: BufReader::new(output), name: name.clone() };
        peer.line()?;
        Ok(peer)
    }

    fn line(&mut self) -> Result<String, BenchError> {
        let failed = |reason: String| BenchError::Peer { name: self.name.clone(), reason };
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
        let sent = writeln!(self.input, "decode").and_then(|()| self.input.flush());
        sent.map_err(|error| BenchError::Peer { name: self.name.clone(), reason: error.to_string() })?;
        let line = self.line()?;
        let answer: Option<Value> = serde_json::from_str(&line).ok();
        answer
            .and_then(|answer| answer["tokens_per_second"].as_f64())
            .ok_or_else(|| BenchError::Peer { name: self.name.clone(), reason: format!("it said {:?}", line.trim()) })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended on its own already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
