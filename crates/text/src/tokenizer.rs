//! Text to token ids and back: the `tokenizer.json` of a model folder or a GGUF file, and decoding as tokens arrive.
//!
//! Decoding works on token ids alone; ids become characters here and nowhere else. Decoded text is exactly what the
//! tokenizer's own decoder says. The optional clean-up of spaces before punctuation that some libraries apply
//! (`clean_up_tokenization_spaces`) is left out: it loses information and cannot be applied to a stream.

mod limits;
mod stream;

pub use stream::StreamDecoder;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use limits::Limits;
use serde_json::{Map, Value};
use tokenizers::{AddedToken, NormalizedString, Normalizer};

/// Errors of tokenizers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The folder has no `tokenizer.json`.
    #[error(
        "{path}: not found; the model needs a tokenizer.json (convert a tokenizer.model with the model's own tools)"
    )]
    Missing {
        /// Where the file should be.
        path: PathBuf,
    },
    /// A file is there but cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path}: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Reason why it is refused, in one line.
        reason: String,
    },
    /// The tokenizer or a text has ids that the model has no embedding for.
    #[error("{path}: token id {id} ({token:?}) lies outside the model's vocabulary of {model_vocab}")]
    OutsideVocabulary {
        /// The tokenizer file.
        path: PathBuf,
        /// The first such id.
        id: u32,
        /// Its text.
        token: String,
        /// The number of rows of the model's embedding.
        model_vocab: usize,
    },
    /// The tokenizer refused to encode or decode.
    #[error("{path}: cannot {action}: {reason}")]
    Failed {
        /// The tokenizer file.
        path: PathBuf,
        /// `encode` or `decode`.
        action: &'static str,
        /// Message of the tokenizer.
        reason: String,
    },
}

/// Longest `tokenizer_config.json` that is read.
const MAX_CONFIG_BYTES: u64 = 64 << 20;
/// Longest `tokenizer.json` that is read.
const MAX_TOKENIZER_BYTES: u64 = 512 << 20;

/// Runs the tokenizer library, which panics on some files it cannot work with; that becomes an error like any other.
fn contained<T>(work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|error| one_line(&error)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Err(format!("the tokenizer broke down: {}", text.unwrap_or_default()))
        }
    }
}

/// The keys of `tokenizer_config.json`; empty when a folder has none.
#[derive(Debug, Clone, Default)]
pub struct TokenizerConfig {
    path: PathBuf,
    keys: Map<String, Value>,
}

impl TokenizerConfig {
    /// Reads `tokenizer_config.json` of a model folder; a missing file gives an empty config. As in transformers, the
    /// special tokens of `special_tokens_map.json` replace those of a config without `added_tokens_decoder`.
    ///
    /// # Errors
    /// A file cannot be read or is not a JSON object.
    pub fn read(folder: &Path) -> Result<Self, TokenizerError> {
        let (path, mut keys) = read_object(folder, "tokenizer_config.json")?;
        if !keys.contains_key("added_tokens_decoder") {
            let (_, tokens) = read_object(folder, "special_tokens_map.json")?;
            keys.extend(tokens.into_iter().filter(|(key, _)| key.ends_with("_token")));
        }
        Ok(Self { path, keys })
    }

    /// The file this was, or would have been, read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key)
    }

    /// The special tokens by their keys, such as `bos_token`.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.keys().filter(|key| key.ends_with("_token")).filter_map(|key| Some((key.as_str(), self.token(key)?)))
    }

    /// The text of a special token such as `bos_token`: a string, or an object with `content`.
    pub fn token(&self, key: &str) -> Option<&str> {
        match self.keys.get(key)? {
            Value::String(text) => Some(text),
            Value::Object(token) => token.get("content")?.as_str(),
            _ => None,
        }
    }
}

/// The keys of a file of the model, none if it is missing, and the file's path.
fn read_object(folder: &Path, name: &str) -> Result<(PathBuf, Map<String, Value>), TokenizerError> {
    let path = gorgon_gguf::place(folder, name);
    let text = match gorgon_gguf::read(folder, name, MAX_CONFIG_BYTES) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok((path, Map::new())),
        Err(source) => return Err(TokenizerError::Read { path, source }),
    };
    match gorgon_runs::json::read(&text) {
        Ok(Value::Object(keys)) => Ok((path, keys)),
        Ok(_) => Err(TokenizerError::Invalid { path, reason: "not a JSON object".into() }),
        Err(e) => Err(TokenizerError::Invalid { path, reason: e.to_string() }),
    }
}

