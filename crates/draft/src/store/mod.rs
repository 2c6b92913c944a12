//! Stores: past answers or documents as tokens, with two suffix arrays, in a file that is mapped and not read.
//!
//! The text of a store is `S d_1 S d_2 S .. d_m S` for the documents `d_i` and a separator `S` that no token equals, so
//! no match runs over the boundary of a document. Two permutations of its positions order it: the suffix array
//! `suffixes`, by what follows a position, and `prefixes`, the suffix array of the reversed text, by what precedes it.
//!
//! * The longest suffix of a text that occurs in the store is found by one binary search in `prefixes`
//!   ([`Store::longest`]).
//! * The occurrences of a token sequence are an interval of `suffixes`, and those of the sequence with one more token an
//!   interval within it: so counts of continuations are lengths of intervals, and exact ([`Store::followers`]).
//!
//! # File
//!
//! | bytes | value |
//! |---|---|
//! | 8 | `GRGSTORE` |
//! | 4, 4 | version 1; the greatest token and 1 |
//! | 8, 8 | entries of the text `n`, separators included; documents `m` |
//! | 64, 64 | SHA-256 of the tokenizer and of all bytes behind the header, in hexadecimal |
//! | 3 n | the text: 24 bits an entry, `S` is `0xFFFFFF` |
//! | 4 n | `suffixes`: 32 bits an entry |
//! | 4 n | `prefixes`: 32 bits an entry |
//!
//! All numbers are little-endian. That is 11 bytes an entry. Nothing in a file is trusted: its header must fit its
//! length when it is opened, and every entry is checked where it is used. A wrong one costs drafts, and changes no text.

mod build;
mod error;
mod file;
mod followed;
mod live;
mod named;
mod search;

pub use build::StoreBuilder;
pub use error::StoreError;
pub use file::Store;
pub use live::LiveStore;
pub use named::StoreFile;
pub use search::Match;

#[cfg(test)]
mod tests;
