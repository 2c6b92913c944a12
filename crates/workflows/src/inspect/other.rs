//! Files that other commands read, and folders of nothing in particular.

use crate::config::Kind;
use crate::failure::Failure;
use crate::fitting::HEADS;
use crate::{absent, runs};
use gorgon_draft::folder::open_weights;
use gorgon_draft::store::Store;
use serde_json::Value;
use std::path::Path;
use toml::Table;

/// Bytes of a file that are read to recognise it.
const MAX_BYTES: u64 = 16 << 20;

/// The failure for a file of text that is none of what `inspect` describes, with the command that reads it.
pub(super) fn file(path: &Path) -> Option<Failure> {
    if !path.is_file() {
        return None;
    }
    if Store::has_magic(path).unwrap_or(false) {
        let message = format!("{}: this is a store of texts", path.display());
        return Some(Failure::input(message).hint(format!("gorgon store inspect {} describes it", path.display())));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (shown, folder) = (path.display(), path.parent().filter(|parent| !parent.as_os_str().is_empty()));
    let folder = folder.unwrap_or(Path::new(".")).display().to_string();
    let (kind, hint) = match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "jsonl" | "ndjson" if name == "metrics.jsonl" => {
            ("the metrics of a run".to_owned(), format!("gorgon inspect {folder} describes the run"))
        }
        "jsonl" | "ndjson" | "txt" | "csv" => {
            let hint = "prompts go into a distillation: gorgon distill -c CONFIG --preview 3 shows them";
            ("a file of text, such as prompts".to_owned(), hint.to_owned())
        }
        "toml" => {
            let table = read(path)?.parse::<Table>().unwrap_or_default();
            (format!("a config of gorgon {}", Kind::of(&table)), format!("gorgon config check {shown} checks it"))
        }
        "json" => (json(name, &read(path)?)?.to_owned(), format!("gorgon inspect {folder} describes the folder")),
        "md" | "svg" | "log" => return Some(Failure::input(format!("{shown}: this is a document, and no model"))),
        _ => return None,
    };
    Some(Failure::input(format!("{shown}: this is {kind}")).hint(hint))
}

/// The failure for a folder without weights or a config: the runs in it, or what else is.
pub(super) fn folder(path: &Path) -> Option<Failure> {
    let has_config = path.join("config.json").is_file() || path.join(HEADS).is_dir();
    if !path.is_dir() || has_config || !matches!(open_weights(path), Ok(None)) {
        return None;
    }
    let shown = path.display();
    let hint = match runs::find(&[path.into()]) {
        Ok(runs) if !runs.is_empty() => format!("gorgon runs list {shown} lists the runs in it"),
        _ => absent::inside(path),
    };
    Some(Failure::input(format!("{shown}: this is neither a model, heads, a run, a dataset nor a tree")).hint(hint))
}

fn read(path: &Path) -> Option<String> {
    String::from_utf8(gorgon_runs::file::read(path, MAX_BYTES).ok()?).ok()
}

/// The use of a JSON file that is no tree.
fn json(name: &str, text: &str) -> Option<&'static str> {
    let document: Value = serde_json::from_str(text).ok()?;
    let has = |key: &str| document.get(key).is_some();
    Some(match name {
        "results.json" | "provenance.json" | "state.json" => "a record of a run",
        _ if has("weight_map") => "the index of a model's weights",
        _ if has("architectures") || has("model_type") => "the config of a model or of draft heads",
        _ if name.starts_with("tokenizer") || name == "special_tokens_map.json" => "a part of a tokenizer",
        _ => return None,
    })
}
