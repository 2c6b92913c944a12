//! Answers that the draft model writes while it is fitted.

use crate::error::{TrainError, io};
use gorgon_core::Token;
use gorgon_data::render::Example;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Answers for the steps of one round.
pub(super) struct Round {
    pub number: u64,
    examples: BTreeMap<usize, Arc<Example>>,
}

/// A round on disk.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// Hash of the parameters that wrote it.
    parameters: String,
    /// Conversation, tokens of its prompt, all tokens.
    answers: Vec<(usize, usize, Vec<Token>)>,
}

fn path(run: &Path, number: u64) -> PathBuf {
    run.join(format!("answers-{number:06}.json"))
}

impl Stored {
    fn read(run: &Path, number: u64) -> Result<Option<Self>, TrainError> {
        let path = path(run, number);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = std::fs::read(&path).map_err(io(&path))?;
        let wrong = |error: serde_json::Error| TrainError::Checkpoint { path: path.clone(), reason: error.to_string() };
        gorgon_runs::json::read(&bytes).map(Some).map_err(wrong)
    }

    fn write(&self, run: &Path, number: u64) -> Result<(), TrainError> {
        let path = path(run, number);
        let written = gorgon_runs::atomic::write(&path, |file| Ok(serde_json::to_writer(file, self)?));
        written.map_err(io(&path))
    }

    fn into_round(self, number: u64) -> Round {
        let example = |(index, prompt, ids): (usize, usize, Vec<Token>)| {
            let assistant = (0..ids.len()).map(|t| t >= prompt).collect();
            (index, Arc::new(Example { ids, assistant, corrected: None }))
        };
        Round { number, examples: self.answers.into_iter().map(example).collect() }
    }
}

impl Round {
    /// The number of a dry run's round.
    pub const DRY_RUN: u64 = u64::MAX;

    /// The round of a dry run: new answers beside known ones.
    pub fn dry_run(known: Option<Self>, answers: Vec<(usize, usize, Vec<Token>)>) -> Self {
        let mut round = Stored { parameters: String::new(), answers }.into_round(Self::DRY_RUN);
        for (index, example) in known.into_iter().flat_map(|known| known.examples) {
            round.examples.entry(index).or_insert(example);
        }
        round
    }

    /// The round of parameters with this hash: the stored one if a killed run left it, else that of `write`.
    pub fn at_first_step(
        number: u64,
        parameters: String,
        run: Option<&Path>,
        write: impl FnOnce(u64) -> Result<Vec<(usize, usize, Vec<Token>)>, TrainError>,
    ) -> Result<Self, TrainError> {
        let stored = run.map(|run| Stored::read(run, number)).transpose()?.flatten();
        if let Some(stored) = stored.filter(|stored| stored.parameters == parameters) {
            return Ok(stored.into_round(number));
        }
        let stored = Stored { parameters, answers: write(number)? };
        run.map(|run| stored.write(run, number)).transpose()?;
        Ok(stored.into_round(number))
    }

    /// The stored round of a resumed run.
    pub fn kept(number: u64, run: Option<&Path>) -> Result<Self, TrainError> {
        let stored = run.map(|run| Stored::read(run, number)).transpose()?.flatten();
        let gone = || {
            let path = run.map_or_else(PathBuf::new, |run| path(run, number));
            TrainError::Checkpoint { path, reason: "it is missing, and the steps that are left need it".into() }
        };
        stored.map(|stored| stored.into_round(number)).ok_or_else(gone)
    }

    /// The answers in some conversations.
    pub fn of(&self, rows: &[usize], step: u64) -> Result<Vec<Arc<Example>>, TrainError> {
        let gone = |row: &usize| TrainError::Data(format!("step {step}: no answer was written for conversation {row}"));
        rows.iter().map(|row| self.examples.get(row).cloned().ok_or_else(|| gone(row))).collect()
    }
}
