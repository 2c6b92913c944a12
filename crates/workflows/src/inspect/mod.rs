//! Inspection of files and folders: their kind, facts and problems.

mod data;
mod heads;
mod model;
mod other;
mod report;
mod run;

pub use self::report::{Properties, Property, Report, words};

use crate::drafting::stored_tree;
use crate::failure::Failure;
use crate::{absent, runs};
use gorgon_data::{manifest, shard};
use gorgon_train::methods::FEATURE_INDEX;
use serde_json::{Value, json};
use std::path::Path;

/// Examines a model (a folder or a GGUF file), draft heads (a folder, or a file of safetensors or PyTorch), a run folder, a dataset (a folder of
/// shards, or a shard), a folder of hidden states, or the file of a tree.
///
/// # Errors
/// When there is none of these.
pub fn examine(path: &Path) -> Result<Report, Failure> {
    absent::check(path, "file or folder")?;
    let extension = path.extension().unwrap_or_default();
    if let Some(failure) = other::file(path) {
        return Err(failure);
    }
    if path.is_file() && extension == "json" {
        return tree(path);
    }
    if gorgon_gguf::find(path).map_err(Failure::input)?.is_some() {
        return model::report(path);
    }
    if extension == "parquet" && path.is_file() || path.join(manifest::IDENTITY).is_file() || has_shards(path) {
        return data::dataset(path);
    }
    if path.join(FEATURE_INDEX).is_file() {
        return data::features(path);
    }
    if runs::is_run(path) {
        return run::report(path);
    }
    if let Some(failure) = other::folder(path) {
        return Err(failure);
    }
    match heads::report(path)? {
        Some(report) => Ok(report),
        None if path.is_dir() => model::report(path),
        None => {
            Err(Failure::input(format!("{}: this is neither draft heads nor a dataset nor a tree", path.display())))
        }
    }
}

fn has_shards(folder: &Path) -> bool {
    folder.is_dir() && shard::files(folder).is_ok_and(|files| !files.is_empty())
}

/// A tree: its size, and how many nodes each level has.
fn tree(path: &Path) -> Result<Report, Failure> {
    let shape = stored_tree::file(path)?;
    let mut levels = vec![0usize; shape.max_depth() + 1];
    (0..shape.len()).for_each(|node| levels[shape.path(node).len()] += 1);
    let mut facts = Properties::default();
    facts.add("nodes", shape.len());
    facts.add("depth", shape.max_depth());
    facts.add("nodes_by_depth", json!(levels));
    let inner: std::collections::BTreeSet<usize> = shape.parents().iter().copied().collect();
    let leaves = (1..shape.len()).filter(|node| !inner.contains(node)).count();
    facts.add("leaves", leaves);
    let paths: Vec<Value> = shape.paths().iter().filter(|path| !path.is_empty()).map(|path| json!(path)).collect();
    let (mut notes, mut shown) = (vec![], String::new());
    match paths.len() {
        0 => notes.push("it drafts nothing: the root is all it has".into()),
        n => shown = format!("{n} rank paths (gorgon tree show --tree {} draws them)", path.display()),
    }
    facts.add_as("paths", paths, shown);
    Ok(Report { kind: "tree", facts, notes, problems: vec![] })
}
