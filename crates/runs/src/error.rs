//! Errors of run folders.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// An error of a run folder or one of its files.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process holds the folder's lock.
    #[error("{}: another process is using this folder", .path.display())]
    Locked {
        /// The run folder.
        path: PathBuf,
    },
    /// A name that cannot be a part of a folder's name.
    #[error("{stem:?} cannot name a run folder: letters, digits, '-', '_' and '.' can, with no '.' or '-' in front")]
    Stem {
        /// The name.
        stem: String,
    },
    /// A file that does not say what it should.
    #[error("{}: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// A checkpoint that would replace another one.
    #[error("{}: this checkpoint exists already", .path.display())]
    Exists {
        /// The checkpoint's folder.
        path: PathBuf,
    },
    /// A checkpoint that is not there, or not whole.
    #[error("{}: there is no whole checkpoint here", .path.display())]
    Missing {
        /// The checkpoint's folder.
        path: PathBuf,
    },
    /// The caller could not fill a checkpoint.
    #[error("{}: {source}", .path.display())]
    Fill {
        /// The checkpoint's folder, as it would have been called.
        path: PathBuf,
        /// The caller's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl RunError {
    /// For `map_err`: adds the path to an I/O error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.into(), source }
    }

    /// A file that does not say what it should.
    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> Self {
        Self::Damaged { path: path.into(), reason: reason.to_string() }
    }
}
