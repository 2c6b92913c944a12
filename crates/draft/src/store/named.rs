//! A store as settings name it.

use super::{Store, StoreError};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The path of a store, and the store once it was opened. Two are equal if their paths are.
#[derive(Clone)]
pub struct StoreFile {
    path: PathBuf,
    store: Option<Arc<Store>>,
}

impl StoreFile {
    /// A store that is not opened yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), store: None }
    }

    /// Opens it.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn opened(self) -> Result<Self, StoreError> {
        let store = Arc::new(Store::open(&self.path)?);
        Ok(Self { store: Some(store), ..self })
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store, if it was opened.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// Fails if the store holds tokens that a vocabulary lacks.
    ///
    /// # Errors
    /// One line with the path.
    pub fn check(&self, vocab: usize) -> Result<(), String> {
        match self.store().map(|store| store.vocab()).filter(|&known| known > vocab) {
            None => Ok(()),
            Some(known) => {
                let path = self.path.display();
                Err(format!("{path}: this store holds token {}, and the model has {vocab} tokens", known - 1))
            }
        }
    }
}

impl fmt::Display for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

impl PartialEq for StoreFile {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for StoreFile {}
