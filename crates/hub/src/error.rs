//! What can go wrong on the way to a model folder.

use crate::repo::{InvalidRepo, Repo};
use std::path::PathBuf;

/// What can go wrong on the way to a model folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// Neither a folder nor a name on the hub.
    #[error(transparent)]
    NotFound(#[from] InvalidRepo),
    /// A file where a folder should be.
    #[error("{path}: a file; a model is a folder with config.json and the weights")]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// The model is not in the cache and may not be downloaded.
    #[error("{repo}: {missing} not in the cache {cache}, and downloading is off (--offline or HF_HUB_OFFLINE)")]
    Offline {
        /// The model.
        repo: Repo,
        /// What is missing.
        missing: String,
        /// The cache folder.
        cache: PathBuf,
    },
    /// The hub does not know the model or the revision.
    #[error("{repo}: no such folder, and {endpoint} knows no such model or revision")]
    NoSuchRepo {
        /// The model.
        repo: Repo,
        /// The hub.
        endpoint: String,
    },
    /// The hub wants to know who asks.
    #[error("{repo}: {endpoint} says {status}: {advice}")]
    Denied {
        /// The model.
        repo: Repo,
        /// The hub.
        endpoint: String,
        /// 401 or 403.
        status: u16,
        /// What can be done.
        advice: &'static str,
    },
    /// The hub, or the way to it, fails.
    #[error("{url}: {reason}")]
    Transfer {
        /// What was asked for.
        url: String,
        /// What happened.
        reason: String,
    },
    /// A downloaded file is not what the hub announced.
    #[error("{url}: {reason}; nothing was kept")]
    Corrupt {
        /// The file.
        url: String,
        /// What differs.
        reason: String,
    },
    /// The hub sent a name that is unfit to be a file name.
    #[error("{repo}: the hub names a {what} {name:?}, which is no plain file name")]
    UnsafeName {
        /// The model.
        repo: Repo,
        /// What the name is for.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The repository holds no model that can be used.
    #[error("{repo}: {reason}")]
    Unusable {
        /// The model.
        repo: Repo,
        /// What is missing.
        reason: String,
    },
    /// A file of the cache cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is no home folder to keep the cache in.
    #[error("no home folder is known; set HF_HOME to a folder for the Hugging Face cache")]
    NoHome,
}
