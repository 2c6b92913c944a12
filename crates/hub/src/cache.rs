//! The cache folder that Hugging Face programs share: `models--owner--name/{blobs,refs,snapshots}`, `datasets--…`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::error::HubError;
use crate::listing::Metadata;
use crate::repo::{Repo, is_plain};
use serde_json::Value;

/// Every model has this file.
pub(crate) const CONFIG: &str = "config.json";
/// Weights in one file.
pub(crate) const WEIGHTS: &str = "model.safetensors";
/// Names the files of weights in several.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// The kind of weights that a repository is expected to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Model,
    /// Draft heads, which are also published as PyTorch files.
    Heads,
}

impl Holds {
    /// Endings of files with weights under other names than a model's, the preferred one first.
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Model => &[".safetensors"],
            Self::Heads => &[".safetensors", ".bin", ".pt", ".pth"],
        }
    }
}

/// One repository's part of the cache.
pub(crate) struct Cache {
    /// `models--owner--name`, or `datasets--owner--name`.
    folder: PathBuf,
    locks: PathBuf,
    revision: String,
}

impl Cache {
    pub fn new(root: &Path, repo: &Repo) -> Self {
        let name = format!("{}--{}--{}", repo.kind.plural(), repo.owner, repo.name);
        Self { folder: root.join(&name), locks: root.join(".locks").join(name), revision: repo.revision.to_string() }
    }

    /// The folder of a commit.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// The commit of the revision as far as the cache knows: the revision itself unless a reference says otherwise.
    pub fn commit(&self) -> String {
        let reference = fs::read_to_string(self.reference()).map(|commit| commit.trim().to_owned());
        reference.ok().filter(|commit| is_plain(commit)).unwrap_or_else(|| self.revision.clone())
    }

    /// The snapshot of the revision if it has the expected weights, or what is missing.
    pub fn complete(&self, holds: Holds) -> Result<PathBuf, String> {
        let commit = self.commit();
        let snapshot = self.snapshot(&commit);
        if !is_plain(&commit) || !snapshot.is_dir() {
            return Err("it is".into());
        }
        let there = |file: &str| snapshot.join(file).is_file();
        if !there(CONFIG) {
            return Err(format!("{CONFIG} is"));
        }
        if there(WEIGHTS) {
            return Ok(snapshot);
        }
        if there(INDEX) {
            let shards = self.shards(&commit, INDEX).map_err(|_| format!("a readable {INDEX} is"))?;
            return match shards.iter().find(|shard| !is_plain(shard) || !there(shard)) {
                None => Ok(snapshot),
                Some(shard) => Err(format!("{shard} is")),
            };
        }
        let entries = fs::read_dir(&snapshot).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        match names.any(|name| holds.endings().iter().any(|ending| name.ends_with(ending)) && there(&name)) {
            true => Ok(snapshot),
            false => Err(format!("{WEIGHTS} is")),
        }
    }

    /// The files that an index names.
    pub fn shards(&self, commit: &str, index: &str) -> Result<BTreeSet<String>, HubError> {
        let path = self.snapshot(commit).join(index);
        let text = fs::read_to_string(&path).map_err(|source| HubError::Io { path: path.clone(), source })?;
        let broken = |reason: &str| HubError::Io { path: path.clone(), source: std::io::Error::other(reason) };
        let json: Value = gorgon_runs::json::read(text.as_bytes()).map_err(|e| broken(&e.to_string()))?;
        let map = json.get("weight_map").and_then(Value::as_object).ok_or_else(|| broken("no weight_map"))?;
        let shards: Option<BTreeSet<String>> = map.values().map(|file| file.as_str().map(str::to_owned)).collect();
        shards.filter(|shards| !shards.is_empty()).ok_or_else(|| broken("weight_map does not name files"))
    }

    /// Whether a snapshot holds a file.
    pub fn has(&self, commit: &str, file: &str) -> bool {
        self.snapshot(commit).join(file).is_file()
    }

