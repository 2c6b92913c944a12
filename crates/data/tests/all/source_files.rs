//! Files as a whole: those that are not read, and real ones.

use crate::shared;
use crate::source_help;

use std::{
    io::{self, Cursor, Read},
    path::Path,
};

use gorgon_data::source::{Format, Options, Reader, SourceError, read};
use source_help::{ids, try_read};

/// The error of a file that holds `bytes`.
fn error_of(bytes: &[u8]) -> SourceError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompts");
    std::fs::write(&path, bytes).unwrap();
    let error = read(&path, &Options::default()).expect_err("a file that is not read");
    let words = error.to_string();
    assert!(words.starts_with(&format!("{}: ", path.display())), "{words}");
    error
}

#[test]
fn a_file_that_is_not_there() {
    let error = read(Path::new("no/such/file"), &Options::default()).unwrap_err();
    assert!(
        matches!(error, SourceError::Open { .. }) && error.to_string().starts_with("no/such/file: cannot be opened")
    );
    let folder = tempfile::tempdir().unwrap();
    let error = read(folder.path(), &Options::default()).unwrap_err();
    assert!(matches!(error, SourceError::Open { .. } | SourceError::Read { .. }), "{error}");
}

#[test]
fn empty_files() {
    for bytes in ["", "\n \r\n\t", "\u{feff}", "\u{feff}\n", "[]", "[\n]\n", &" \n".repeat(100_000)] {
        let error = error_of(bytes.as_bytes());
        assert!(matches!(error, SourceError::Empty { .. }), "{error}");
    }
}

#[test]
fn files_of_another_kind() {
    for (bytes, what) in [
        (b"\x1f\x8b\x08\0\0".as_slice(), "gzip"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd"),
        (b"\xfd7zXZ\0\0", "xz"),
        (b"BZh9", "bzip2"),
        (b"PK\x03\x04\x14", "zip"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b"\xfe\xff\0{", "UTF-16"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"\x7fELF\x02\x01\0\0", "a binary file"),
        (b"text\nwith\0nul", "a binary file"),
    ] {
        let error = error_of(bytes);
        assert!(matches!(error, SourceError::Kind { .. }) && error.to_string().contains(what), "{error}");
    }
    // Parquet is read, so that only a damaged file is refused.
    let error = error_of(b"PAR1\x15").to_string();
    assert!(error.contains("the Parquet file is damaged"), "{error}");
}

#[test]
fn one_object_over_several_lines() {
    let records = "{\"prompt\": \"a\"},\n".repeat(10_000);
    let long = format!("{{\"data\": [\n{records}{{\"prompt\": \"b\"}}]}}");
    let two = "\n\n{\n\"prompt\": \"a\"\n}\n{\n\"prompt\": \"b\"\n}\n";
    for text in
        [two, "\n\n{\"data\": [\n{\"prompt\": \"a\"}\n]}", "\n\n{\n\"prompt\": \"a\"\n}\n", &format!("\n\n{long}")]
    {
        let error = error_of(text.as_bytes());
        assert!(matches!(error, SourceError::SpreadObject { first: 3, .. }), "{error}");
    }
    let error = error_of(b"{\"data\": [{\"prompt\": \"a\"}]}");
    assert!(
        error.to_string().ends_with("line 1: a list of records within an object: take the list under `data` out of it")
    );
}

#[test]
fn a_cut_off_first_line_makes_no_spread_object() {
    let rest = "{\"prompt\": \"a\"}\n".repeat(10_000);
    for first in ["{", "{\"turns\": [", "{\"a\":", "{\"prompt\": \"a\",", "{\"prompt\": \"a"] {
        let (conversations, report) = try_read(format!("{first}\n{rest}").as_bytes(), &Options::default()).unwrap();
        assert_eq!((conversations.len(), report.skipped.len(), report.skipped[0].line), (10_000, 1, 1));
    }
    // Not even where another broken line happens to complete it.
    let text = b"{\"id\":\n{\"prompt\": \"a\"}\n}\n{\"prompt\": \"b\"}";
    let (conversations, report) = try_read(text, &Options::default()).unwrap();
    assert_eq!((ids(&conversations), report.skipped.len()), (vec!["line-2", "line-4"], 2));
}

#[test]
fn nothing_usable_names_the_top_reason() {
    let error = error_of(b"{\"prompt\": 1}\n{\n{\"prompt\": 2}\n{\"prompt\": null}\n");
    let words =
        "no usable record: 3 of 4 were skipped for wrong type; line 1: wrong type: `prompt` is a number, not text";
    assert!(error.to_string().ends_with(words), "{error}");
    let SourceError::NothingUsable { report, .. } = error else { panic!("{error}") };
    assert_eq!(report.skipped.len(), 4);
}

/// Gives some bytes, then fails.
struct Failing(Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("unplugged")),
            count => Ok(count),
        }
    }
}

