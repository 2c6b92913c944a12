//! Draft heads: in a folder, or a file of safetensors or PyTorch.

use super::model::storage;
use super::report::{Properties, Report};
use crate::drafting::stored_tree::{self, TREE_FILE};
use crate::failure::Failure;
use gorgon_bench::record::CalibrationRecord;
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::Detected;
use gorgon_model::config::ModelConfig;
use gorgon_model::layout;
use gorgon_model::weights::Checkpoint;
use std::path::Path;

/// Draft heads, if that is what the tensors are; `None` for anything that looks like a model.
pub(super) fn report(path: &Path) -> Result<Option<Report>, Failure> {
    let found = match HeadsFolder::examine(path) {
        Ok(found) => found,
        // A folder with a model's config or tensors is a model, however damaged.
        Err(_) if path.join("config.json").is_file() && is_model(path) => return Ok(None),
        Err(error) => return Err(Failure::input(error)),
    };
    if layout::is_model(found.checkpoint.entries().keys()) {
        return Ok(None);
    }
    let Detected { format, spec, mut problems, notes } = found.detected;
    let tree = found.path.join(TREE_FILE);
    let tree = if tree.is_file() { stored_tree::file(&tree).err() } else { None };
    let record = CalibrationRecord::read(&found.path).err().map(Failure::from);
    problems.extend(tree.into_iter().chain(record).map(|failure| failure.message().to_owned()));
    let mut facts = Properties::default();
    facts.add("format", format.name());
    facts.add("method", format.method().name());
    facts.add("description", format.description());
    for (name, value) in spec.list() {
        facts.named(name, value);
    }
    storage(&mut facts, &found.checkpoint);
    Ok(Some(Report { kind: "heads", facts, notes, problems }.shortened()))
}

fn is_model(path: &Path) -> bool {
    let has_layers = |checkpoint: Checkpoint| layout::is_model(checkpoint.entries().keys());
    ModelConfig::read(path).is_ok() || Checkpoint::open(path).is_ok_and(has_layers)
}
