//! Uploads of a folder.

use std::path::Path;

use crate::error::HubError;
#[cfg(feature = "push")]
use crate::network::Client;
use crate::options::HubOptions;
use crate::repo::Repo;

/// A folder that becomes a commit.
#[derive(Debug, Clone, Copy)]
pub struct Push<'a> {
    /// Where it goes; the repository is created if there is none.
    pub repo: &'a Repo,
    /// Its files are uploaded, without folders and hidden files.
    pub folder: &'a Path,
    /// Nobody else may see the repository.
    pub private: bool,
    /// The message of the commit.
    pub message: &'a str,
}

impl Push<'_> {
    /// Whether an upload may be tried at all.
    ///
    /// # Errors
    /// Uploads are not built in, the network may not be used, or there is no token.
    pub fn check(repo: &Repo, options: &HubOptions) -> Result<(), HubError> {
        if !cfg!(feature = "push") {
            return Err(HubError::NoPush { repo: repo.clone() });
        }
        if options.offline {
            return Err(HubError::OfflinePush { repo: repo.clone() });
        }
        if options.token.is_none() {
            return Err(HubError::NoToken { repo: repo.clone() });
        }
        Ok(())
    }
}

/// Uploads a folder as one commit. Returns the address of the repository. `progress` gets the bytes that are done and
/// those of all files.
///
/// # Errors
/// The network may not be used, there is no token, or the hub refuses or fails.
pub fn push(push: &Push<'_>, options: &HubOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<String, HubError> {
    Push::check(push.repo, options)?;
    #[cfg(feature = "push")]
    return Client::new(push.repo, options)?.push(push, progress);
    #[cfg(not(feature = "push"))]
    {
        let _ = progress;
        Err(HubError::NoPush { repo: push.repo.clone() })
    }
}
