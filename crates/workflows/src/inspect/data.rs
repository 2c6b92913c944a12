//! Training data: shards of conversations, and hidden states computed ahead.

use super::report::{Properties, Report, is_empty, words};
use crate::failure::Failure;
use crate::files;
use gorgon_data::{manifest, shard};
use gorgon_train::methods::FEATURE_INDEX;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The largest index of hidden states that is read.
const MAX_INDEX: u64 = 64 << 20;

/// A folder of shards, or one shard.
pub(super) fn dataset(path: &Path) -> Result<Report, Failure> {
    let mut problems: Vec<String> = vec![];
    let mut shards = vec![path.to_path_buf()];
    if path.is_dir() {
        problems.extend(manifest::verify(path).err().map(|error| error.to_string()));
        shards = shard::files(path).unwrap_or_default();
    }
    let mut sums = Sums::default();
    for path in &shards {
        match shard::read(path, usize::MAX) {
            Ok(shard) => sums.add(&shard),
            Err(error) => problems.push(error.to_string()),
        }
    }
    problems.sort();
    problems.dedup();
    let mut facts = Properties::default();
    facts.add("shards", shards.len());
    facts.count("conversations", sums.conversations);
    facts.count("tokens", sums.tokens);
    facts.count("assistant_tokens", sums.labels);
    facts.add("longest_tokens", sums.longest);
    facts.add("largest_token_id", json!(sums.largest_id));
    if !sums.categories.is_empty() {
        facts.add("conversations_by_category", json!(sums.categories));
    }
    facts.add("sources", json!(sums.sources));
    let made_with = sums.metadata.iter().map(|(key, text)| (key.trim_start_matches("gorgon.").to_owned(), value(text)));
    let made_with: Map<String, Value> = made_with.collect();
    let set = made_with.iter().filter(|(_, value)| !is_empty(value));
    let shown = set.map(|(key, value)| format!("{key} {}", words(value))).collect::<Vec<_>>().join("; ");
    facts.add_as("made_with", made_with, shown);
    facts.size(shards.iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum());
    Ok(Report { kind: "dataset", facts, notes: vec![], problems }.shortened())
}

/// A value of a shard's metadata, which are texts: numbers and objects are JSON. A hash is none, whatever its digits.
fn value(text: &str) -> Value {
    const HASH: usize = 64;
    let parsed = serde_json::from_str(text).ok().filter(|_| text.len() != HASH);
    parsed.unwrap_or_else(|| text.into())
}

/// Sums over shards.
#[derive(Default)]
struct Sums {
    conversations: u128,
    tokens: u128,
    labels: u128,
    longest: usize,
    largest_id: Option<u32>,
    categories: BTreeMap<String, usize>,
    sources: BTreeSet<String>,
    metadata: BTreeMap<String, String>,
}

impl Sums {
    fn add(&mut self, (rows, metadata): &shard::Shard) {
        for row in rows {
            self.conversations += 1;
            self.tokens += row.example.ids.len() as u128;
            self.labels += row.example.labels() as u128;
            self.longest = self.longest.max(row.example.ids.len());
            self.largest_id = self.largest_id.max(row.example.ids.iter().max().copied());
            if let Some(category) = &row.category {
                *self.categories.entry(category.clone()).or_default() += 1;
            }
            self.sources.insert(row.source.clone());
        }
        self.metadata.extend(metadata.clone());
    }
}

/// A folder of hidden states.
pub(super) fn features(folder: &Path) -> Result<Report, Failure> {
    let path = folder.join(FEATURE_INDEX);
    let wrong = |reason: &dyn std::fmt::Display| Failure::input(format!("{}: {reason}", path.display()));
    let bytes = gorgon_runs::file::read(&path, MAX_INDEX).map_err(|error| wrong(&error))?;
    let index: Value = gorgon_runs::json::read(&bytes).map_err(|error| wrong(&error))?;
    let (Some(identity), Some(shards)) = (index["identity"].as_object(), index["shards"].as_array()) else {
        return Err(wrong(&"this is no index of hidden states"));
    };
    let named: Vec<PathBuf> =
        shards.iter().filter_map(|shard| Some(folder.join(Path::new(shard["file"].as_str()?).file_name()?))).collect();
    let missing = named.iter().filter(|path| !path.is_file());
    let mut problems: Vec<String> = missing.map(|path| format!("{}: the file is missing", path.display())).collect();
    if named.len() < shards.len() {
        problems.push(format!("{}: a file has no name", path.display()));
    }
    let mut facts = Properties::default();
    facts.add("files", shards.len());
    facts.count("hidden_states", shards.iter().filter_map(|shard| shard["states"].as_u64()).map(u128::from).sum());
    for (key, value) in identity {
        facts.add(key.as_str(), value.clone());
    }
    facts.size(files::folder_bytes(folder));
    Ok(Report { kind: "features", facts, notes: vec![], problems }.shortened())
}
