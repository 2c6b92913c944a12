//! Helpers of the tests of `gorgon_data::source`.

use std::{io::Cursor, path::Path};

use gorgon_data::source::{Conversation, Options, Reader, Report, SourceError, Turn};

/// Reads `bytes` as the file `test.jsonl`.
pub fn try_read(bytes: &[u8], options: &Options) -> Result<(Vec<Conversation>, Report), SourceError> {
    let mut reader = Reader::new(Path::new("test.jsonl"), Box::new(Cursor::new(bytes.to_vec())), options)?;
    let conversations = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    Ok((conversations, reader.into_report()))
}

/// Reads `text` with the usual options.
pub fn read(text: &str) -> (Vec<Conversation>, Report) {
    try_read(text.as_bytes(), &Options::default()).expect("a file that is read")
}

/// The only conversation in `text`, and the report.
pub fn one(text: &str) -> (Conversation, Report) {
    let (mut conversations, report) = read(text);
    assert_eq!((conversations.len(), report.skipped.as_slice()), (1, [].as_slice()), "{text}");
    (conversations.remove(0), report)
}

/// Why the only record in `text` was skipped: the code and the words.
pub fn refused(text: &str) -> (&'static str, String) {
    let (conversations, report) = read(text);
    assert_eq!((conversations.len(), report.skipped.len()), (0, 1), "{text}: {report}");
    let reason = &report.skipped[0].reason;
    (reason.code(), reason.to_string())
}

/// The lines and reasons of what was skipped.
pub fn skipped(report: &Report) -> Vec<(usize, &'static str)> {
    report.skipped.iter().map(|skipped| (skipped.line, skipped.reason.code())).collect()
}

/// A turn.
pub fn turn(user: &str, assistant: Option<&str>) -> Turn {
    Turn { user: user.to_owned(), calls: vec![], assistant: assistant.map(str::to_owned) }
}

/// The ids of `conversations`.
pub fn ids(conversations: &[Conversation]) -> Vec<&str> {
    conversations.iter().map(|conversation| conversation.id.as_str()).collect()
}
