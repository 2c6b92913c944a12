//! Models by folder or by name, and data sets by name: a name such as `owner/name` is looked up in the Hugging Face
//! cache, which other programs share, and downloaded into it when it is not there.
//!
//! A snapshot folder only ever holds whole files: a download goes to a file beside it, can be resumed, is checked for
//! its size and, where the hub states one, its SHA-256, and is linked into the snapshot last. Names that come from a
//! server never become paths before they are checked.

mod cache;
mod dataset;
mod download;
mod error;
mod listing;
#[cfg(feature = "network")]
mod network;
#[cfg(not(feature = "network"))]
#[path = "no_network.rs"]
mod network;
mod options;
mod push;
mod repo;
mod url;

pub use dataset::DataSet;
pub use download::Progress;
pub use error::{Cause, HubError};
pub use options::HubOptions;
pub use push::{Push, push};
pub use repo::{InvalidRepo, Repo};
pub use url::is_loopback;

use cache::{CONFIG, Cache, Holds, INDEX, WEIGHTS};
use download::Download;
use gorgon_runs::file::TEXT_FILES;
use network::Client;
use repo::is_plain;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Finds the folder of a model: `model` itself if it is a folder or a GGUF file, else the model of that name in the cache, else on
/// the hub.
///
/// A model that the cache holds completely is used as it is, without asking the hub for a newer one; [`fetch`] does.
///
/// # Errors
/// There is no such model, or it cannot be downloaded.
pub fn resolve(
    model: &str,
    options: &HubOptions,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<PathBuf, HubError> {
    let path = Path::new(model);
    let is_gguf = gorgon_gguf::find(path).is_ok_and(|found| found.is_some());
    if path.is_dir() || is_gguf {
        return Ok(path.to_owned());
    }
    if path.exists() {
        return Err(HubError::NotAFolder { path: path.to_owned() });
    }
    let repo = Repo::parse(model)?;
    let cached = Cache::new(&options.cache, &repo).complete(Holds::Model);
    match cached {
        // Without a tokenizer it may have been left incomplete by another program, or have none: only the hub knows.
        Ok(folder) if options.offline || folder.join("tokenizer.json").is_file() => Ok(folder),
        Ok(folder) => fetch(&repo, options, progress).or(Ok(folder)),
        Err(missing) if options.offline => Err(HubError::Offline { repo, missing, cache: options.cache.clone() }),
        Err(_) => fetch(&repo, options, progress),
    }
}

/// Finds the folder of draft heads of a repository: in the cache, else on the hub. Their weights may be a PyTorch file.
///
/// # Errors
/// There is no such repository, it has no weights, or it cannot be downloaded.
pub fn heads(repo: &Repo, options: &HubOptions, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<PathBuf, HubError> {
    match Cache::new(&options.cache, repo).complete(Holds::Heads) {
        Ok(folder) => Ok(folder),
        Err(missing) if options.offline => {
            Err(HubError::Offline { repo: repo.clone(), missing, cache: options.cache.clone() })
        }
        Err(_) => bring(repo, Holds::Heads, options, progress),
    }
}

/// Brings the newest commit of a revision into the cache, downloading only files that are missing there, and returns
/// its folder.
///
/// # Errors
/// Downloading is off, or the hub lacks, refuses or garbles something.
pub fn fetch(repo: &Repo, options: &HubOptions, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<PathBuf, HubError> {
    if options.offline {
        let missing = Cache::new(&options.cache, repo).complete(Holds::Model).err();
        let missing = missing.unwrap_or_else(|| "a newer version is".into());
        return Err(HubError::Offline { repo: repo.clone(), missing, cache: options.cache.clone() });
    }
    bring(repo, Holds::Model, options, progress)
}

/// Downloads the files of a repository that are missing in the cache.
fn bring(
    repo: &Repo,
    holds: Holds,
    options: &HubOptions,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<PathBuf, HubError> {
    let cache = Cache::new(&options.cache, repo);
    let client = Client::new(repo, options)?;
    let listing = client.listing()?;
    let download = Download { repo, client, cache, commit: &listing.commit };
    if listing.files.contains(INDEX) && !listing.files.contains(WEIGHTS) {
        download.files(&[INDEX], progress)?;
    }
    let files = choose(&download, holds, &listing.files)?;
    download.files(&files.iter().map(String::as_str).collect::<Vec<_>>(), progress)?;
    download.cache.write_ref(&listing.commit)?;
    Ok(download.cache.snapshot(&listing.commit))
}

/// The files that make up a model: whole weights before sharded ones, as other loaders prefer them.
fn choose(download: &Download<'_>, holds: Holds, listed: &BTreeSet<String>) -> Result<Vec<String>, HubError> {
    let unusable = |reason: String| HubError::Unusable { repo: download.repo.clone(), reason };
    if !listed.contains(CONFIG) {
        return Err(unusable(format!("the repository has no {CONFIG}")));
    }
    let small = [CONFIG].into_iter().chain(TEXT_FILES).filter(|file| listed.contains(*file));
    let mut files: Vec<String> = small.map(Into::into).collect();
    if listed.contains(WEIGHTS) {
        files.push(WEIGHTS.into());
    } else if listed.contains(INDEX) {
        let shards = download.cache.shards(download.commit, INDEX)?;
        for shard in shards {
            if !is_plain(&shard) {
                return Err(HubError::UnsafeName { repo: download.repo.clone(), what: "shard", name: shard });
            }
            if !listed.contains(&shard) {
                return Err(unusable(format!("{INDEX} names {shard}, which the repository does not have")));
            }
            files.push(shard);
        }
    } else {
        // Heads come under many names. The original layout of some models repeats the weights as `consolidated`.
        let named = |ending: &str| -> Vec<String> {
            let named = listed.iter().filter(|f| f.ends_with(ending) && is_plain(f));
            named.filter(|f| !f.starts_with("consolidated")).cloned().collect()
        };
        let found = holds.endings().iter().map(|ending| named(ending)).find(|named| !named.is_empty());
        let named = found.unwrap_or_default();
        if named.is_empty() {
            let other = listed.iter().find(|f| f.ends_with(".bin") || f.ends_with(".pt") || f.ends_with(".gguf"));
            let other = other.map(|f| format!(" (it has {f})")).unwrap_or_default();
            return Err(unusable(format!(
                "the repository has no weights in {} files{other}",
                holds.endings().join(", ")
            )));
        }
        files.extend(named);
    }
    Ok(files)
}
