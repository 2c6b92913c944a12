//! A file of which a part is there.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::HubError;
use crate::listing::Metadata;

/// A file that is being downloaded, with the digest of what is there.
pub(super) struct Partial<'a> {
    path: &'a Path,
    file: File,
    pub len: u64,
    digest: Sha256,
}

impl<'a> Partial<'a> {
    pub fn open(path: &'a Path) -> Result<Self, HubError> {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let opened = opened.and_then(|mut file| {
            let mut digest = Sha256::new();
            let len = io::copy(&mut file, &mut digest)?;
            Ok((file, len, digest))
        });
        let (file, len, digest) = opened.map_err(|source| HubError::Io { path: path.to_owned(), source })?;
        Ok(Self { path, file, len, digest })
    }

    fn io<T>(&self, result: io::Result<T>) -> Result<T, HubError> {
        result.map_err(|source| HubError::Io { path: self.path.to_owned(), source })
    }

    pub fn restart(&mut self) -> Result<(), HubError> {
        self.len = 0;
        self.digest.reset();
        self.io(self.file.set_len(0))?;
        let start = self.file.seek(SeekFrom::Start(0));
        self.io(start).map(drop)
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), HubError> {
        let written = self.file.write_all(bytes);
        self.io(written)?;
        self.digest.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    pub fn verify(&self, metadata: &Metadata) -> Result<(), String> {
        if self.len > metadata.most() {
            let announced = if metadata.size.is_some() { "that the hub announced" } else { "of a file without a size" };
            return Err(format!("more than the {} bytes {announced}", metadata.most()));
        }
        match metadata.sha256() {
            Some(expected) if !format!("{:x}", self.digest.clone().finalize()).eq_ignore_ascii_case(expected) => {
                Err("the SHA-256 is not the one that the hub announced".into())
            }
            _ => Ok(()),
        }
    }

    pub fn finish(self) -> Result<(), HubError> {
        self.io(self.file.sync_all())
    }

    pub fn remove(self) {
        // It is empty; if it stays, the next download begins with it.
        let _ = std::fs::remove_file(self.path);
    }
}
