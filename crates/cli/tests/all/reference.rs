//! Schemas and reference pages in the repository are what the config types say, and configs in it are valid.
//!
//! `GORGON_WRITE_REFERENCE=1` writes them.

use crate::chain;
use crate::gorgon;
use crate::written;

use chain::finished;
use gorgon::{gorgon, stdout};
use std::path::{Path, PathBuf};
use written::{check, root};

const KINDS: [&str; 4] = ["train", "distill", "compare", "pretrain"];

#[test]
fn schemas_are_those_of_the_config_types() {
    for kind in KINDS {
        check(&format!("docs/schema/{kind}.json"), &stdout(&finished(&["config", "schema", kind], &[])));
    }
}

#[test]
fn reference_pages_name_every_key() {
    for kind in KINDS {
        let page = stdout(&finished(&["config", "reference", kind], &[]));
        check(&format!("docs/src/reference/config-{kind}.md"), &page);
        assert!(page.lines().all(|line| line.chars().count() <= 110), "{kind}");
        let schema: serde_json::Value =
            serde_json::from_slice(&finished(&["config", "schema", kind], &[]).stdout).unwrap();
        described(&schema, "", &page);
    }
}

/// Every key has a description, and every key with a value an entry on the page.
fn described(schema: &serde_json::Value, table: &str, page: &str) {
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{table}{key}");
        assert!(inner["description"].as_str().is_some_and(|words| !words.is_empty()), "{path} is not described");
        let is_table = inner["properties"].is_object() || inner["items"]["properties"].is_object();
        assert!(is_table || page.contains(&format!("- **`{path}`** (")), "{path} is not on the page");
        let within = format!("{path}.");
        described(inner, &within, page);
        described(&inner["items"], &within, page);
    }
}

fn configs(folder: &Path, all: &mut Vec<PathBuf>) {
    for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => configs(&path, all),
            // Other files are what a config names: a list of layers to skip.
            false if path.extension().is_some_and(|extension| extension == "toml") => all.push(path),
            false => {}
        }
    }
}

/// Every config is valid and names its schema, and its resolved form is its own source.
#[test]
fn configs_of_the_repository_are_valid() {
    let mut all = vec![];
    configs(&root().join("configs"), &mut all);
    assert!(all.len() >= 35, "{}", all.len());
    let folder = tempfile::tempdir().unwrap();
    for path in all {
        let file = path.to_str().unwrap();
        let output = finished(&["config", "check", file, "--json"], &[]);
        let kind = serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["kind"].clone();
        let kind = kind.as_str().unwrap();
        let first = std::fs::read_to_string(&path).unwrap().lines().next().unwrap().to_owned();
        let schema = first.strip_prefix("#:schema ").unwrap_or_else(|| panic!("{file}: no schema"));
        let schema = path.parent().unwrap().join(schema);
        assert!(schema.ends_with(format!("docs/schema/{kind}.json")) && schema.is_file(), "{file}");
        let printed = |file: &str| stdout(&finished(&[kind, "-c", file, "--print-config"], &[]));
        let resolved = printed(file);
        let again = folder.path().join("again.toml");
        std::fs::write(&again, &resolved).unwrap();
        assert_eq!(printed(again.to_str().unwrap()), resolved, "{file}");
    }
}

#[test]
fn unknown_kinds_are_refused() {
    let output = gorgon(&["config", "schema", "trein"]);
    assert_eq!(output.status.code(), Some(2));
}
