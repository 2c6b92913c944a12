//! Prompts in: conversations read from files that nobody has checked.
//!
//! [`read`] takes a file in any of the [`Format`]s and returns its usable conversations in the file's order, with a
//! [`Report`] that accounts for everything else by line. [`Reader`] does the same one conversation at a time.
//!
//! # Files
//!
//! A file is a JSON array of records (read element by element, whatever its layout), one JSON record per line (JSONL),
//! a Parquet file with the keys of records as columns (its rows count as lines), or plain text. `PAR1` begins Parquet.
//! Of the others the first byte that is no white space decides: `[` an array, `{` JSONL, anything else plain text; an
//! explicit [`Options::format`] other than `text` rules plain text out, and `text` rules the others out. A first line
//! such as `[1, 2]`, which does not lead up to a second line with a whole record, is a broken line of JSONL. The
//! format of a JSON record is told from its own keys, so that formats may be mixed in one file. A UTF-8 byte order
//! mark and CRLF line ends are accepted, blank lines are ignored. Not accepted, with an error for the whole file:
//! compressed and binary files, UTF-16, and one JSON object spread over several lines, such as `{"data": [...]}`.
//!
//! In plain text each line is a prompt of one turn; blank lines separate nothing.
//!
//! No record takes more memory than a small multiple of [`Options::max_line_bytes`]: what is longer is passed over
//! without being kept. JSON may nest 128 deep.
//!
//! # Records
//!
//! - The id is the text or number under `id`, `question_id`, `conversation_id` or `prompt_id`. A number becomes its
//!   decimal text. A record without one is called `line-N` after its line, `line-N-2` where that name is taken.
//! - `category` and `system` (or `system_prompt`) are read in every JSON format. An empty system prompt counts as none.
//! - A key that may be left out may also be `null`. A text may not: numbers, `null` and the like are never turned into
//!   text.
//! - Texts are kept as they are, white space included. Control characters are kept too, for they occur in real prompts
//!   and tokenizers handle them; only U+0000 is refused, because C strings further on would end at it.
//! - A message's content may be a list of `{"type": "text"}` parts, which are put together without a separator.
//! - Keys without a meaning here are ignored, and named in the report. Of a key given twice the last one counts.
//!
//! # Repairs
//!
//! The record is kept, and the report counts it under each [`Repair`] made:
//!
//! - assistant turns before the first user turn are dropped;
//! - user turns in a row are joined with a blank line, and so are assistant turns;
//! - a user turn at the end of a list of messages is kept, without an answer;
//! - an empty answer counts as no answer;
//! - a tool call without a result is dropped, and the model answers in its place;
//! - another spelling of a role (`chatgpt`, `Human`, `developer`) is taken as the role;
//! - in an array, a missing or doubled comma between two elements is overlooked (a comma after the last one always is).
//!
//! # Rejections
//!
//! The record is skipped, and the report gives its line, its id as far as known and the [`Reason`]:
//!
//! - the bytes: invalid UTF-8, longer than allowed, invalid JSON, nested too deeply, half of a surrogate pair;
//! - the shape: no object, keys of no known format, a text, list or object of another type, a missing key, an empty
//!   list;
//! - the turns: an unknown role, a tool's turn unless [`Options::tools`] allows it, a tool call that is
//!   no JSON, a part that is no text, an empty user turn, no user turn, a system
//!   message anywhere but first or next to a `system` key, U+0000 in a text;
//! - the rest: the id of an earlier record that was kept; no answer at all where [`Options::answers_required`].
//!
//! A broken element of an array is skipped alone where its brackets, outside strings, tell where it ends; a raw line
//! break ends a string, as no JSON string can hold one. One that lost its closing brackets ends before a bracket on a
//! later line, no further indented than the element, that no valid element could hold there. If nothing tells the end,
//! the rest of the file is skipped, and the report says from which line on.

mod array;
mod clip;
mod conversation;
mod detect;
mod error;
mod format;
mod head;
mod lines;
mod parquet;
mod reader;
mod reason;
mod record;
mod report;
mod roles;
mod tools;

use std::path::Path;

pub(crate) use conversation::digest;
pub use conversation::{Conversation, Options, Turn};
pub use error::SourceError;
pub use format::{Format, UnknownFormat};
pub use reader::Reader;
pub use reason::{Reason, Repair};
pub use report::{Repaired, Report, Skipped};

/// Reads the conversations of the file at `path`, in its order, and accounts for what was repaired and skipped.
///
/// # Errors
///
/// The file cannot be read, is of a kind that is not read here, or holds no usable record.
pub fn read(path: &Path, options: &Options) -> Result<(Vec<Conversation>, Report), SourceError> {
    let mut reader = Reader::open(path, options)?;
    let conversations = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    let report = reader.into_report();
    if conversations.is_empty() && options.limit != Some(0) {
        return Err(SourceError::nothing_usable(path, report));
    }
    Ok((conversations, report))
}
