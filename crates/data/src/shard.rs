//! Training shards: Parquet files of token ids with masks.
//!
//! | column | Arrow type | what |
//! |---|---|---|
//! | `row` | `UInt64` | number of the conversation among all that were kept, from 0 |
//! | `key` | `UInt64` | hash of its record, by which it draws its random numbers; earlier versions wrote none |
//! | `id` | `Utf8` | its id in the source |
//! | `source` | `Utf8` | the file it came from |
//! | `line` | `UInt64` | where it starts there, from 1 |
//! | `category` | `Utf8`, nullable | its category, if it has one |
//! | `turns` | `UInt32` | answers in it |
//! | `ids` | `List<UInt32>` | token ids of the whole conversation |
//! | `assistant` | `List<Boolean>` | for each of them, whether the assistant wrote it |
//! | `corrected` | `List<Boolean>`, nullable | in a log of `--learn`: for each of them, whether the target corrected its drafts |
//! | `ends` | `List<Utf8>` | how each answer ended: `end_token`, `length` or `given`; with `:retokenised` after it where the ids are those of a server's text |
//!
//! Files without corrected tokens have no column `corrected`.
//!
//! The file's metadata says where the ids come from: model and tokenizer hashes, sampling, seed (keys `gorgon.…`).

use crate::render::Example;
use arrow_array::builder::{BooleanBuilder, ListBuilder, StringBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use gorgon_core::Token;
use gorgon_runs::atomic;
use gorgon_text::variables::Variables;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Columns that a file may lack.
const OPTIONAL: [&str; 2] = ["key", CORRECTED];
/// The column of corrected tokens.
const CORRECTED: &str = "corrected";

/// Rows in a file.
pub const ROWS_PER_SHARD: usize = 8192;

/// One conversation, ready for training.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its number among all that were kept.
    pub row: u64,
    /// Hash of its record: random choices depend on it. `row` where a shard has no keys.
    pub key: u64,
    /// Its id in the source.
    pub id: String,
    /// The file it came from.
    pub source: String,
    /// Where it starts there, from 1.
    pub line: u64,
    /// Its category.
    pub category: Option<String>,
    /// Its tokens.
    pub example: Example,
    /// How each answer ended.
    pub ends: Vec<String>,
    /// The file it was read from; not stored.
    pub shard: String,
}

/// Why shards cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The folder or a file.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No Parquet file, or not one of these.
    #[error("{}: {reason}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Reason why it is refused.
        reason: String,
    },
}

/// The columns, with that of corrected tokens or without.
fn schema(corrected: bool) -> Schema {
    let of = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
    let list = |name: &str, item: DataType| Field::new(name, of(item), false);
    let mut fields = vec![
        Field::new("row", DataType::UInt64, false),
        Field::new("key", DataType::UInt64, false),
        Field::new("id", DataType::Utf8, false),
        Field::new("source", DataType::Utf8, false),
        Field::new("line", DataType::UInt64, false),
        Field::new("category", DataType::Utf8, true),
        Field::new("turns", DataType::UInt32, false),
        list("ids", DataType::UInt32),
        list("assistant", DataType::Boolean),
        list("ends", DataType::Utf8),
    ];
    if corrected {
        fields.push(Field::new(CORRECTED, of(DataType::Boolean), true));
    }
    Schema::new(fields)
}

/// The name of shard `index`.
pub fn file_name(index: usize) -> String {
    format!("shard-{index:05}.parquet")
}

/// Writes one shard, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, rows: &[Row], metadata: &BTreeMap<String, String>) -> io::Result<()> {
    let bytes = encoded(rows, metadata)?;
    atomic::write(path, |file| file.write_all(&bytes))
}