/// The ids of the special tokens that `tokenizer_config.json` names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Beginning of sequence.
    pub bos: Option<u32>,
    /// End of sequence (`generation_config.json` may name more).
    pub eos: Option<u32>,
    /// Padding.
    pub pad: Option<u32>,
    /// Unknown.
    pub unk: Option<u32>,
}

/// A tokenizer with its special tokens. Clones share the vocabulary.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
    /// Rows of the model's embedding.
    rows: usize,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    tokenizer: tokenizers::Tokenizer,
    special_ids: SpecialIds,
    /// Ids that decoding without special tokens leaves out.
    hidden: HashSet<u32>,
    /// Ids put around every text, where `tokenizer_config.json` overrules the tokenizer's own post-processor.
    frame: Option<Frame>,
    max_id: Option<u32>,
    /// Lengths and steps that texts may have.
    limits: Limits,
    /// Bytes of the longest entry of the vocabulary.
    longest: usize,
}

impl Inner {
    fn read(bytes: &[u8], config: &TokenizerConfig, path: &Path) -> tokenizers::Result<Self> {
        let limits = limits::check(bytes)?;
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes)?;
        // A file may carry the truncation and padding of the run that wrote it; neither belongs to the vocabulary.
        tokenizer.with_truncation(None)?;
        tokenizer.with_padding(None);
        mark_special(&mut tokenizer, config);

        let id = |key| config.token(key).and_then(|token| tokenizer.token_to_id(token));
        let special_ids =
            SpecialIds { bos: id("bos_token"), eos: id("eos_token"), pad: id("pad_token"), unk: id("unk_token") };
        // A copy of the whole vocabulary would cost as much as the checks of a large file.
        let added = tokenizer.get_added_tokens_decoder();
        let hidden = added.iter().filter(|(_, t)| t.special).map(|(id, _)| *id).collect();
        let longest = added.values().map(|token| token.content.len()).max().unwrap_or(0).max(limits.longest);
        let max_id = added.keys().copied().max().max(limits.max_id);
        let frame = frame(&tokenizer, config, special_ids)?;
        Ok(Self { path: path.into(), tokenizer, special_ids, hidden, frame, max_id, limits, longest })
    }
}

impl Inner {
    /// Fails for texts that are too long for the file's rules or its model. Where the rules could make a text too long,
    /// its length after the normaliser counts.
    fn check_length(&self, text: &str) -> Result<(), String> {
        self.limits.before.check(text.len())?;
        if self.limits.check_steps(self.limits.before.bytes(text.len())).is_ok() {
            return Ok(());
        }
        let normalised = contained(|| {
            let mut normalised = NormalizedString::from(text);
            self.tokenizer.get_normalizer().map_or(Ok(()), |normalizer| normalizer.normalize(&mut normalised))?;
            Ok(normalised.get().len())
        })?;
        self.limits.check_steps(self.limits.split.bytes(normalised))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    before: Option<u32>,
    after: Option<u32>,
}

impl Tokenizer {
    /// Loads `tokenizer.json`, and `tokenizer_config.json` where there is one, from a model folder.
    ///
    /// # Errors
    /// A file is missing, unreadable or not a tokenizer.
    pub fn load(folder: &Path) -> Result<Self, TokenizerError> {
        let config = TokenizerConfig::read(folder)?;
        let path = gorgon_gguf::place(folder, "tokenizer.json");
        let bytes = match gorgon_gguf::read(folder, "tokenizer.json", MAX_TOKENIZER_BYTES) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(TokenizerError::Missing { path }),
            Err(source) => return Err(TokenizerError::Read { path, source }),
        };
        let invalid = |e: &dyn std::fmt::Display| TokenizerError::Invalid { path: path.clone(), reason: one_line(e) };
        let inner = contained(|| Inner::read(&bytes, &config, &path)).map_err(|e| invalid(&e))?;
        Ok(Self { inner: Arc::new(inner), rows: usize::MAX })
    }

