//! Errors of a file as a whole.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{reason::Reason, report::Report};

/// Why a file gave no conversations.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be opened.
    #[error("{}: cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Reading failed on the way.
    #[error("{}: cannot be read on from line {line}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The line that was being read.
        line: usize,
        /// Error of the operating system.
        source: io::Error,
    },
    /// It has no records: no bytes, only white space, or an empty array.
    #[error("{}: the file is empty, it holds no records", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is of a kind that is not read here.
    #[error("{}: this is {what}, not JSON, JSONL or plain text; {advice}", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// Kind of the file.
        what: &'static str,
        /// Advice for the reader.
        advice: &'static str,
    },
    /// It starts with a JSON object that goes on over several lines.
    #[error(
        "{}: a JSON object starts at line {first} and goes on over the lines that follow; expected an array of \
         records, or JSONL with each record on a line of its own. If the object holds the records as a list, take \
         the list out of it", path.display()
    )]
    SpreadObject {
        /// The file.
        path: PathBuf,
        /// The line where it starts.
        first: usize,
    },
    /// A Parquet file is not as it has to be.
    #[error("{}: the Parquet file is damaged{}: {reason}", path.display(), after_row(*row))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The row that was being read, from 1; 0 where none was.
        row: usize,
        /// Description of the failure.
        reason: String,
    },
    /// A Parquet file without a column of prompts.
    #[error("{}: no column of prompts (conversations, messages, turns, instruction, prompt, question or text); its \
        columns are {columns}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// Its columns with their types.
        columns: String,
    },
    /// None of its records can be used.
    #[error("{}: no usable record: {count} of {} were skipped for {}; {} {line}: {reason}", path.display(),
        report.skipped.len(), reason.title(), report.unit)]
    NothingUsable {
        /// The file.
        path: PathBuf,
        /// How many records the most frequent reason took.
        count: usize,
        /// The first line it took.
        line: usize,
        /// The reason, as it was met there.
        reason: Box<Reason>,
        /// The whole account.
        report: Box<Report>,
    },
}

fn after_row(row: usize) -> String {
    if row == 0 { String::new() } else { format!(" at row {row}") }
}

impl SourceError {
    /// The error for a file that was read to its end without success.
    pub(super) fn nothing_usable(path: &Path, report: Report) -> Self {
        let path = path.to_path_buf();
        let top = report.reasons().into_iter().next().and_then(|group| {
            let first = group.first()?;
            Some((group.len(), first.line, Box::new(first.reason.clone())))
        });
        match top {
            Some((count, line, reason)) => Self::NothingUsable { path, count, line, reason, report: Box::new(report) },
            None => Self::Empty { path },
        }
    }
}
