//! Detects a file's kind from its first bytes.

use std::{
    io::{self, Read},
    path::Path,
};

use serde::de::IgnoredAny;

use super::{error::SourceError, format::Format};

/// How much of a file is looked at. It is read once only, so that pipes will do.
const LOOKED_AT: u64 = 64 << 10;

/// How the records are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// A JSON record per line.
    Lines,
    /// The elements of a JSON array.
    Array,
    /// A prompt per line.
    Text,
}

/// The start of a file, without its byte order mark.
#[derive(Debug)]
pub(super) struct Head {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether this is the whole file.
    whole: bool,
}

/// First bytes, what they are the mark of, and what to do about it.
const MARKS: &[(&[u8], &str, &str)] = &[
    (b"\x1f\x8b", "a gzip file", "decompress it first (gunzip)"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "decompress it first (unzstd)"),
    (b"\xfd7zXZ\0", "an xz file", "decompress it first (unxz)"),
    (b"BZh", "a bzip2 file", "decompress it first (bunzip2)"),
    (b"PK\x03\x04", "a zip archive", "unpack it first (unzip)"),
    (b"PAR1", "a Parquet file", "name it as a file, since it cannot be read from a pipe"),
    (b"ARROW1", "an Arrow file", "convert it to JSONL first"),
    (b"%PDF-", "a PDF file", "convert it to text first"),
    (b"\xff\xfe", "UTF-16 text", "convert it to UTF-8 first (iconv)"),
    (b"\xfe\xff", "UTF-16 text", "convert it to UTF-8 first (iconv)"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the file it stands for (git lfs pull)"),
];

impl Head {
    /// Takes the start of `input`.
    pub(super) fn take(input: &mut dyn Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        input.take(LOOKED_AT).read_to_end(&mut bytes)?;
        let whole = u64::try_from(bytes.len()).is_ok_and(|length| length < LOOKED_AT);
        if bytes.starts_with(b"\xef\xbb\xbf") {
            bytes.drain(..3);
        }
        Ok(Self { bytes, whole })
    }

    /// How the file's records are laid out, or why it is not read.
    pub(super) fn layout(&self, path: &Path, wanted: Option<Format>) -> Result<Layout, SourceError> {
        let kind = |what, advice| SourceError::Kind { path: path.to_path_buf(), what, advice };
        if let Some((_, what, advice)) = MARKS.iter().find(|(mark, ..)| self.bytes.starts_with(mark)) {
            return Err(kind(what, advice));
        }
        let Some(start) = self.bytes.iter().position(|byte| !byte.is_ascii_whitespace()) else {
            if self.whole {
                return Err(SourceError::Empty { path: path.to_path_buf() });
            }
            return Ok(if wanted == Some(Format::Text) { Layout::Text } else { Layout::Lines });
        };
        let (blank, text) = self.bytes.split_at(start);
        let layout = match (wanted, text.first()) {
            (Some(Format::Text), _) => Layout::Text,
            (_, Some(b'[')) if opens_array(text) => Layout::Array,
            (None, Some(byte)) if !matches!(byte, b'[' | b'{') => Layout::Text,
            _ => Layout::Lines,
        };
        if layout == Layout::Text && self.bytes.contains(&0) {
            return Err(kind("a binary file", "is it the right one?"));
        }
        let is_table =
            path.extension().is_some_and(|end| ["csv", "tsv"].iter().any(|table| end.eq_ignore_ascii_case(table)));
        if layout == Layout::Text && wanted.is_none() && is_table {
            let advice = "write an object such as {\"prompt\": \"Hello\"} per row; in a config of a distillation, \
                          format = \"text\" takes each line as a prompt";
            return Err(kind("a table of separated values", advice));
        }
        if layout == Layout::Lines && text.starts_with(b"{") && self.spreads(text) {
            return Err(SourceError::SpreadObject { path: path.to_path_buf(), first: 1 + line_feeds(blank) });
        }
        Ok(layout)
    }

    /// Whether the object that `text` starts with is valid and goes on over several lines.
    ///
    /// The lines that follow a broken first line of JSONL may happen to complete it, but then whole records follow on
    /// lines of their own. Where the object's end is out of sight, two line breaks in it are enough.
    fn spreads(&self, text: &[u8]) -> bool {
        let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
        match stream.next() {
            Some(Ok(_)) => text.split_at_checked(stream.byte_offset()).is_some_and(|(object, rest)| {
                line_feeds(object) > 0 && !rest.split(|byte| *byte == b'\n').any(is_object)
            }),
            Some(Err(error)) => error.is_eof() && !self.whole && error.line() > 2,
            None => false,
        }
    }
}

/// Whether the bracket that `text` starts with opens an array of records, not a broken line of JSONL.
///
/// It does unless the next line is an object by itself, and the first one does not lead up to that with whole elements
/// and a comma.
fn opens_array(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let (Some(first), Some(next)) = (lines.next(), lines.next()) else {
        return true;
    };
    let leads_up = match first.split_last() {
        Some((b'[', [])) => true,
        Some((b',', elements)) => is_json(&[elements, b"]"].concat()),
        _ => false,
    };
    leads_up || !is_object(next)
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Whether `line` is a JSON object by itself.
fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && is_json(line)
}

fn line_feeds(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
