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

/// The data files (`.parquet`, `.jsonl`, `.json`) of a data set on the hub, on this machine and ordered by their names
/// in the repository.
///
/// `name` is `datasets/owner/name`, with `@revision` and with `/folder` or `/folder/file.jsonl` where wanted. Files
/// that the cache holds completely are used without asking the hub for newer ones; others are downloaded into it.
///
/// # Errors
/// The name is something else, there are no such files, or they cannot be downloaded.
pub fn dataset(
    name: &str,
    options: &HubOptions,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Vec<PathBuf>, HubError> {
    let wanted = Wanted::parse(name).ok_or_else(|| HubError::InvalidDataset { name: name.into() })?;
    let repo = &wanted.repo;
    let cache = Cache::new(&options.cache, repo);
    match wanted.cached(&cache) {
        Ok(files) => return Ok(files),
        Err(missing) if options.offline => {
            return Err(HubError::Offline { repo: repo.clone(), missing, cache: options.cache.clone() });
        }
        Err(_) => {}
    }
    let client = Client::new(repo, options)?;
    let listing = client.listing()?;
    let files = wanted.choose(&listing.files)?;
    let download = Download { repo, client, cache, commit: &listing.commit };
    download.files(&files, progress)?;
    download.cache.write_listing(&listing.commit, &listing.files)?;
    download.cache.write_ref(&listing.commit)?;
    Ok(paths(&download.cache, &listing.commit, &files))
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

    /// The files if the cache holds all of them, or the first missing thing.
    fn cached(&self, cache: &Cache) -> Result<Vec<PathBuf>, String> {
        let commit = cache.commit();
        let listed = cache.listing(&commit).filter(|_| is_plain(&commit)).ok_or("the list of its files is")?;
        let files = self.choose(&listed).map_err(|_| "a file of that name is")?;
        match files.iter().find(|file| !cache.has(&commit, file)) {
            None => Ok(paths(cache, &commit, &files)),
            Some(file) => Err(format!("{file} is")),
        }
    }

    /// The data files among those of the repository.
    fn choose<'f>(&self, listed: &'f BTreeSet<String>) -> Result<Vec<&'f str>, HubError> {
        let files: Vec<&str> = listed.iter().map(String::as_str).filter(|file| self.holds(file)).collect();
        if let Some(name) = files.iter().find(|file| !file.split('/').all(is_plain)) {
            return Err(HubError::UnsafeName { repo: self.repo.clone(), what: "data file", name: (*name).into() });
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

fn paths(cache: &Cache, commit: &str, files: &[&str]) -> Vec<PathBuf> {
    files.iter().map(|file| cache.snapshot(commit).join(file)).collect()
}
