//! The journal of answers: one line each, appended as they end.

use gorgon_core::Token;
use gorgon_runs::RunError;
use gorgon_runs::metrics::{self, Metrics};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A sampled answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The conversation's number.
    pub row: u64,
    /// The turn, from 0.
    pub turn: usize,
    /// The sampled ids.
    pub ids: Vec<Token>,
    /// How it ended.
    pub end: String,
    /// What the model made up for the user before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Answer(Answer),
    Done {
        /// The conversation that is done.
        done: u64,
        /// Why it has fewer answers than turns.
        reason: Option<String>,
    },
}

/// All answers so far.
#[derive(Debug)]
pub struct Journal {
    file: Metrics,
    answers: BTreeMap<u64, Vec<Answer>>,
    done: BTreeSet<u64>,
    reasons: BTreeMap<u64, String>,
    /// Answers since the last flush to the disk.
    unflushed: usize,
}

/// Answers between two flushes to the disk: a kill loses none of them, a loss of power can lose so many.
const FLUSH_EVERY: usize = 64;

impl Journal {
    /// Opens a journal, or begins one. A line that a kill tore is dropped.
    ///
    /// # Errors
    /// When the file cannot be read and written, or holds something else.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let file = Metrics::append(path)?;
        let mut journal =
            Self { file, answers: BTreeMap::new(), done: BTreeSet::new(), reasons: BTreeMap::new(), unflushed: 0 };
        for (i, value) in metrics::read(path)?.into_iter().enumerate() {
            let wrong =
                |reason: String| RunError::Damaged { path: path.into(), reason: format!("line {}: {reason}", i + 1) };
            match serde_json::from_value(value).map_err(|error| wrong(error.to_string()))? {
                Line::Answer(answer) => {
                    let known = journal.answers.entry(answer.row).or_default();
                    if answer.turn != known.len() {
                        return Err(wrong(format!("turn {} of row {} out of order", answer.turn, answer.row)));
                    }
                    known.push(answer);
                }
                Line::Done { done, reason } => journal.note(done, reason),
            }
        }
        Ok(journal)
    }

    fn note(&mut self, row: u64, reason: Option<String>) {
        self.done.insert(row);
        if let Some(reason) = reason {
            self.reasons.insert(row, reason);
        }
    }

    /// Appends an answer.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn answer(&mut self, answer: Answer) -> Result<(), RunError> {
        let line = Line::Answer(answer);
        self.file.record(&line)?;
        self.unflushed += 1;
        if self.unflushed >= FLUSH_EVERY {
            self.file.sync()?;
            self.unflushed = 0;
        }
        if let Line::Answer(answer) = line {
            self.answers.entry(answer.row).or_default().push(answer);
        }
        Ok(())
    }

    /// Notes that a conversation is done, with the reason if turns are left.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn done(&mut self, row: u64, reason: Option<String>) -> Result<(), RunError> {
        self.file.record(&Line::Done { done: row, reason: reason.clone() })?;
        self.note(row, reason);
        Ok(())
    }

    /// Flushes everything to the disk.
    ///
    /// # Errors
    /// When the disk reports a failure.
    pub fn sync(&self) -> Result<(), RunError> {
        self.file.sync()
    }

    /// Whether a conversation is done.
    pub fn is_done(&self, row: u64) -> bool {
        self.done.contains(&row)
    }

    /// Conversations done.
    pub fn conversations(&self) -> usize {
        self.done.len()
    }

    /// The answers of a conversation, turn by turn.
    pub fn answers(&self, row: u64) -> &[Answer] {
        self.answers.get(&row).map_or(&[], Vec::as_slice)
    }

    /// Why a conversation has fewer answers than turns.
    pub fn reason(&self, row: u64) -> Option<&str> {
        self.reasons.get(&row).map(String::as_str)
    }
}
