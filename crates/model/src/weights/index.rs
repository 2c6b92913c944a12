//! The index of a sharded checkpoint.

use super::WeightsError;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The `weight_map` of an index: tensor name to file name.
pub(super) fn read_index(path: &Path) -> Result<BTreeMap<String, String>, WeightsError> {
    let wrong = |reason: String| WeightsError::Index { path: path.into(), reason };
    let bytes =
        gorgon_runs::file::read(path, 256 << 20).map_err(|source| WeightsError::Read { path: path.into(), source })?;
    let json: serde_json::Value = gorgon_runs::json::read(&bytes).map_err(|e| wrong(format!("not JSON: {e}")))?;
    let map = json.get("weight_map").and_then(|map| map.as_object());
    let map = map.filter(|map| !map.is_empty()).ok_or_else(|| wrong("it has no weight_map".into()))?;
    let entry = |(tensor, file): (&String, &serde_json::Value)| match file.as_str() {
        Some(file) => Ok((tensor.clone(), file.to_owned())),
        None => Err(wrong(format!("weight_map entry {tensor} is no file name"))),
    };
    map.iter().map(entry).collect()
}

/// The path of a shard, which must lie in the folder: a plain file name, and no symbolic link that leaves it. Links
/// into the `blobs` folder of the same Hugging Face cache entry are how that cache stores files, so they pass.
pub(super) fn shard_path(dir: &Path, index: &Path, name: &str) -> Result<PathBuf, WeightsError> {
    let outside = |what: &str| WeightsError::Index {
        path: index.into(),
        reason: format!("weight_map names \"{name}\", which {what} the model folder"),
    };
    let mut components = Path::new(name).components();
    let plain = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    if !plain || name.contains(['/', '\\']) {
        return Err(outside("is no plain file name in"));
    }
    let path = dir.join(name);
    let read = |source| WeightsError::Read { path: path.clone(), source };
    let target = path.canonicalize().map_err(read)?;
    let home = dir.canonicalize().map_err(|source| WeightsError::Read { path: dir.into(), source })?;
    let snapshots = home.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "snapshots"));
    let blobs = snapshots.and_then(Path::parent).map(|repo| repo.join("blobs"));
    let inside = target.starts_with(&home) || blobs.is_some_and(|blobs| target.starts_with(blobs));
    if inside { Ok(path) } else { Err(outside("is a link that leaves")) }
}
