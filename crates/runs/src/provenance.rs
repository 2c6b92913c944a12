//! Where a run comes from: enough to do it again.

use crate::{RunError, atomic};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Where a run comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The process that began it.
    #[serde(flatten)]
    pub launch: Launch,
    /// SHA-256 of the files that went into it, by path as the user wrote it.
    pub inputs: BTreeMap<String, String>,
    /// SHA-256 of its config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_sha256: Option<String>,
    /// Variables of the chat template that the data was made with.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub template: Map<String, Value>,
    /// The processes that went on with it.
    #[serde(default)]
    pub resumed: Vec<Resumed>,
}

/// A process that worked on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The program.
    #[serde(flatten)]
    pub build: Build,
    /// The command line, with paths as the user wrote them.
    pub command: Vec<String>,
    /// When it began: UTC, to the second.
    pub started: String,
    /// The machine it ran on.
    pub host: Host,
}

/// A build of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Its version.
    #[serde(rename = "gorgon")]
    pub version: String,
    /// The git commit it was built from; `unknown` outside a repository.
    #[serde(default = "Build::unknown", deserialize_with = "Build::commit_or_unknown")]
    pub commit: String,
    /// Its compute backends: `cpu`, and any of `cuda`, `wgpu` and `mpi`.
    #[serde(default)]
    pub features: Vec<String>,
}

impl Build {
    fn unknown() -> String {
        "unknown".into()
    }

    /// Earlier versions wrote `null`.
    fn commit_or_unknown<'de, D: serde::Deserializer<'de>>(file: D) -> Result<String, D::Error> {
        Ok(Option::deserialize(file)?.unwrap_or_else(Self::unknown))
    }
}

impl Display for Build {
    /// `0.1.0 (commit 1234567890ab; cpu, wgpu)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { version, commit, features } = self;
        write!(f, "{version} (commit {commit}; {})", features.join(", "))
    }
}

/// The machine of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The device, by name.
    pub device: String,
    /// The threads it could use.
    pub cpu_threads: usize,
    /// The options on devices and number formats that were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formats: Option<String>,
}

impl Host {
    /// Whether numbers computed on both can differ: by the device, or by the number formats.
    pub fn computes_as(&self, other: &Self) -> bool {
        self.device == other.device && self.formats == other.formats
    }
}

/// A process that went on with a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// The checkpoint it went on from.
    pub step: u64,
    /// Keys of the config that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ConfigChange>,
    /// SHA-256 of the config with these changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_sha256: Option<String>,
    /// The process.
    #[serde(flatten)]
    pub launch: Launch,
}

/// A key of a run's config that was changed when the run was resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    /// The path of the key, `training.steps`.
    pub key: String,
    /// Its value before; `None` if it was not set.
    pub old: Option<Value>,
    /// Its value from this step on; `None` if it is not set any more.
    pub new: Option<Value>,
}

impl Launch {
    /// A process of a program, with its arguments and the time at which it began.
    pub fn new<A: AsRef<OsStr>>(
        build: &Build,
        arguments: impl IntoIterator<Item = A>,
        started: Timestamp,
        host: Host,
    ) -> Self {
        let command = arguments.into_iter().map(|argument| argument.as_ref().to_string_lossy().into_owned()).collect();
        let started = started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Self { build: build.clone(), command, started, host }
    }
}

impl Provenance {
    /// The provenance of a run that begins.
    #[must_use]
    pub fn new(launch: Launch) -> Self {
        Self { launch, inputs: BTreeMap::new(), config_sha256: None, template: Map::new(), resumed: vec![] }
    }

    /// Hashes an input file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn add_input(&mut self, path: &Path) -> Result<(), RunError> {
        let hash = hash_file(path).map_err(RunError::io(path))?;
        self.inputs.insert(path.display().to_string(), hash);
        Ok(())
    }

    /// True if `hash` is that of the config that the run wrote first, or wrote with recorded changes. Always true for a
    /// provenance without hashes.
    pub fn knows_config(&self, hash: &str) -> bool {
        let of_changes = self.resumed.iter().filter_map(|resumed| resumed.config_sha256.as_deref());
        let mut known = self.config_sha256.as_deref().into_iter().chain(of_changes).peekable();
        known.peek().is_none() || known.any(|own| own == hash)
    }

    /// Writes it, once.
    ///
    /// # Errors
    /// When there is one already, or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        if path.symlink_metadata().is_ok() {
            return Err(RunError::Io { path: path.into(), source: ErrorKind::AlreadyExists.into() });
        }
        write_json(path, self)
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it cannot be read, or says something else.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let text = fs::read(path).map_err(RunError::io(path))?;
        crate::json::read(&text).map_err(|error| RunError::damaged(path, error))
    }
}

/// Adds a process that resumes the run, and leaves all else in the file as it is.
///
/// # Errors
/// When the file cannot be read and written, or says something else.
pub fn append_resumed(path: &Path, resumed: &Resumed) -> Result<(), RunError> {
    let text = fs::read(path).map_err(RunError::io(path))?;
    let mut file: Value = crate::json::read(&text).map_err(|error| RunError::damaged(path, error))?;
    let entry = serde_json::to_value(resumed).map_err(|error| RunError::damaged(path, error))?;
    let object = file.as_object_mut().ok_or_else(|| RunError::damaged(path, "it is no JSON object"))?;
    match object.entry("resumed").or_insert_with(|| Value::Array(vec![])) {
        Value::Array(list) => list.push(entry),
        _ => return Err(RunError::damaged(path, "`resumed` is no list")),
    }
    write_json(path, &file)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    let mut json = serde_json::to_vec_pretty(value).map_err(|error| RunError::damaged(path, error))?;
    json.push(b'\n');
    atomic::write(path, |file| file.write_all(&json)).map_err(RunError::io(path))
}

/// SHA-256 of a file, in hexadecimal, read as a stream.
///
/// # Errors
/// When it cannot be read.
pub fn hash_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut block = vec![0; 1 << 18];
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(hex(hasher)),
            Ok(n) => hasher.update(&block[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// SHA-256 of some bytes, in hexadecimal.
#[must_use]
pub fn hash_bytes(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

/// One SHA-256 for the weights of a model, whatever the order of its files: that of the lines `<hash>  <name>`, sorted
/// by name. In the folder of the files, `LC_ALL=C sha256sum *.safetensors | sha256sum` says the same.
///
/// # Errors
/// When a file cannot be read, or two have the same name.
pub fn hash_folder_weights(files: &[impl AsRef<Path>]) -> Result<String, RunError> {
    let mut by_name = BTreeMap::new();
    for path in files.iter().map(AsRef::as_ref) {
        let name = path.file_name().ok_or_else(|| RunError::damaged(path, "it has no name"))?;
        let hash = hash_file(path).map_err(RunError::io(path))?;
        if by_name.insert(name.to_string_lossy().into_owned(), hash).is_some() {
            return Err(RunError::damaged(path, "another file has the same name"));
        }
    }
    let mut hasher = Sha256::new();
    for (name, hash) in by_name {
        hasher.update(format!("{hash}  {name}\n"));
    }
    Ok(hex(hasher))
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
