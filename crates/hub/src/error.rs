//! Errors of downloading or finding models and data sets.

use crate::repo::{InvalidRepo, Repo};
use std::path::PathBuf;

/// Errors of downloading or finding models and data sets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// Neither a folder nor a name on the hub.
    #[error(transparent)]
    NotFound(#[from] InvalidRepo),
    /// A file where a folder should be.
    #[error("{path}: a file; a model is a folder with config.json and the weights, or a GGUF file")]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// No name of a data set.
    #[error("{name}: not a data set on the hub (datasets/owner/name, with @revision and /folder or /file if wanted)")]
    InvalidDataset {
        /// The text.
        name: String,
    },
    /// The repository is not in the cache and may not be downloaded.
    #[error("{repo}: {missing} not in the cache {cache}, and downloading is off (--offline or HF_HUB_OFFLINE)")]
    Offline {
        /// The repository.
        repo: Repo,
        /// Name of the missing file.
        missing: String,
        /// The cache folder.
        cache: PathBuf,
    },
    /// The hub does not know the repository or the revision.
    #[error("{repo}: no such folder, and {endpoint} knows no such {} or revision", repo.kind)]
    NoSuchRepo {
        /// The repository.
        repo: Repo,
        /// The hub.
        endpoint: String,
    },
    /// The hub wants to know who asks.
    #[error("{repo}: {endpoint} says {status}: {advice}")]
    Denied {
        /// The repository.
        repo: Repo,
        /// The hub.
        endpoint: String,
        /// 401 or 403.
        status: u16,
        /// Advice for the reader.
        advice: &'static str,
    },
    /// The hub, or the way to it, fails.
    #[error("{url}: {reason}")]
    Transfer {
        /// Requested address.
        url: String,
        /// Description of the failure.
        reason: String,
        /// The errors behind it.
        source: Option<Cause>,
    },
    /// A downloaded file is not what the hub announced.
    #[error("{url}: {reason}; nothing was kept")]
    Corrupt {
        /// The file.
        url: String,
        /// Description of the difference.
        reason: String,
    },
    /// The hub sent a name that is unfit to be a file name.
    #[error("{repo}: the hub names a {what} {name:?}, which is no plain file name")]
    UnsafeName {
        /// The repository.
        repo: Repo,
        /// Purpose of the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The repository lacks files that are needed.
    #[error("{repo}: {reason}")]
    Unusable {
        /// The repository.
        repo: Repo,
        /// Description of the missing part.
        reason: String,
    },
    /// A file of the cache cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Built without the feature that uses the network.
    #[error("{repo}: this gorgon is built without the feature `hub`, which downloads")]
    NoNetwork {
        /// The repository.
        repo: Repo,
    },
    /// Built without the feature for uploads.
    #[error("{repo}: this gorgon is built without the feature `push`, which uploads")]
    NoPush {
        /// The repository.
        repo: Repo,
    },
    /// Uploads need the network.
    #[error("{repo}: an upload needs the network, which is off (--offline or HF_HUB_OFFLINE)")]
    OfflinePush {
        /// The repository.
        repo: Repo,
    },
    /// Uploads need a token.
    #[error("{repo}: an upload needs a token: set HF_TOKEN to one with write access")]
    NoToken {
        /// The repository.
        repo: Repo,
    },
    /// There is no home folder to keep the cache in.
    #[error("no home folder is known; set HF_HOME to a folder for the Hugging Face cache")]
    NoHome,
}

/// An error of the network library in words, with those behind it.
#[derive(Debug)]
pub struct Cause {
    message: String,
    source: Option<Box<Cause>>,
}

impl Cause {
    #[cfg(feature = "network")]
    pub(crate) fn of(error: &dyn std::error::Error) -> Self {
        Self { message: error.to_string(), source: error.source().map(|source| Box::new(Self::of(source))) }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}
