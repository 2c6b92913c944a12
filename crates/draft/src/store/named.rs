//! A store as settings name it.

use super::{LiveStore, Store, StoreError};
use gorgon_core::Token;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store that grows.
const LIVE: &str = "live";
/// MiB of one at most, unless another size is named.
const USUAL: usize = 16;
/// The largest size that may be named, in MiB.
const LARGEST: usize = 65_536;

/// The name of a store, and the store once it was opened. Two are equal if their names are.
#[derive(Clone)]
pub struct StoreFile {
    path: PathBuf,
    store: Option<Arc<Store>>,
    /// The size in MiB of one that grows, and the store itself.
    live: Option<(usize, Option<Arc<LiveStore>>)>,
    /// True if another drafter's store takes in the answers.
    is_reader: bool,
}

impl StoreFile {
    /// A store file that is not opened yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), store: None, live: None, is_reader: false }
    }

    /// The store of a name: `live`, `live:MIB`, or a file.
    ///
    /// # Errors
    /// When a size is none.
    pub fn named(name: &str) -> Result<Self, String> {
        let (first, size) = name.split_once(':').map_or((name, None), |(first, size)| (first, Some(size)));
        if first != LIVE {
            return Ok(Self::new(name));
        }
        let mib = match size.map(str::parse) {
            None => USUAL,
            Some(Ok(mib)) if (1..=LARGEST).contains(&mib) => mib,
            Some(_) => {
                return Err(format!("{name:?}: a size in MiB from 1 to {LARGEST} is expected, as in live:{USUAL}"));
            }
        };
        Ok(Self { live: Some((mib, None)), ..Self::new(name) })
    }

    /// Opens it. One that grows begins empty, and is shared by the copies of what is returned.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn opened(self) -> Result<Self, StoreError> {
        if let Some((mib, _)) = self.live {
            return Ok(Self { live: Some((mib, Some(Arc::new(LiveStore::new(mib))))), ..self });
        }
        let store = Arc::new(Store::open(&self.path)?);
        Ok(Self { store: Some(store), ..self })
    }

    /// Takes a store that grows from `shared`, and only reads it, if there is one; else it is shared from here on. Its
    /// size becomes the larger one.
    pub fn share(&mut self, shared: &mut Option<Arc<LiveStore>>) {
        let Some((mib, Some(own))) = &mut self.live else { return };
        match shared {
            None => *shared = Some(own.clone()),
            Some(shared) => {
                shared.grow(*mib);
                (*own, self.is_reader) = (shared.clone(), true);
            }
        }
    }

    /// An answer ended: it joins a store that grows.
    pub fn add(&self, answer: &[Token]) {
        if let Some(live) = self.live().filter(|_| !self.is_reader) {
            live.add(answer);
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store that drafts are looked up in, if it was opened: of one that grows, what it has now.
    pub fn store(&self) -> Option<Arc<Store>> {
        self.store.clone().or_else(|| self.live()?.snapshot())
    }

    /// The store that grows, if it is one and was opened.
    pub fn live(&self) -> Option<&Arc<LiveStore>> {
        self.live.as_ref()?.1.as_ref()
    }

    /// True of a live store.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Bytes that one that grows takes at most.
    pub fn bytes(&self) -> u128 {
        match &self.live {
            Some(_) if self.is_reader => 0,
            Some((_, Some(live))) => live.most_bytes(),
            Some((mib, None)) => (*mib as u128) << 20,
            None => 0,
        }
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