    /// Whether the content of a file is there, whatever snapshot it came with.
    pub fn has_blob(&self, metadata: &Metadata) -> bool {
        let found = fs::metadata(self.blob(&metadata.etag));
        found.is_ok_and(|found| found.is_file() && metadata.size.is_none_or(|size| size == found.len()))
    }

    /// Where a file is downloaded to.
    pub fn incomplete(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(format!("{etag}.incomplete"))
    }

    /// Makes a finished download a part of the cache.
    pub fn keep(&self, etag: &str) -> Result<(), HubError> {
        let blob = self.blob(etag);
        fs::rename(self.incomplete(etag), &blob).map_err(|source| HubError::Io { path: blob, source })
    }

    /// Keeps other processes away from a download until the file is dropped.
    pub fn lock(&self, etag: &str) -> Result<File, HubError> {
        let path = self.locks.join(format!("{etag}.lock"));
        create_folder(&self.locks)?;
        create_folder(&self.folder.join("blobs"))?;
        let file = File::create(&path).map_err(|source| HubError::Io { path: path.clone(), source })?;
        match file.lock() {
            // Some network file systems know no locks; downloading twice is then the worst that can happen.
            Err(e) if e.kind() != ErrorKind::Unsupported => Err(HubError::Io { path, source: e }),
            _ => Ok(file),
        }
    }

    /// Puts a file into a snapshot: a link where the system has links, else the content itself.
    pub fn link(&self, commit: &str, file: &str, etag: &str) -> Result<(), HubError> {
        let path = self.snapshot(commit).join(file);
        let folder = path.parent().unwrap_or(&path);
        create_folder(folder)?;
        let temporary = folder.join(temporary_name());
        let up = "../".repeat(2 + file.matches('/').count());
        let linked = symlink(&Path::new(&up).join("blobs").join(etag), &temporary);
        let linked = linked.or_else(|_| fs::rename(self.blob(etag), &temporary));
        linked.and_then(|()| fs::rename(&temporary, &path)).map_err(|source| HubError::Io { path, source })
    }

    /// Notes which commit the revision is, once all its files are there.
    pub fn write_ref(&self, commit: &str) -> Result<(), HubError> {
        if self.revision == commit {
            return Ok(());
        }
        write(self.reference(), commit)
    }

    /// The names of all files of a commit, if they were noted here: only they tell whether a data set is complete.
    pub fn listing(&self, commit: &str) -> Option<BTreeSet<String>> {
        let text = fs::read_to_string(self.listing_file(commit)).ok()?;
        Some(text.lines().map(str::to_owned).collect())
    }

    /// Notes the names of all files of a commit.
    pub fn write_listing(&self, commit: &str, files: &BTreeSet<String>) -> Result<(), HubError> {
        let lines: String = files.iter().filter(|file| !file.contains('\n')).map(|file| format!("{file}\n")).collect();
        write(self.listing_file(commit), &lines)
    }

    fn listing_file(&self, commit: &str) -> PathBuf {
        self.folder.join("listings").join(commit)
    }

    fn reference(&self) -> PathBuf {
        self.revision.split('/').fold(self.folder.join("refs"), |path, part| path.join(part))
    }

    fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }
}

/// A name that no other thread or process uses at the same time.
fn temporary_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!(".{}-{}-{since_epoch}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Writes a small file whole or not at all.
fn write(path: PathBuf, text: &str) -> Result<(), HubError> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    let temporary = path.with_file_name(temporary_name());
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|source| HubError::Io { path, source })
}

fn create_folder(path: &Path) -> Result<(), HubError> {
    fs::create_dir_all(path).map_err(|source| HubError::Io { path: path.to_owned(), source })
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_target: &Path, _link: &Path) -> std::io::Result<()> {
    Err(std::io::Error::from(ErrorKind::Unsupported))
}