#[test]
fn a_failing_read_is_an_error_with_its_line() {
    for (open, between) in [("", "\n"), ("[", ",\n")] {
        let text = format!("{open}{}", format!("{{\"prompt\": \"a\"}}{between}").repeat(10_000));
        let input = Box::new(Failing(Cursor::new(text.into_bytes())));
        let reader = Reader::new(Path::new("stick"), input, &Options::default()).unwrap();
        let results = reader.collect::<Vec<_>>();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 10_000);
        let error = results.last().unwrap().as_ref().unwrap_err().to_string();
        assert_eq!((error.as_str(), results.len()), ("stick: cannot be read on from line 10001: unplugged", 10_001));
    }
}

#[test]
fn a_byte_order_mark_is_no_text() {
    for text in ["\u{feff}{\"prompt\": \"a\"}", "\u{feff}[{\"prompt\": \"a\"}]", "\u{feff}a"] {
        let (conversations, _) = try_read(text.as_bytes(), &Options::default()).unwrap();
        assert_eq!(conversations[0].turns[0].user, "a");
    }
}

#[test]
fn sharegpt_sample() {
    let Some(path) = shared::shared("data/sharegpt_sample.json", "sharegpt_sample") else { return };
    let (conversations, report) = read(&path, &Options { answers_required: true, ..Options::default() }).unwrap();
    assert_eq!((conversations.len(), report.formats[&Format::ShareGpt]), (500, 500));
    assert_eq!((report.skipped.len(), report.repaired.len(), report.unknown_keys.len()), (0, 0, 0), "{report}");
    assert_eq!((conversations[0].id.as_str(), conversations[0].line), ("identity_0", 2));
    assert_eq!((conversations[1].id.as_str(), conversations[1].line), ("identity_1", 23));
    assert_eq!(conversations[0].turns[1].assistant.as_deref(), Some("You too!"));
    assert_eq!(conversations.iter().map(|conversation| conversation.turns.len()).sum::<usize>(), 167 + 332 + 501);
}

#[test]
fn spec_bench_half() {
    let Some(path) = shared::shared("data/spec_bench_half.jsonl", "spec_bench_half") else { return };
    let (conversations, report) = read(&path, &Options::default()).unwrap();
    assert_eq!((conversations.len(), report.formats[&Format::Turns], report.skipped.len()), (240, 240, 0), "{report}");
    assert_eq!(report.unknown_keys.keys().collect::<Vec<_>>(), ["reference"]);
    assert_eq!(ids(&conversations[..2]), ["81", "88"]);
    let two = conversations.iter().filter(|conversation| conversation.turns.len() == 2).count();
    assert_eq!((two, conversations[0].category.as_deref()), (41, Some("writing")));
    let options = Options { answers_required: true, ..Options::default() };
    let error = read(&path, &options).unwrap_err().to_string();
    assert!(error.ends_with("240 of 240 were skipped for no assistant turn; line 1: no assistant turn"), "{error}");
}

#[test]
fn gsm8k_train() {
    let Some(path) = shared::shared("data/gsm8k_train.jsonl", "gsm8k_train") else { return };
    let (conversations, report) = read(&path, &Options { answers_required: true, ..Options::default() }).unwrap();
    assert_eq!(
        (conversations.len(), report.formats[&Format::Prompt], report.skipped.len()),
        (7473, 7473, 0),
        "{report}"
    );
    assert!(conversations.iter().zip(1..).all(|(conversation, line)| conversation.line == line));
    assert_eq!((conversations[7472].id.as_str(), report.unknown_keys.len()), ("line-7473", 0));
    let limited = read(&path, &Options { limit: Some(8), ..Options::default() }).unwrap().0;
    assert_eq!(limited, conversations[..8]);
}
