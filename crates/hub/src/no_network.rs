//! A gorgon without the feature `hub` uses the cache alone: its client cannot be made.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::Path;

use crate::error::HubError;
use crate::listing::{Listing, Metadata};
use crate::options::HubOptions;
use crate::repo::Repo;

/// A client that nobody has.
pub(crate) struct Client<'a>(Infallible, PhantomData<&'a Repo>);

impl Client<'_> {
    pub fn new(repo: &Repo, _options: &HubOptions) -> Result<Self, HubError> {
        Err(HubError::NoNetwork { repo: repo.clone() })
    }

    pub fn listing(&self) -> Result<Listing, HubError> {
        match self.0 {}
    }

    pub fn metadata(&self, _commit: &str, _file: &str) -> Result<Metadata, HubError> {
        match self.0 {}
    }

    pub fn download(
        &self,
        _commit: &str,
        _file: &str,
        _metadata: &Metadata,
        _path: &Path,
        _progress: &mut dyn FnMut(u64),
    ) -> Result<(), HubError> {
        match self.0 {}
    }
}