/// The bytes of one shard.
///
/// # Errors
/// When the library cannot make them.
pub fn encoded(rows: &[Row], metadata: &BTreeMap<String, String>) -> io::Result<Vec<u8>> {
    let pairs = metadata.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("gorgon".into())
        .set_key_value_metadata(Some(pairs))
        .build();
    let corrected = rows.iter().any(|row| row.example.corrected.is_some());
    let schema = Arc::new(schema(corrected));
    let mut bytes = vec![];
    let mut writer = ArrowWriter::try_new(&mut bytes, schema.clone(), Some(properties)).map_err(io::Error::other)?;
    let mut columns = columns(rows);
    if corrected {
        columns.push(corrected_column(rows));
    }
    let batch = RecordBatch::try_new(schema, columns).map_err(io::Error::other)?;
    writer.write(&batch).map_err(io::Error::other)?;
    writer.close().map_err(io::Error::other)?;
    Ok(bytes)
}

fn columns(rows: &[Row]) -> Vec<ArrayRef> {
    let (mut ids, mut assistant) = (ListBuilder::new(UInt32Builder::new()), ListBuilder::new(BooleanBuilder::new()));
    let mut ends = ListBuilder::new(StringBuilder::new());
    for row in rows {
        ids.append_value(row.example.ids.iter().map(|&id| Some(id)));
        assistant.append_value(row.example.assistant.iter().map(|&own| Some(own)));
        ends.append_value(row.ends.iter().map(Some));
    }
    vec![
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.row))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.key))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.id))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|r| &r.source))),
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| r.line))),
        Arc::new(rows.iter().map(|r| r.category.as_deref()).collect::<StringArray>()),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.ends.len() as u32))),
        Arc::new(ids.finish()),
        Arc::new(assistant.finish()),
        Arc::new(ends.finish()),
    ]
}

fn corrected_column(rows: &[Row]) -> ArrayRef {
    let mut corrected = ListBuilder::new(BooleanBuilder::new());
    for row in rows {
        corrected.append_option(row.example.corrected.as_ref().map(|mask| mask.iter().map(|&one| Some(one))));
    }
    Arc::new(corrected.finish())
}

/// The shards of a folder, in order.
///
/// # Errors
/// When there are none.
pub fn files(dir: &Path) -> Result<Vec<PathBuf>, ShardError> {
    let io_error = |source| ShardError::Io { path: dir.into(), source };
    let mut files = vec![];
    for entry in dir.read_dir().map_err(io_error)? {
        let path = entry.map_err(io_error)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("shard-") && name.ends_with(".parquet") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let reason = "no shard-*.parquet files are here: gorgon distill makes them when it has finished".into();
        return Err(ShardError::Invalid { path: dir.into(), reason });
    }
    Ok(files)
}

/// Reads one shard and its metadata. Every row is checked: masks as long as ids, ids below `vocab_size`.
///
/// # Errors
/// When the file cannot be read or holds something else.
pub fn read(path: &Path, vocab_size: usize) -> Result<Shard, ShardError> {
    // The library panics on some files that are none of its own; that is an error like any other.
    let read = std::panic::catch_unwind(|| read_sound(path, vocab_size));
    read.unwrap_or_else(|_| Err(damaged(path, &BREAKDOWN)))
}

const BREAKDOWN: &str = "it is damaged: the Parquet library broke down on it";

/// Variables of the chat template that a shard's conversations were rendered with.
///
/// # Errors
/// When the file cannot be read or is no Parquet file.
pub fn template(path: &Path) -> Result<Variables, ShardError> {
    let metadata = described(path)?;
    let template = metadata.get("gorgon.template").map(|text| serde_json::from_str(text));
    template.transpose().map(Option::unwrap_or_default).map_err(|error| damaged(path, &error))
}

/// A shard's metadata; its rows are not read.
///
/// # Errors
/// When the file cannot be read or is no Parquet file.
pub fn described(path: &Path) -> Result<BTreeMap<String, String>, ShardError> {
    let read = std::panic::catch_unwind(|| {
        let file = File::open(path).map_err(|source| ShardError::Io { path: path.into(), source })?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file);
        Ok(metadata(&builder.map_err(|error| damaged(path, &error))?))
    });
    read.unwrap_or_else(|_| Err(damaged(path, &BREAKDOWN)))
}

