//! Small files from outside, read with a limit.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Files beside a model's weights and config that its text depends on. Some of them lie in a folder.
pub const TEXT_FILES: [&str; 6] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "additional_chat_templates/tool_use.jinja",
];

/// Files of tokenizers that other programs read.
pub const OTHER_TEXT_FILES: [&str; 5] =
    ["chat_template.json", "added_tokens.json", "tokenizer.model", "vocab.json", "merges.txt"];

/// Opens an ordinary file. Opening a pipe would wait for a writer, and a device may never end.
///
/// # Errors
/// When there is none, it is something else, or the system refuses.
pub fn open(path: &Path) -> io::Result<File> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not an ordinary file"));
    }
    File::open(path)
}

/// The contents of an ordinary file of at most `limit` bytes.
///
/// # Errors
/// As [`open`], or when the file is longer.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("longer than {limit} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
