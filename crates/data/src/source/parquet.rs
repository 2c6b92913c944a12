//! Rows of a Parquet file, as the JSON records of its columns of use.
//!
//! Files are untrusted: pages are looked at before the library decodes them, few rows are held at a time, and a panic
//! of the library is an error of the file.

mod json;
mod pages;

use super::error::SourceError;
use super::format::Format;
use super::lines::Chunk;
use super::reason::Reason;
use super::record;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use serde_json::{Map, Value};
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// First bytes of a Parquet file.
pub(super) const MARK: &[u8; 4] = b"PAR1";

/// Rows that are decoded at a time.
const ROWS: usize = 64;

/// The rows of a file.
pub(super) struct Rows {
    batches: ParquetRecordBatchReader,
    batch: Option<RecordBatch>,
    /// The next row of the batch.
    next: usize,
    /// The row that was read last, from 1.
    row: usize,
    limit: usize,
}

impl Rows {
    /// Rows of at most `limit` bytes as JSON.
    pub(super) fn open(file: File, path: &Path, limit: usize) -> Result<Self, SourceError> {
        let damaged = |error: io::Error| SourceError::Damaged { path: path.into(), row: 0, reason: one_line(&error) };
        let builder = caught(|| {
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            ParquetRecordBatchReaderBuilder::try_new_with_options(file.try_clone()?, options).map_err(io::Error::other)
        });
        let builder = builder.map_err(damaged)?;
        let known = |field: &Field| record::is_known(field.name()) && json::is_read(field.data_type());
        let fields = builder.schema().fields().clone();
        let wanted: Vec<usize> = (0..fields.len()).filter(|i| known(&fields[*i])).collect();
        if !wanted.iter().any(|i| Format::has_key(fields[*i].name())) {
            let columns = fields.iter().map(|field| format!("{} ({})", field.name(), type_name(field.data_type())));
            let columns = columns.collect::<Vec<_>>().join(", ");
            return Err(SourceError::NoColumn { path: path.into(), columns: super::clip::clip(&columns) });
        }
        let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
        let batches = caught(|| {
            pages::check(&file, builder.metadata(), &mask)?;
            builder.with_projection(mask).with_batch_size(ROWS).build().map_err(io::Error::other)
        });
        Ok(Self { batches: batches.map_err(damaged)?, batch: None, next: 0, row: 0, limit })
    }

    /// The row that is being read, or was read last.
    pub(super) fn row(&self) -> usize {
        self.row
    }

    /// The next row; `None` after the last one.
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        self.row += 1;
        while self.batch.as_ref().is_none_or(|batch| self.next >= batch.num_rows()) {
            let batches = &mut self.batches;
            let Some(batch) = caught(|| batches.next().transpose().map_err(io::Error::other))? else { return Ok(None) };
            (self.batch, self.next) = (Some(batch), 0);
        }
        let Some(batch) = &self.batch else { return Ok(None) };
        let mut object = Map::new();
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            match json::value(column, self.next) {
                Value::Null => {}
                value => drop(object.insert(field.name().clone(), value)),
            }
        }
        self.next += 1;
        let bytes = serde_json::to_vec(&object).map_err(io::Error::other)?;
        let bytes = if bytes.len() > self.limit { Err(Reason::TooLong { limit: self.limit }) } else { Ok(bytes) };
        Ok(Some(Chunk { line: self.row, column: 1, bytes, separated: true }))
    }
}

/// Runs the library. It panics on some files, which is an error like any other.
fn caught<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let result = catch_unwind(AssertUnwindSafe(work));
    let result = result.unwrap_or_else(|_| Err(io::Error::other("the Parquet library fails on it")));
    result.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, one_line(&error)))
}

fn one_line(error: &io::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn type_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Utf8 | DataType::Binary => "text",
        DataType::Boolean => "boolean",
        DataType::List(_) => "list",
        DataType::Struct(_) => "struct",
        kind if kind.is_numeric() => "number",
        _ => "other",
    }
}
