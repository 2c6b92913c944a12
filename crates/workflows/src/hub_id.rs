//! The name of a model: on the hub, and in the names of run folders.

use crate::files;
use gorgon_draft::folder;
use gorgon_hub::Repo;
use serde_json::Value;
use std::path::Path;

/// The hub id of a model, `owner/name`: the name by which it was called, the folder of the Hugging Face cache that it
/// lies in, or what its `config.json` says it was saved from. `None` for a model of one's own.
pub fn hub_id(named: &str, folder: &Path) -> Option<String> {
    let repo = |name: &str| Some(Repo::parse(name).ok().filter(|_| !Path::new(name).exists())?.id());
    let config = || folder::config(folder).ok().flatten();
    repo(named)
        .or_else(|| of_cache(Path::new(named)))
        .or_else(|| of_cache(folder))
        .or_else(|| repo(config()?.get("_name_or_path").and_then(Value::as_str)?))
}

/// The name of a model in the names of run folders: its repository's, or its folder's. A folder of the Hugging Face
/// cache is named after a commit, so the repository that it belongs to counts.
pub fn stem(named: &str, folder: &Path) -> String {
    let repo = Repo::parse(named).ok().filter(|_| !Path::new(named).exists()).map(|repo| repo.id());
    match repo.or_else(|| of_cache(Path::new(named))).or_else(|| of_cache(folder)) {
        Some(id) => files::stem(Path::new(&id)),
        None => files::stem(folder),
    }
}

/// The id in `…/models--owner--name/snapshots/…`.
fn of_cache(path: &Path) -> Option<String> {
    let name = path.iter().find_map(|part| part.to_str()?.strip_prefix("models--"))?;
    let (owner, name) = name.split_once("--")?;
    let id = format!("{owner}/{name}");
    Repo::parse(&id).is_ok().then_some(id)
}

#[cfg(test)]
mod tests;
