//! A revision and its files, as the hub describes them.

use std::collections::BTreeSet;

/// A revision as the hub knows it.
pub(crate) struct Listing {
    /// Its commit.
    pub commit: String,
    /// All its files.
    pub files: BTreeSet<String>,
}

/// Size and hashes of a file, as reported by the hub.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// Names the content: its SHA-256 for large files, some other digest for small ones.
    pub etag: String,
    /// Bytes.
    pub size: Option<u64>,
}

/// The longest file that is taken without its size being announced, and the longest that is read as text.
pub(crate) const MAX_SMALL_BYTES: u64 = 64 << 20;

impl Metadata {
    /// Bytes that may come.
    #[cfg_attr(not(feature = "network"), expect(dead_code, reason = "only downloads are checked"))]
    pub fn most(&self) -> u64 {
        self.size.unwrap_or(MAX_SMALL_BYTES)
    }

    /// The SHA-256 of the content, where the etag is one.
    #[cfg_attr(not(feature = "network"), expect(dead_code, reason = "only downloads are checked"))]
    pub fn sha256(&self) -> Option<&str> {
        Some(&*self.etag).filter(|etag| etag.len() == 64 && etag.bytes().all(|b| b.is_ascii_hexdigit()))
    }
}
