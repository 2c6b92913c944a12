//! The name of a model on the hub.

use gorgon_draft::folder;
use gorgon_hub::Repo;
use serde_json::Value;
use std::path::Path;

/// The hub id of a model, `owner/name`: the name by which it was called, the folder of the Hugging Face cache that it
/// lies in, or what its `config.json` says it was saved from. `None` for a model of one's own.
pub(super) fn hub_id(named: &str, folder: &Path) -> Option<String> {
    let repo = |name: &str| Some(Repo::parse(name).ok().filter(|_| !Path::new(name).exists())?.id());
    let config = || folder::config(folder).ok().flatten();
    repo(named)
        .or_else(|| of_cache(Path::new(named)))
        .or_else(|| of_cache(folder))
        .or_else(|| repo(config()?.get("_name_or_path").and_then(Value::as_str)?))
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
