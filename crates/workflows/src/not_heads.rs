//! Paths that are named as draft heads and are something else.

use crate::absent;
use crate::failure::Failure;
use gorgon_data::{manifest, shard};
use gorgon_draft::folder::{self, HeadsError};
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use std::path::Path;

/// The failure to open draft heads. If something else is there, a hint says so, and what heads are.
pub(crate) fn failure(path: &Path, error: HeadsError) -> Failure {
    match other(path) {
        Some(other) => Failure::from(error)
            .hint(format!("{other}; heads are the run folder of a training, a folder of heads, or a file of them")),
        None => error.into(),
    }
}

/// The thing that is there instead of heads, and who takes it; `None` where heads may be damaged.
fn other(path: &Path) -> Option<String> {
    let shown = path.display();
    let has_model = Checkpoint::open(path).is_ok_and(|checkpoint| layout::is_model(checkpoint.entries().keys()));
    if has_model || matches!(gorgon_gguf::find(path), Ok(Some(_))) {
        return Some(format!(
            "{shown} is a model: --model {shown} decodes with it, --drafter model:{shown} drafts with it"
        ));
    }
    let is_dataset = path.join(manifest::IDENTITY).is_file() || path.join(manifest::MANIFEST).is_file();
    if is_dataset || path.is_dir() && shard::files(path).is_ok() {
        return Some(format!("{shown} is a dataset: data = \"{shown}\" in a config trains on it"));
    }
    let is_bare = path.is_dir() && matches!(folder::open_weights(path), Ok(None));
    is_bare.then(|| absent::inside(path))
}
