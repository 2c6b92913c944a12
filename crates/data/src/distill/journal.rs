//! The journal of answers: one line each, appended as they end, with a checksum.

use gorgon_core::Token;
use gorgon_runs::RunError;
use gorgon_runs::metrics::{self, Metrics};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
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
    /// User message that the model wrote before the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether the ids are not those that were sampled, but those of the answer's text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retokenised: bool,
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

/// The key of a line's checksum, its last one.
const CHECK: &str = "check";

/// FNV-1a over the line's text without the checksum: an altered byte always changes it.
fn checksum(line: &Map<String, Value>) -> String {
    let text = serde_json::to_string(line).unwrap_or_default();
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The line with its checksum.
fn sealed(line: &Line) -> Map<String, Value> {
    let mut line = match serde_json::to_value(line) {
        Ok(Value::Object(line)) => line,
        _ => Map::new(),
    };
    let check = checksum(&line);
    line.insert(CHECK.into(), Value::String(check));
    line
}

/// Takes the checksum off a line, and tells whether it fits; `None` where there is none.
fn unseal(value: Value) -> (Value, Option<bool>) {
    let Value::Object(mut line) = value else { return (value, None) };
    let Some(check) = line.shift_remove(CHECK) else { return (Value::Object(line), None) };
    let fits = check == checksum(&line);
    (Value::Object(line), Some(fits))
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
    /// When the file cannot be read and written, or a line of it is not as it was written; the error names it.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let file = Metrics::append(path)?;
        let mut journal =
            Self { file, answers: BTreeMap::new(), done: BTreeSet::new(), reasons: BTreeMap::new(), unflushed: 0 };
        // Journals of earlier versions have no checksums; once a line has one, all later ones have.
        let mut are_checked = false;
        for (i, value) in metrics::read(path)?.into_iter().enumerate() {
            let wrong =
                |reason: String| RunError::Damaged { path: path.into(), reason: format!("line {}: {reason}", i + 1) };
            let (value, fits) = unseal(value);
            if fits == Some(false) || (fits.is_none() && are_checked) {
                return Err(wrong("it is not as it was written: its checksum says otherwise".into()));
            }
            are_checked |= fits.is_some();
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
        self.file.record(&sealed(&line))?;
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
        self.file.record(&sealed(&Line::Done { done: row, reason: reason.clone() }))?;
        self.note(row, reason);
        Ok(())
    }

    /// Takes over what another journal of the same job has and this one has not. Returns how many answers those were.
    ///
    /// # Errors
    /// When the file cannot be written; what was taken over stays.
    pub fn absorb(&mut self, other: &Self) -> Result<usize, RunError> {
        let mut taken = 0;
        for (row, answers) in &other.answers {
            for answer in answers.iter().skip(self.answers(*row).len()) {
                self.answer(answer.clone())?;
                taken += 1;
            }
        }
        for row in other.done.iter().filter(|row| !self.is_done(**row)).copied().collect::<Vec<_>>() {
            self.done(row, other.reasons.get(&row).cloned())?;
        }
        self.sync()?;
        Ok(taken)
    }

    /// Flushes everything to the disk.
    ///
    /// # Errors
    /// When the disk reports a failure.
    pub fn sync(&self) -> Result<(), RunError> {
        self.file.sync()
    }

    /// Bytes of some conversations' lines.
    pub fn bytes_of(&self, rows: &BTreeSet<u64>) -> u64 {
        let size = |line: Line| serde_json::to_string(&sealed(&line)).map_or(0, |text| text.len() as u64 + 1);
        let answers = rows.iter().flat_map(|row| self.answers(*row)).map(|answer| size(Line::Answer(answer.clone())));
        let done = rows.iter().filter(|row| self.is_done(**row));
        let done = done.map(|row| size(Line::Done { done: *row, reason: self.reasons.get(row).cloned() }));
        answers.chain(done).sum()
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

#[cfg(test)]
mod tests;