    /// The ids of a text; `add_special` adds the special tokens that the tokenizer puts around every text.
    ///
    /// Text that spells a special token becomes that token.
    ///
    /// # Errors
    /// The tokenizer has no token for some character and no token for unknown ones, or the model has no row for a token.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, TokenizerError> {
        self.inner.check_length(text).map_err(|reason| self.failed("encode", &reason))?;
        let frame = self.inner.frame.filter(|_| add_special);
        let own = add_special && self.inner.frame.is_none();
        let encoding = contained(|| self.inner.tokenizer.encode_fast(text, own));
        let encoding = encoding.map_err(|e| self.failed("encode", &e))?;
        let (before, after) = frame.map_or((None, None), |frame| (frame.before, frame.after));
        let ids: Vec<u32> = before.into_iter().chain(encoding.get_ids().iter().copied()).chain(after).collect();
        ids.iter().try_for_each(|&id| self.check_row(id))?;
        Ok(ids)
    }

    /// The text of some ids; `skip_special` leaves special tokens out.
    ///
    /// Ids without a token are left out; bytes that are no character become U+FFFD.
    ///
    /// # Errors
    /// The tokenizer's decoder fails.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        let bytes = ids.len().saturating_mul(self.inner.longest);
        self.inner.limits.after.check(bytes).map_err(|reason| self.failed("decode", &reason))?;
        contained(|| self.inner.tokenizer.decode(ids, skip_special)).map_err(|e| self.failed("decode", &e))
    }

    /// The text of one token as the vocabulary spells it, or `None` for an id without a token.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.tokenizer.id_to_token(id)
    }

    /// The number of tokens, added ones included.
    pub fn vocab_size(&self) -> usize {
        self.inner.tokenizer.get_vocab_size(true)
    }

    /// The largest token id, or `None` for an empty vocabulary.
    pub fn max_id(&self) -> Option<u32> {
        self.inner.max_id
    }

    /// The lowest id that is one token here and another one in `other`. An id that only one of them has is no
    /// difference: models have padding and special tokens of their own.
    pub fn first_difference(&self, other: &Self) -> Option<u32> {
        let vocabulary = self.inner.tokenizer.get_vocab(true).into_iter();
        let differs = |(token, id): &(String, u32)| other.token(*id).is_some_and(|theirs| theirs != *token);
        vocabulary.filter(differs).map(|(_, id)| id).min()
    }

    /// The ids of the special tokens that `tokenizer_config.json` names.
    pub fn special_ids(&self) -> SpecialIds {
        self.inner.special_ids
    }

    /// The tokenizer file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The tokenizer for a model with so many rows of embeddings, of which there may be more than tokens. Added tokens,
    /// such as padding, may lie behind the last row: texts that spell them are refused.
    ///
    /// # Errors
    /// Some other token has no row.
    pub fn of_model(self, rows: usize) -> Result<Self, TokenizerError> {
        let bounded = Self { rows, ..self };
        bounded.inner.limits.max_id.map_or(Ok(()), |id| bounded.check_row(id))?;
        Ok(bounded)
    }

    fn check_row(&self, id: u32) -> Result<(), TokenizerError> {
        if (id as usize) < self.rows {
            return Ok(());
        }
        let token = self.token(id).unwrap_or_default();
        let path = self.inner.path.clone();
        Err(TokenizerError::OutsideVocabulary { path, id, token, model_vocab: self.rows })
    }

    fn failed(&self, action: &'static str, e: &dyn std::fmt::Display) -> TokenizerError {
        TokenizerError::Failed { path: self.inner.path.clone(), action, reason: one_line(e) }
    }
}

/// Marks the named special tokens as special: not every `tokenizer.json` does, but decoding has to leave them out.
fn mark_special(tokenizer: &mut tokenizers::Tokenizer, config: &TokenizerConfig) {
    let known = tokenizer.get_added_tokens_decoder();
    let missing: Vec<AddedToken> = ["bos_token", "eos_token", "pad_token", "unk_token"]
        .iter()
        .filter_map(|key| config.token(key))
        .filter(|token| !token.is_empty() && tokenizer.token_to_id(token).is_some())
        .filter(|token| !known.values().any(|t| t.special && t.content == **token))
        .map(|token| AddedToken::from(token, true).normalized(false))
        .collect();
    tokenizer.add_special_tokens(&missing);
}

/// Tokens that `add_bos_token` and `add_eos_token` of the config put around a text: where either key is given, both
/// overrule `tokenizer.json`, and a key that is not given keeps the behaviour of `tokenizer.json`.
fn frame(
    tokenizer: &tokenizers::Tokenizer,
    config: &TokenizerConfig,
    ids: SpecialIds,
) -> tokenizers::Result<Option<Frame>> {
    let flag = |key| config.get(key).and_then(Value::as_bool);
    let (bos, eos) = (flag("add_bos_token"), flag("add_eos_token"));
    if bos.is_none() && eos.is_none() {
        return Ok(None);
    }
    let around = tokenizer.encode_fast("", true)?;
    let around = around.get_ids();
    let before = ids.bos.filter(|id| bos.unwrap_or(around.first() == Some(id)));
    let after = ids.eos.filter(|id| eos.unwrap_or(around.last() == Some(id)));
    Ok(Some(Frame { before, after }))
}

fn one_line(message: &dyn std::fmt::Display) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
