//! Lines of bounded length.

use std::io::{self, BufRead, Read};

use super::reason::Reason;

/// The bytes of one record.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The line, from 1, where it starts.
    pub line: usize,
    /// The byte of that line, from 1, where it starts.
    pub column: usize,
    /// The bytes, or why they are not there.
    pub bytes: Result<Vec<u8>, Reason>,
    /// Whether the right separator came before it.
    pub separated: bool,
}

/// Splits its input at line feeds, without ever holding more than a line of the allowed length.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    limit: usize,
    line: usize,
}

impl<R: BufRead> Lines<R> {
    /// Lines of at most `limit` bytes, their ends (LF or CRLF) not counted.
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, line: 0 }
    }

    /// The line that is being read, or was read last.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The next line without its end; `None` at the end of the input.
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        self.line += 1;
        let mut bytes = Vec::new();
        // Two more than the limit: enough for the line's end, or to see that the line is too long.
        let most = u64::try_from(self.limit).unwrap_or(u64::MAX).saturating_add(2);
        if Read::take(&mut self.input, most).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        } else {
            // Either the end of the input, where this does nothing, or the middle of a line that is too long.
            self.input.skip_until(b'\n')?;
        }
        let bytes = if bytes.len() > self.limit { Err(Reason::TooLong { limit: self.limit }) } else { Ok(bytes) };
        Ok(Some(Chunk { line: self.line, column: 1, bytes, separated: true }))
    }
}
