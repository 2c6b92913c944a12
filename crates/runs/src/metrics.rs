//! The metrics of a run, one JSON object a line: the source of every plot and table.

use crate::{RunError, atomic};
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How much of a file's end is read at a time to find its last line.
const BLOCK: u64 = 1 << 16;

/// A file of metrics, open to be appended to. One at a time: the run folder's lock sees to that.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    file: File,
    /// The length of the whole lines.
    length: u64,
}

impl Metrics {
    /// Opens a file to append to, or makes it. A last line that was torn by a crash is cut off.
    ///
    /// # Errors
    /// When the file cannot be read and written, or does not hold such lines.
    pub fn append(path: &Path) -> Result<Self, RunError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(RunError::io(path))?;
        let length = whole_length(&mut file, path)?;
        let cut = file.set_len(length).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(RunError::io(path))?;
        Ok(Self { path: path.into(), file, length })
    }

    /// Appends a record: a struct or a map. Numbers that are not finite become `null`.
    ///
    /// # Errors
    /// When the record is no object, or the file cannot be written; it is as it was before then.
    pub fn record(&mut self, record: &impl Serialize) -> Result<(), RunError> {
        let mut line = serde_json::to_vec(record).map_err(|error| RunError::damaged(&self.path, error))?;
        if line.first() != Some(&b'{') {
            return Err(RunError::damaged(&self.path, "a record has to be an object"));
        }
        line.push(b'\n');
        // The line goes to the system in one piece, so that another process reads it whole or not at all.
        if let Err(source) = self.file.write_all(&line) {
            let _ = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::End(0)));
            return Err(RunError::Io { path: self.path.clone(), source });
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Flushes all records to the disk: before a checkpoint is written, so that none is ahead of its metrics.
    ///
    /// # Errors
    /// When the disk reports a failure.
    pub fn sync(&self) -> Result<(), RunError> {
        self.file.sync_all().map_err(RunError::io(&self.path))
    }

    /// Drops all records whose `step` is after this one, and keeps those without a `step`: a run that resumes from an
    /// earlier checkpoint then has each step once. The file has all lines or all but those, at every moment.
    ///
    /// # Errors
    /// When a line is no record, or the file cannot be written; it is as it was before then.
    pub fn truncate_after(&mut self, step: u64) -> Result<(), RunError> {
        let mut kept = Vec::with_capacity(usize::try_from(self.length).unwrap_or(0));
        let mut dropped = false;
        for_each_line(&self.path, |line, record| {
            // Steps are far below the 2^53 to which this is exact.
            let later = record.get("step").and_then(Value::as_f64).is_some_and(|this| this > step as f64);
            dropped |= later;
            if !later {
                kept.extend_from_slice(line);
                kept.push(b'\n');
            }
        })?;
        if dropped {
            atomic::write(&self.path, |file| file.write_all(&kept)).map_err(RunError::io(&self.path))?;
            // The old file is still open, under no name.
            *self = Self::append(&self.path)?;
        }
        Ok(())
    }
}

/// Reads all records. A last line that is torn, or being written by another process, is left out.
///
/// # Errors
/// When the file cannot be read, or a line is no record.
pub fn read(path: &Path) -> Result<Vec<Value>, RunError> {
    let mut records = vec![];
    for_each_line(path, |_, record| records.push(record))?;
    Ok(records)
}

/// Calls `take` with each whole line and what it says.
fn for_each_line(path: &Path, mut take: impl FnMut(&[u8], Value)) -> Result<(), RunError> {
    let mut reader = BufReader::new(File::open(path).map_err(RunError::io(path))?);
    let mut line = vec![];
    for number in 1u64.. {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(RunError::io(path))?;
        if line.pop() != Some(b'\n') {
            break;
        }
        match parse(&line) {
            Some(record) => take(&line, record),
            // After a loss of power, a last line can have its end and not all of the rest.
            None if reader.fill_buf().map_err(RunError::io(path))?.is_empty() => break,
            None => return Err(RunError::damaged(path, format!("line {number} is no JSON object"))),
        }
    }
    Ok(())
}

fn parse(line: &[u8]) -> Option<Value> {
    crate::json::read(line).ok().filter(Value::is_object)
}

/// The length of the file without its torn last line.
fn whole_length(file: &mut File, path: &Path) -> Result<u64, RunError> {
    let end = file.seek(SeekFrom::End(0)).map_err(RunError::io(path))?;
    let mut end = last_newline(file, end).map_err(RunError::io(path))?;
    // At most one line is torn. More of them mean that this is no file of metrics, and nothing to cut off from.
    for _ in 0..2 {
        let Some(newline) = end.checked_sub(1) else { return Ok(0) };
        let start = last_newline(file, newline).map_err(RunError::io(path))?;
        if parse(&bytes(file, start, newline).map_err(RunError::io(path))?).is_some() {
            return Ok(end);
        }
        end = start;
    }
    Err(RunError::damaged(path, "its last lines are no JSON objects"))
}

/// The position after the last newline before `end`, or 0.
fn last_newline(file: &mut File, mut end: u64) -> io::Result<u64> {
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        if let Some(at) = bytes(file, start, end)?.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn bytes(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    file.seek(SeekFrom::Start(start))?;
    file.take(end - start).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != end - start {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
