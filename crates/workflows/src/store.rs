//! Stores of past answers and documents, which `suffix:STORE` and `rest:STORE` draft from.

use crate::failure::Failure;
use crate::remote::Client;
use crate::settings::Settings;
use crate::{absent, files, load, prompts};
use gorgon_core::Token;
use gorgon_data::render::{RenderError, Renderer};
use gorgon_data::source::{self, Conversation, Options as SourceOptions};
use gorgon_data::{manifest, shard};
use gorgon_draft::store::{Store, StoreBuilder, StoreError, StoreFile};
use gorgon_model::config::ModelConfig;
use gorgon_runs::atomic;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The longest text file, in bytes.
const MAX_TEXT: u64 = 256 << 20;
/// Endings of files that hold records.
const RECORDS: [&str; 3] = ["json", "jsonl", "parquet"];
/// Where a shard's metadata says which tokenizer made its ids.
const TOKENIZER: &str = "gorgon.tokenizer_sha256";

/// Files to build a store of, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Text files, files of conversations, folders of shards.
    pub files: Vec<PathBuf>,
    /// The model whose tokenizer makes the tokens.
    pub model: String,
    /// The file to write.
    pub out: PathBuf,
}

/// Builds a store, and describes it.
///
/// # Errors
/// When a file cannot be read, holds nothing of use, or was made with another tokenizer, or the store cannot be written.
pub fn build(options: &Options, settings: &Settings) -> Result<Value, Failure> {
    let replaces = check_output(&options.out)?;
    let dir = load::folder(&options.model, settings)?;
    let tokenizer = files::tokenizer_hash(&dir)?;
    let renderer = prompts::renderer(&dir, None, settings)?;
    let mut builder = StoreBuilder::default();
    let paths = prompts::paths(&options.files, settings)?;
    let text = |path: &PathBuf| is_text(path).then(|| text(path, &renderer));
    let texts: Vec<Option<Result<Vec<Token>, Failure>>> = paths.par_iter().map(text).collect();
    for (path, text) in paths.iter().zip(texts) {
        let documents = match text {
            Some(text) => vec![text?],
            None if path.is_dir() => shards(path, &dir, &tokenizer)?,
            None => records(path, &renderer, settings)?,
        };
        for document in documents {
            builder.add(&document).map_err(|error| Failure::input(error).of(&path.display().to_string()))?;
        }
    }
    builder.write(&options.out, &tokenizer).map_err(failed)?;
    if replaces {
        settings.console.say(format!("note: {}: replaced the store that was there", options.out.display()));
    }
    inspect(&options.out)
}

/// Writes the answers that a server keeps to draft from as a store, and describes it.
///
/// # Errors
/// When the server keeps none or sends no store, or the file cannot be written.
pub fn save(url: &str, out: &Path) -> Result<Value, Failure> {
    check_output(out)?;
    let client = Client::open(url)?;
    let failed = |error: std::io::Error| Failure::io(out, &error);
    let folder = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut received =
        tempfile::Builder::new().prefix(".gorgon-").suffix(".tmp").tempfile_in(folder).map_err(failed)?;
    client.store(&mut received)?;
    let wrong = |error: StoreError| Failure::run(format!("{url}: the server sent no store: {error}"));
    let store = Store::open(received.path()).map_err(wrong)?;
    store.verify().map_err(wrong)?;
    atomic::write(out, |file| file.write_all(store.whole())).map_err(failed)?;
    inspect(out)
}

/// Fails early where no store can be written, or another file would be lost. Returns whether a store is there.
fn check_output(out: &Path) -> Result<bool, Failure> {
    files::check_output(out)?;
    let is_there = out.metadata().is_ok_and(|file| file.len() > 0);
    if is_there && !Store::has_magic(out).map_err(|error| Failure::io(out, &error))? {
        let message = format!("{}: it is there already, and it is no store", out.display());
        return Err(Failure::input(message).hint("the last argument is the file to write"));
    }
    Ok(is_there)
}

/// Describes a store, after comparing its bytes with the hash that was written.
///
/// # Errors
/// When it is no store, or damaged.
pub fn inspect(path: &Path) -> Result<Value, Failure> {
    absent::check(path, "file")?;
    let store = Store::open(path).map_err(failed)?;
    store.verify().map_err(failed)?;
    Ok(json!({
        "path": path, "tokens": store.tokens(), "documents": store.documents(), "vocabulary": store.vocab(),
        "bytes": store.bytes(), "bytes_per_token": store.bytes() as f64 / store.tokens().max(1) as f64,
        "tokenizer_sha256": store.tokenizer(), "contents_sha256": store.contents(),
    }))
}

