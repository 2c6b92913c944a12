//! Files of one commit, brought into the cache.

use crate::cache::Cache;
use crate::error::HubError;
use crate::listing::{MAX_SMALL_BYTES, Metadata};
use crate::network::Client;
use crate::repo::{Kind, Repo};

/// How far a download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file that is being downloaded.
    pub file: &'a str,
    /// Bytes of it that are there.
    pub file_done_bytes: u64,
    /// Its size, where the hub says.
    pub file_total_bytes: Option<u64>,
    /// Bytes of all files of this download that are there.
    pub done_bytes: u64,
    /// Bytes of all files of this download.
    pub total_bytes: u64,
}

/// Brings files of one commit into the cache.
pub(crate) struct Download<'a> {
    pub repo: &'a Repo,
    pub client: Client<'a>,
    pub cache: Cache,
    pub commit: &'a str,
}

impl Download<'_> {
    /// Downloads the files that the snapshot does not hold yet.
    pub fn files(&self, files: &[&str], progress: &mut dyn FnMut(&Progress<'_>)) -> Result<(), HubError> {
        let mut missing: Vec<(&str, Metadata)> = Vec::new();
        for file in files.iter().filter(|file| !self.cache.has(self.commit, file)) {
            let metadata = self.client.metadata(self.commit, file)?;
            self.check_size(file, &metadata)?;
            missing.push((file, metadata));
        }
        let total_bytes = missing.iter().filter_map(|(_, metadata)| metadata.size).sum();
        let mut done_bytes = 0;
        for (file, metadata) in &missing {
            self.file(file, metadata, &mut |file_done_bytes| {
                progress(&Progress {
                    file,
                    file_done_bytes,
                    file_total_bytes: metadata.size,
                    done_bytes: done_bytes + file_done_bytes,
                    total_bytes,
                });
            })?;
            done_bytes += metadata.size.unwrap_or(0);
        }
        Ok(())
    }

    /// Refuses a config or tokenizer that would fill the disk or, when it is read, the memory.
    fn check_size(&self, file: &str, metadata: &Metadata) -> Result<(), HubError> {
        let text = self.repo.kind == Kind::Model && !file.ends_with(".safetensors");
        match metadata.size.filter(|size| text && *size > MAX_SMALL_BYTES) {
            None => Ok(()),
            Some(size) => {
                let reason = format!("{file} has {size} bytes; at most {MAX_SMALL_BYTES} are taken");
                Err(HubError::Unusable { repo: self.repo.clone(), reason })
            }
        }
    }

    fn file(&self, file: &str, metadata: &Metadata, progress: &mut dyn FnMut(u64)) -> Result<(), HubError> {
        // Another process may be downloading the same file: wait for it, then use what it brought.
        let _lock = self.cache.lock(&metadata.etag)?;
        if self.cache.has_blob(metadata) {
            tracing::debug!(repo = %self.repo, file, "in the cache");
        } else {
            tracing::debug!(repo = %self.repo, file, bytes = metadata.size, commit = self.commit, "downloading");
            self.client.download(self.commit, file, metadata, &self.cache.incomplete(&metadata.etag), progress)?;
            self.cache.keep(&metadata.etag)?;
        }
        progress(metadata.size.unwrap_or(0));
        self.cache.link(self.commit, file, &metadata.etag)
    }
}
