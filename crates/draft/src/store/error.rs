//! Errors of stores.

use std::io;
use std::path::{Path, PathBuf};

/// Why a store cannot be built, written or opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file.
    #[error("{}: {}", .path.display(), describe(.source))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is no store, or a damaged one.
    #[error("{}: {reason}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why it is refused.
        reason: String,
    },
    /// A token that a store has no room for.
    #[error("token {token} of a document: a store holds tokens below {most}")]
    Token {
        /// The token.
        token: u32,
        /// The first that does not fit.
        most: u32,
    },
    /// More text than a store has room for.
    #[error("the documents have more than {most} tokens, which is the most that a store holds")]
    Long {
        /// Entries of the largest store.
        most: usize,
    },
    /// Documents without a token.
    #[error("there is no document with a token to store")]
    Empty,
    /// The suffix array.
    #[error("the suffix array cannot be computed: {0}")]
    SuffixArray(String),
}

/// Why a file cannot be read or written.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such store (gorgon store build writes one)".into(),
        _ => error.to_string(),
    }
}

impl StoreError {
    pub(super) fn invalid(path: &Path, reason: impl Into<String>) -> Self {
        Self::Invalid { path: path.into(), reason: reason.into() }
    }

    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), source }
    }
}
