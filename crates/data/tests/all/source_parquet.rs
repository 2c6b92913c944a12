//! Prompts from Parquet files: the usual columns, and files that nobody should trust.

use arrow_array::builder::{ArrayBuilder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Fields};
use gorgon_data::source::{self, Conversation, Options, Reader, SourceError};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A list of messages for each row, under the names of two keys.
fn messages((role, content): (&str, &str), rows: &[Vec<(&str, &str)>]) -> ArrayRef {
    let field = |name: &str| Field::new(name, DataType::Utf8, true);
    let text = || -> Box<dyn ArrayBuilder> { Box::new(StringBuilder::new()) };
    let fields = Fields::from(vec![field(content), field(role)]);
    let mut list = ListBuilder::new(StructBuilder::new(fields, vec![text(), text()]));
    for row in rows {
        for (by, said) in row {
            list.values().field_builder::<StringBuilder>(0).unwrap().append_value(said);
            list.values().field_builder::<StringBuilder>(1).unwrap().append_value(by);
            list.values().append(true);
        }
        list.append(true);
    }
    Arc::new(list.finish())
}

fn texts(rows: &[Option<&str>]) -> ArrayRef {
    Arc::new(rows.iter().copied().collect::<StringArray>())
}

fn write(path: &Path, columns: &[(&str, ArrayRef)], compression: Compression) {
    let batch = RecordBatch::try_from_iter(columns.iter().map(|(name, column)| (*name, column.clone()))).unwrap();
    let properties =
        WriterProperties::builder().set_compression(compression).set_max_row_group_row_count(Some(40)).build();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn read(path: &Path) -> Vec<Conversation> {
    source::read(path, &Options::default()).unwrap().0
}

/// Turns of conversations, with their hashes.
fn said(conversations: &[Conversation]) -> Vec<(u64, Option<String>, Vec<source::Turn>)> {
    conversations.iter().map(|c| (c.digest, c.system.clone(), c.turns.clone())).collect()
}

#[test]
fn columns_are_read_as_the_keys_of_records() {
    let dir = tempfile::tempdir().unwrap();
    let (table, lines) = (dir.path().join("p.parquet"), dir.path().join("p.jsonl"));
    let of = |records: Vec<serde_json::Value>| {
        let text: String = records.iter().map(|record| format!("{record}\n")).collect();
        std::fs::write(&lines, text).unwrap();
        said(&read(&lines))
    };
    let rows: Vec<Vec<(&str, &str)>> = (0..100)
        .map(|i| {
            if i % 2 == 0 {
                vec![("human", "Hi!"), ("gpt", "Hello.")]
            } else {
                vec![("system", "Be kind."), ("human", "Hm?")]
            }
        })
        .collect();
    let wanted = of(rows
        .iter()
        .map(|row| json!({"conversations": row.iter().map(|(by, said)| json!({"from": by, "value": said})).collect::<Vec<_>>()}))
        .collect());
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())] {
        write(&table, &[("conversations", messages(("from", "value"), &rows)), ("score", ids.clone())], compression);
        let found = read(&table);
        assert_eq!(said(&found), wanted);
        assert_eq!((found[99].id.as_str(), found[99].line), ("row-100", 100));
    }
    write(&table, &[("messages", messages(("role", "content"), &rows)), ("id", ids)], Compression::SNAPPY);
    assert_eq!(
        read(&table).iter().map(|c| c.turns.clone()).collect::<Vec<_>>(),
        wanted.iter().map(|w| w.2.clone()).collect::<Vec<_>>()
    );
    for key in ["prompt", "instruction", "text", "question"] {
        write(&table, &[(key, texts(&[Some("One?"), None, Some("Two?")]))], Compression::SNAPPY);
        let (found, report) = source::read(&table, &Options::default()).unwrap();
        assert_eq!(said(&found), of(vec![json!({key: "One?"}), json!({key: "Two?"})]), "{key}");
        assert!(report.to_string().contains("row 2"), "{report}");
    }
}

#[test]
fn files_without_prompts_name_their_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.parquet");
    write(&path, &[("pixels", texts(&[Some("x")]))], Compression::SNAPPY);
    let error = source::read(&path, &Options::default()).unwrap_err();
    assert!(matches!(error, SourceError::NoColumn { .. }) && error.to_string().contains("pixels (text)"), "{error}");
}

/// A small file with lists, texts and several row groups.
fn sample(dir: &Path) -> (PathBuf, Vec<u8>) {
    let path = dir.join("p.parquet");
    let rows: Vec<Vec<(&str, &str)>> =
        (0..90).map(|_| vec![("user", "Is it so?"), ("assistant", "It is so.")]).collect();
    let texts = texts(&vec![Some("maths"); 90]);
    write(&path, &[("messages", messages(("role", "content"), &rows)), ("category", texts)], Compression::SNAPPY);
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

/// Reads a file to its end or to an error, which is one line.
fn read_or_refuse(path: &Path) -> Option<String> {
    let mut reader = match Reader::open(path, &Options::default()) {
        Ok(reader) => reader,
        Err(error) => return Some(error.to_string()),
    };
    let error = reader.by_ref().find_map(Result::err).map(|error| error.to_string());
    assert!(error.iter().all(|error| !error.contains('\n') && error.contains("p.parquet")), "{error:?}");
    error
}

#[test]
fn damaged_files_end_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = sample(dir.path());
    assert_eq!(read_or_refuse(&path), None);
    for length in (4..bytes.len()).step_by(37) {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(read_or_refuse(&path).is_some(), "{length} bytes of {}", bytes.len());
    }
    for at in 4..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            std::fs::write(&path, &damaged).unwrap();
            read_or_refuse(&path);
        }
    }
}

/// A page that claims gigabytes is refused before anything is allocated for it.
#[test]
fn absurd_sizes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, bytes) = sample(dir.path());
    // The first page's header: its type, its bytes, its bytes as stored. Both sizes have two bytes each.
    assert_eq!((bytes[4], bytes[6]), (0x15, 0x15));
    let mut damaged = bytes;
    // The type of the page becomes a size without an end.
    damaged[7..12].fill(0xff);
    std::fs::write(&path, &damaged).unwrap();
    let error = read_or_refuse(&path).unwrap();
    assert!(error.contains("the Parquet file is damaged") && error.contains("row group 0"), "{error}");
}

/// Written by pyarrow, with nested columns, null values and two row groups. An answer that is null is none, as in JSON.
#[test]
fn a_file_of_another_implementation_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/conversations.parquet");
    let (found, report) = source::read(&path, &Options::default()).unwrap();
    let turns: Vec<_> = found.iter().map(|c| (c.id.as_str(), c.turns[0].user.as_str())).collect();
    assert_eq!(turns, [("a", "hi")], "{report}");
    let report = report.to_string();
    assert!(report.contains("missing key: 1 (row 2)") && report.contains("empty list: 1 (row 3)"), "{report}");
}