/// Fails if a store's tokens are not those of a model.
///
/// # Errors
/// Then, or when the model has no tokenizer.
pub fn check(file: &StoreFile, model: &Path) -> Result<(), Failure> {
    if let Some(live) = file.live() {
        let fits = live.bind(&files::tokenizer_hash(model)?);
        let message =
            || format!("{file}: this store holds tokens of another tokenizer than that of {}", model.display());
        return if fits { Ok(()) } else { Err(Failure::input(message())) };
    }
    let Some(store) = file.store() else { return Ok(()) };
    file.check(ModelConfig::read(model)?.vocab_size).map_err(Failure::input)?;
    let tokenizer = files::tokenizer_hash(model)?;
    if store.tokenizer() == tokenizer {
        return Ok(());
    }
    let (path, model) = (file.path().display(), model.display());
    let message = format!("{path}: this store was built with another tokenizer than that of {model}");
    Err(Failure::input(message).hint("gorgon store build makes one for this model"))
}

/// A store that cannot be written or read for reasons of the machine is no fault of the input.
fn failed(error: StoreError) -> Failure {
    match error {
        StoreError::Io { path, source } => Failure::io(&path, &source),
        other => Failure::input(other),
    }
}

/// Whether a path is a text file: no folder, and no file of records by its name.
fn is_text(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    !path.is_dir() && !RECORDS.contains(&ending.as_str())
}

/// The documents of a file of conversations.
fn records(path: &Path, renderer: &Renderer, settings: &Settings) -> Result<Vec<Vec<Token>>, Failure> {
    let (conversations, report) = source::read(path, &SourceOptions::default())?;
    if !report.skipped.is_empty() {
        settings.console.say(report.to_string().trim_end());
    }
    let tokens = |conversation: &Conversation| {
        let wrong =
            |error: RenderError| Failure::input(format!("{} line {}: {error}", path.display(), conversation.line));
        record(conversation, renderer).map_err(wrong)
    };
    let documents: Result<Vec<_>, Failure> = conversations.par_iter().map(tokens).collect();
    Ok(documents?.into_iter().flatten().collect())
}

/// A text file: one document.
fn text(path: &Path, renderer: &Renderer) -> Result<Vec<Token>, Failure> {
    let bytes = gorgon_runs::file::read(path, MAX_TEXT).map_err(|error| Failure::io(path, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::input(format!("{}: no UTF-8 text: wrong byte at {at}", path.display()))
    })?;
    renderer.text().encode(&text, false).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// A conversation up to its last answer, as the model reads it, and its other user turns as plain texts.
fn record(conversation: &Conversation, renderer: &Renderer) -> Result<Vec<Vec<Token>>, RenderError> {
    let answered: Vec<(&str, &str)> = conversation
        .turns
        .iter()
        .map_while(|turn| Some((turn.user.as_str(), turn.assistant.as_deref()?)))
        .take(if renderer.has_template() { usize::MAX } else { 1 })
        .collect();
    let system = conversation.system.as_deref().filter(|_| renderer.has_template());
    let mut documents = vec![];
    if !answered.is_empty() {
        documents.push(renderer.conversation(system, answered.iter().copied())?.ids);
    }
    for turn in &conversation.turns[answered.len()..] {
        documents.push(renderer.text().encode(&turn.user, false)?);
    }
    Ok(documents)
}

/// The conversations of a folder of shards.
fn shards(folder: &Path, dir: &Path, tokenizer: &str) -> Result<Vec<Vec<Token>>, Failure> {
    manifest::verify(folder)?;
    let vocab = ModelConfig::read(dir)?.vocab_size;
    let mut documents = vec![];
    for path in shard::files(folder)? {
        let (rows, metadata) = shard::read(&path, vocab)?;
        if metadata.get(TOKENIZER).is_some_and(|theirs| theirs != tokenizer) {
            let message = format!("{}: its tokens are of another tokenizer than this model's", path.display());
            return Err(Failure::input(message));
        }
        documents.extend(rows.into_iter().map(|row| row.example.ids));
    }
    Ok(documents)
}
