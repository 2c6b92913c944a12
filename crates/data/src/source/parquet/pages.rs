//! The headers of a file's pages, read before the library believes them: it allocates what they say.
//!
//! Headers are structs in [Thrift's compact protocol](https://github.com/apache/thrift/blob/master/doc/specs/).

use parquet::arrow::ProjectionMask;
use parquet::file::metadata::ParquetMetaData;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Bytes of a page at most.
const MAX_BYTES: i64 = 128 << 20;
/// Values in a page at most.
const MAX_VALUES: i64 = 1 << 25;
/// How deep structs may nest; headers need three.
const MAX_DEPTH: usize = 8;

/// Looks at all pages of the wanted columns.
pub(super) fn check(file: &File, metadata: &ParquetMetaData, wanted: &ProjectionMask) -> io::Result<()> {
    let mut input = BufReader::with_capacity(512, file);
    for (group, rows) in metadata.row_groups().iter().enumerate() {
        for (i, column) in rows.columns().iter().enumerate().filter(|(i, _)| wanted.leaf_included(*i)) {
            let (start, length) = column.byte_range();
            let damaged = |error: &dyn std::fmt::Display| wrong(format!("row group {group}, column {i}: {error}"));
            let end = start.checked_add(length).ok_or_else(|| damaged(&"it is longer than any file"))?;
            let mut at = start;
            while at < end {
                input.seek(SeekFrom::Start(at))?;
                let mut header = Header::new((&mut input).take(end - at));
                header.structure(TOP, 0).map_err(|error| damaged(&error))?;
                at = header.page_end(at, end).map_err(|error| damaged(&error))?;
            }
        }
    }
    Ok(())
}

fn wrong(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// The place of fields in the header itself, and in structs that do not matter. Others are named by their field.
const TOP: i64 = 0;
const ELSEWHERE: i64 = -1;

/// A page's header as far as it is read.
struct Header<R> {
    input: R,
    /// Its bytes.
    length: u64,
    uncompressed: i64,
    compressed: i64,
    values: i64,
}

impl<R: Read> Header<R> {
    fn new(input: R) -> Self {
        Self { input, length: 0, uncompressed: -1, compressed: -1, values: 0 }
    }

    /// The end of the page that begins at `at`, which has to come before `end`.
    fn page_end(&self, at: u64, end: u64) -> io::Result<u64> {
        for (name, is, most) in [("bytes", self.uncompressed, MAX_BYTES), ("values", self.values, MAX_VALUES)] {
            if !(0..=most).contains(&is) {
                return Err(wrong(format!("a page of {is} {name}; at most {most} are read")));
            }
        }
        let bytes = u64::try_from(self.compressed).map_err(|_| wrong("a page without a length"))?;
        Some(at + self.length + bytes).filter(|next| *next <= end).ok_or_else(|| wrong("a page beyond its column"))
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        self.length += 1;
        Ok(byte[0])
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(wrong("a number of a page's header has no end"))
    }

    /// Numbers with a sign: 0, -1, 1, -2, …
    fn number(&mut self) -> io::Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.input).take(bytes), &mut io::sink())?;
        self.length += skipped;
        if skipped < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// A struct, whose fields are those of `place`.
    fn structure(&mut self, place: i64, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(wrong("a page's header is nested too deeply"));
        }
        let mut id: i64 = 0;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            id = if head >> 4 == 0 { self.number()? } else { id.wrapping_add(i64::from(head >> 4)) };
            self.field((place, id), head & 0x0f, depth)?;
        }
    }

    /// A field of some type.
    fn field(&mut self, at: (i64, i64), kind: u8, depth: usize) -> io::Result<()> {
        match kind {
            1 | 2 => Ok(()),
            3 => self.skip(1),
            4..=6 => {
                let number = self.number()?;
                match at {
                    (TOP, 2) => self.uncompressed = number,
                    (TOP, 3) => self.compressed = number,
                    // Headers of data pages and of dictionaries.
                    (5 | 7 | 8, 1) => self.values = number,
                    _ => {}
                }
                Ok(())
            }
            7 => self.skip(8),
            8 => self.varint().and_then(|bytes| self.skip(bytes)),
            12 => self.structure(if at.0 == TOP { at.1 } else { ELSEWHERE }, depth + 1),
            _ => Err(wrong("a page's header that is none")),
        }
    }
}