fn damaged(path: &Path, reason: &dyn std::fmt::Display) -> ShardError {
    ShardError::Invalid { path: path.into(), reason: reason.to_string() }
}

/// The metadata that distillation wrote.
fn metadata(builder: &ParquetRecordBatchReaderBuilder<File>) -> BTreeMap<String, String> {
    let pairs = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let metadata = pairs.into_iter().filter_map(|pair| Some((pair.key, pair.value?)));
    metadata.filter(|(key, _)| key.starts_with("gorgon.")).collect()
}

/// A shard's rows and its metadata.
pub type Shard = (Vec<Row>, BTreeMap<String, String>);

fn read_sound(path: &Path, vocab_size: usize) -> Result<Shard, ShardError> {
    let invalid = |reason: &dyn std::fmt::Display| damaged(path, reason);
    let file = File::open(path).map_err(|source| ShardError::Io { path: path.into(), source })?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| invalid(&e))?;
    let (found, expected) = (builder.schema().fields(), schema(true));
    for field in expected.fields() {
        match found.iter().find(|f| f.name() == field.name()) {
            Some(f) if f.data_type().equals_datatype(field.data_type()) => {}
            Some(f) => return Err(invalid(&format!("column {} is {}", f.name(), f.data_type()))),
            None if OPTIONAL.contains(&field.name().as_str()) => {}
            None => return Err(invalid(&format!("column {} is missing", field.name()))),
        }
    }
    let metadata = metadata(&builder);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut rows = vec![];
    for batch in builder.build().map_err(|e| invalid(&e))? {
        let batch = batch.map_err(|e| invalid(&e))?;
        for i in 0..batch.num_rows() {
            let row = row(&batch, i).ok_or_else(|| invalid(&format!("row {i}: a value is missing")))?;
            let ids = &row.example.ids;
            let masks = [Some(&row.example.assistant), row.example.corrected.as_ref()];
            if let Some(mask) = masks.into_iter().flatten().find(|mask| mask.len() != ids.len()) {
                let what = format!("row {}: {} ids and a mask of {}", row.row, ids.len(), mask.len());
                return Err(invalid(&what));
            }
            if let Some(id) = ids.iter().find(|&&id| id as usize >= vocab_size) {
                return Err(invalid(&format!("row {}: token {id} of a vocabulary of {vocab_size}", row.row)));
            }
            rows.push(Row { shard: name.clone(), ..row });
        }
    }
    Ok((rows, metadata))
}

fn row(batch: &RecordBatch, i: usize) -> Option<Row> {
    let number = |name: &str| {
        let column = batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>()?;
        column.is_valid(i).then(|| column.value(i))
    };
    let text = |name: &str| {
        let column = batch.column_by_name(name)?.as_string_opt::<i32>()?;
        column.is_valid(i).then(|| column.value(i).to_owned())
    };
    let list = |name: &str| {
        let column = batch.column_by_name(name)?.as_list_opt::<i32>()?;
        column.is_valid(i).then(|| column.value(i)).filter(|values| values.null_count() == 0)
    };
    let (ids, assistant, ends) = (list("ids")?, list("assistant")?, list("ends")?);
    let ids: Vec<Token> = ids.as_primitive_opt::<UInt32Type>()?.values().to_vec();
    let assistant = assistant.as_boolean_opt()?.values().iter().collect();
    let ends = ends.as_string_opt::<i32>()?.iter().flatten().map(str::to_owned).collect();
    let corrected = match list(CORRECTED) {
        Some(values) => Some(values.as_boolean_opt()?.values().iter().collect()),
        None => None,
    };
    Some(Row {
        row: number("row")?,
        key: if batch.column_by_name("key").is_some() { number("key")? } else { number("row")? },
        id: text("id")?,
        source: text("source")?,
        line: number("line")?,
        category: text("category"),
        example: Example { ids, assistant, corrected },
        ends,
        shard: String::new(),
    })
}

#[cfg(test)]
mod tests;
