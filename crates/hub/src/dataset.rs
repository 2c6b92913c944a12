//! Data sets: the data files of a repository, or of a folder in it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cache::Cache;
use crate::download::{Download, Progress};
use crate::error::HubError;
use crate::network::Client;
use crate::options::HubOptions;
use crate::repo::{Kind, Repo, is_plain};

/// Endings of files with rows.
const ENDINGS: [&str; 3] = [".parquet", ".jsonl", ".json"];
/// JSON files about a data set; only their full path asks for them.
const ABOUT: [&str; 4] = ["dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"];

/// A data set on the hub: the names of its data files (`.parquet`, `.jsonl`, `.json`). Each is downloaded when it is
/// asked for, so a reader that stops early downloads no more than it reads.
#[derive(Debug)]
pub struct DataSet {
    repo: Repo,
    commit: String,
    files: Vec<String>,
    options: HubOptions,
}

impl DataSet {
    /// The data set `datasets/owner/name`, with `@revision` and with `/folder` or `/folder/file.jsonl` where wanted.
    /// Its list of files comes from the hub the first time and from the cache afterwards: the data set stays at the
    /// commit that it had then, so a job that goes on reads the same files.
    ///
    /// # Errors
    /// The name is something else, there are no such files, or the hub does not list them.
    pub fn open(name: &str, options: &HubOptions) -> Result<Self, HubError> {
        let wanted = Wanted::parse(name).ok_or_else(|| HubError::InvalidDataset { name: name.into() })?;
        let cache = Cache::new(&options.cache, &wanted.repo);
        let (commit, files) = match wanted.cached(&cache) {
            Ok(found) => found,
            Err(missing) if options.offline => return Err(offline(&wanted.repo, missing.into(), options)),
            Err(_) => wanted.listed(&cache, options)?,
        };
        Ok(Self { repo: wanted.repo, commit, files, options: options.clone() })
    }

    /// The names of the data files in the repository, in order.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// One of the files, on this machine: as the cache holds it, or downloaded into it.
    ///
    /// # Errors
    /// It cannot be downloaded.
    pub fn fetch(&self, file: &str, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<PathBuf, HubError> {
        let cache = Cache::new(&self.options.cache, &self.repo);
        let path = cache.snapshot(&self.commit).join(file);
        if cache.has(&self.commit, file) {
            return Ok(path);
        }
        if self.options.offline {
            return Err(offline(&self.repo, format!("{file} is"), &self.options));
        }
        let client = Client::new(&self.repo, &self.options)?;
        Download { repo: &self.repo, client, cache, commit: &self.commit }.files(&[file], progress)?;
        Ok(path)
    }
}

fn offline(repo: &Repo, missing: String, options: &HubOptions) -> HubError {
    HubError::Offline { repo: repo.clone(), missing, cache: options.cache.clone() }
}

/// The named part of a data set.
struct Wanted {
    repo: Repo,
    /// A folder or file of the repository; empty for all of it.
    path: String,
}

impl Wanted {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("datasets/")?.split('/').peekable();
        let owner = parts.next()?;
        let (name, revision) = parts.next().map(|part| part.split_once('@').unwrap_or((part, "main")))?;
        let mut revision = revision.to_owned();
        if revision == "refs" {
            // `refs/pr/3` and `refs/convert/parquet` are the revisions with slashes.
            for _ in 0..2 {
                revision = format!("{revision}/{}", parts.next()?);
            }
        }
        let path: Vec<&str> = parts.collect();
        let plain = [owner, name].into_iter().chain(revision.split('/')).chain(path.iter().copied()).all(is_plain);
        let repo = Repo { kind: Kind::Dataset, owner: owner.into(), name: name.into(), revision: revision.into() };
        plain.then(|| Self { repo, path: path.join("/") })
    }

    /// Commit and files as the cache knows them, or the first missing thing.
    fn cached(&self, cache: &Cache) -> Result<(String, Vec<String>), &'static str> {
        let commit = cache.commit();
        let listed = cache.listing(&commit).filter(|_| is_plain(&commit)).ok_or("the list of its files is")?;
        let files = self.choose(&listed).map_err(|_| "a file of that name is")?;
        Ok((commit, files))
    }

    /// Commit and files as the hub lists them, noted in the cache.
    fn listed(&self, cache: &Cache, options: &HubOptions) -> Result<(String, Vec<String>), HubError> {
        let listing = Client::new(&self.repo, options)?.listing()?;
        let files = self.choose(&listing.files)?;
        cache.write_listing(&listing.commit, &listing.files)?;
        cache.write_ref(&listing.commit)?;
        Ok((listing.commit, files))
    }

    /// The data files among those of the repository.
    fn choose(&self, listed: &BTreeSet<String>) -> Result<Vec<String>, HubError> {
        let files: Vec<String> = listed.iter().filter(|file| self.holds(file)).cloned().collect();
        if let Some(name) = files.iter().find(|file| !file.split('/').all(is_plain)) {
            return Err(HubError::UnsafeName { repo: self.repo.clone(), what: "data file", name: name.into() });
        }
        if files.is_empty() {
            let place = if self.path.is_empty() { "the repository" } else { &self.path };
            let reason = format!("{place} has no {} file", ENDINGS.join(", "));
            return Err(HubError::Unusable { repo: self.repo.clone(), reason });
        }
        Ok(files)
    }

    fn holds(&self, file: &str) -> bool {
        let data = ENDINGS.iter().any(|ending| file.ends_with(ending));
        let name = file.rsplit('/').next().unwrap_or(file);
        let within = self.path.is_empty() || file.strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('/'));
        let hidden = file.split('/').any(|part| part.starts_with('.'));
        data && (file == self.path || (within && !hidden && !ABOUT.contains(&name)))
    }
}
