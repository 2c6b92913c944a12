//! Bounds on the work that a `tokenizer.json` can ask for.
//!
//! The file is not trusted. Its vocabulary costs time and memory in proportion to its size, which is bounded. A few
//! other things cost more than they take in the file: long added tokens (quadratic), rules that replace a character by
//! many (a chain of them is exponential), texts put before every text, and searches for vocabulary entries at every
//! position of a text. They are checked before the tokenizer is made, and every text before it is tokenised.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// Longest added token, vocabulary entry, replacement or prefix, in bytes. Published ones have less than 300.
pub const MAX_PIECE_BYTES: usize = 1024;
/// Bytes of all added tokens. Texts are searched for them by an automaton that takes some 80 bytes of memory for each;
/// published files have less than 200 KiB.
const MAX_ADDED_BYTES: usize = 2 << 20;
/// Longest pattern of a rule, in bytes.
const MAX_PATTERN_BYTES: usize = 16 << 10;
/// Rules that a text goes through, at most.
const MAX_RULES: usize = 64;
/// How many times longer the rules of a file may make a text. Llama's make it 3 times as long.
const MAX_GROWTH: usize = 1024;
/// Bytes that a text may have after its rules.
const MAX_TEXT_BYTES: usize = 256 << 20;
/// Largest `max_input_chars_per_word`. Published ones are 100.
const MAX_WORD_CHARS: usize = 1024;
/// Steps that tokenising a text may take. A step reads a byte of a candidate for an entry, some nanoseconds.
pub const MAX_STEPS: u64 = 8 << 30;
/// Steps per byte of a text where merges are taken from a queue.
const MERGE_STEPS: u64 = 32;

/// How long the rules of a file can make a text: `growth · n + plus` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    factor: usize,
    plus: usize,
    rules: usize,
}

impl Growth {
    const NONE: Self = Self { factor: 1, plus: 0, rules: 0 };

    /// One rule after others.
    fn then(self, factor: usize, plus: usize) -> Self {
        let plus = self.plus.saturating_mul(factor).saturating_add(plus);
        Self { factor: self.factor.saturating_mul(factor), plus, rules: self.rules + 1 }
    }

    /// Bytes that a text can have after the rules.
    pub fn bytes(&self, text: usize) -> usize {
        text.saturating_mul(self.factor).saturating_add(self.plus)
    }

    /// Fails for texts that could become too long.
    ///
    /// # Errors
    /// Then, in words.
    pub fn check(&self, text: usize) -> Result<(), String> {
        let bytes = self.bytes(text);
        if bytes <= MAX_TEXT_BYTES {
            return Ok(());
        }
        Err(format!(
            "a text of {text} bytes can become {bytes} bytes by the tokenizer's rules; {MAX_TEXT_BYTES} are allowed"
        ))
    }
}

/// Limits of a file on the texts that it is used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Growth by the normaliser and what splits a text into words.
    pub before: Growth,
    /// Growth by what splits a text into words.
    pub split: Growth,
    /// Growth by the decoder.
    pub after: Growth,
    /// Most steps of the model for a byte of a text.
    pub steps_per_byte: u64,
    /// Entries of the vocabulary that were read.
    pub entries: usize,
    /// Bytes of the longest of them.
    pub longest: usize,
    /// Their greatest id.
    pub max_id: Option<u32>,
}

impl Limits {
    /// Fails for texts that could take too many steps. `bytes` are those that reach the model.
    ///
    /// # Errors
    /// Then, in words.
    pub fn check_steps(&self, bytes: usize) -> Result<(), String> {
        let steps = (bytes as u64).saturating_mul(self.steps_per_byte);
        if steps <= MAX_STEPS {
            return Ok(());
        }
        Err(format!(
            "searching {} vocabulary entries in {bytes} bytes can take {steps} steps ({} for each byte); {MAX_STEPS} are \
             allowed; shorten the text",
            self.entries, self.steps_per_byte
        ))
    }
}

/// The parts of the file that are bounded.
#[derive(Deserialize)]
struct File<'a> {
    #[serde(default, borrow)]
    added_tokens: Vec<Added<'a>>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(borrow)]
    model: Model<'a>,
}

#[derive(Deserialize)]
struct Added<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Model<'a> {
    #[serde(default)]
    vocab: Vocabulary,
    #[serde(default)]
    dropout: Value,
    #[serde(default)]
    max_input_chars_per_word: Value,
    #[serde(default, borrow)]
    continuing_subword_prefix: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    end_of_word_suffix: Option<Cow<'a, str>>,
}

impl Model<'_> {
    fn check(&self) -> Result<(), String> {
        if self.vocab.longest > MAX_PIECE_BYTES {
            return Err(too_long("an entry of model.vocab", self.vocab.longest, MAX_PIECE_BYTES));
        }
        if self.dropout.as_f64().is_some_and(|dropout| dropout != 0.0) {
            return Err(format!("model.dropout {} makes ids random; set it to null", self.dropout));
        }
        if self.max_input_chars_per_word.as_f64().is_some_and(|chars| chars > MAX_WORD_CHARS as f64) {
            let given = &self.max_input_chars_per_word;
            return Err(format!("model.max_input_chars_per_word is {given}; at most {MAX_WORD_CHARS} are allowed"));
        }
        piece("model.continuing_subword_prefix", self.continuing_subword_prefix.as_deref().unwrap_or_default())?;
        piece("model.end_of_word_suffix", self.end_of_word_suffix.as_deref().unwrap_or_default())
    }

    /// Most bytes of candidates that are read for a byte of a text.
    ///
    /// WordPiece tries, at every character, the rest of the word without its last `0, 1, 2, …` characters, each behind
    /// the prefix. Unigram reads, at every character, each entry that goes on there: at most one of each length.
    fn steps_per_byte(&self) -> u64 {
        let chars = self.max_input_chars_per_word.as_u64().unwrap_or(0);
        let prefix = self.continuing_subword_prefix.as_deref().unwrap_or_default().len() as u64;
        let of_words = chars * (chars + 1) / 2 + chars * prefix;
        let of_list: u64 = self.vocab.lengths().map(|bytes| bytes as u64).sum();
        if self.vocab.is_list { of_words.max(of_list).max(1) } else { of_words.max(MERGE_STEPS) }
    }
}

/// Checks a file, and returns the limits on texts.
///
/// # Errors
/// When a part of it is out of bounds, in words.
pub fn check(bytes: &[u8]) -> Result<Limits, String> {
    let file: File<'_> = gorgon_runs::json::read(bytes).map_err(|error| error.to_string())?;
    for (i, token) in file.added_tokens.iter().enumerate() {
        piece(&format!("added_tokens[{i}].content"), &token.content)?;
    }
    let added: usize = file.added_tokens.iter().map(|token| token.content.len()).sum();
    if added > MAX_ADDED_BYTES {
        return Err(too_long("the content of added_tokens in all", added, MAX_ADDED_BYTES));
    }
    file.model.check()?;
    let normalised = rules("normalizer", &file.normalizer, Growth::NONE)?;
    let before = bounded("normalizer and pre_tokenizer", rules("pre_tokenizer", &file.pre_tokenizer, normalised)?)?;
    let split = rules("pre_tokenizer", &file.pre_tokenizer, Growth::NONE)?;
    template(&file.post_processor)?;
    let after = bounded("decoder", rules("decoder", &file.decoder, Growth::NONE)?)?;
    let Vocabulary { entries, longest, max_id, .. } = file.model.vocab;
    Ok(Limits { before, split, after, steps_per_byte: file.model.steps_per_byte(), entries, longest, max_id })
}

fn bounded(name: &str, growth: Growth) -> Result<Growth, String> {
    if growth.rules > MAX_RULES {
        return Err(format!("{name}: {} rules; at most {MAX_RULES} are allowed", growth.rules));
    }
    if growth.factor > MAX_GROWTH {
        return Err(format!(
            "{name}: {} rules make a text {} times as long; at most {MAX_GROWTH} times are allowed",
            growth.rules, growth.factor
        ));
    }
    Ok(growth)
}

fn too_long(name: &str, bytes: usize, most: usize) -> String {
    format!("{name} has {bytes} bytes; at most {most} are allowed")
}

fn piece(name: &str, text: &str) -> Result<(), String> {
    if text.len() > MAX_PIECE_BYTES { Err(too_long(name, text.len(), MAX_PIECE_BYTES)) } else { Ok(()) }
}

/// The growth by a rule and those in it, after others. Rules of Unicode (NFKC and the like) have no say of the file's
/// in them, so they count as keeping the length.
fn rules(name: &str, rule: &Value, before: Growth) -> Result<Growth, String> {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default();
    let inner = ["normalizers", "pretokenizers", "decoders"].iter().find_map(|key| rule.get(key)?.as_array());
    if let Some(inner) = inner {
        return inner.iter().enumerate().try_fold(before, |growth, (i, rule)| {
            if growth.rules > MAX_RULES { Ok(growth) } else { rules(&format!("{name}[{i}]"), rule, growth) }
        });
    }
    let pattern = rule.get("pattern").and_then(Value::as_object).and_then(|pattern| pattern.iter().next());
    let pattern = pattern.and_then(|(kind, pattern)| Some((kind == "String", pattern.as_str()?)));
    if let Some((_, pattern)) = pattern.filter(|(_, pattern)| pattern.len() > MAX_PATTERN_BYTES) {
        return Err(too_long(&format!("{name}.pattern"), pattern.len(), MAX_PATTERN_BYTES));
    }
    match rule.get("type").and_then(Value::as_str) {
        None => Ok(before),
        Some("Replace") => {
            let content = text("content");
            piece(&format!("{name}.content"), content)?;
            let factor = match pattern {
                Some((true, pattern)) if !pattern.is_empty() => content.len().div_ceil(pattern.len()).max(1),
                // An expression may match one byte, or the place between two.
                _ => content.len() + 1,
            };
            Ok(before.then(factor, content.len()))
        }
        Some("Prepend") => {
            piece(&format!("{name}.prepend"), text("prepend"))?;
            Ok(before.then(1, text("prepend").len()))
        }
        Some("Precompiled") => Ok(before.then(longest_of_map(name, text("precompiled_charsmap"))?, 0)),
        Some("Metaspace") => {
            piece(&format!("{name}.replacement"), text("replacement"))?;
            Ok(before.then(text("replacement").len().max(1), text("replacement").len()))
        }
        // Bytes above 127 become two.
        Some("ByteLevel") => Ok(before.then(2, 1)),
        _ => Ok(before.then(1, 0)),
    }
}

/// The longest replacement of SentencePiece's compiled map: the size of a trie, the trie, and texts that end in NUL.
fn longest_of_map(name: &str, encoded: &str) -> Result<usize, String> {
    let wrong = || format!("{name}.precompiled_charsmap is no compiled map");
    let map = STANDARD.decode(encoded).map_err(|_| wrong())?;
    let Some((size, rest)) = map.split_first_chunk::<4>() else { return Ok(1) };
    let texts = rest.get(u32::from_le_bytes(*size) as usize..).ok_or_else(wrong)?;
    let longest = texts.split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(0);
    if longest > MAX_PIECE_BYTES {
        return Err(too_long(&format!("a replacement of {name}.precompiled_charsmap"), longest, MAX_PIECE_BYTES));
    }
    Ok(longest.max(1))
}

/// Bounds the pieces that a template puts around a text.
fn template(processor: &Value) -> Result<(), String> {
    for key in ["single", "pair"] {
        let pieces = processor.get(key).and_then(Value::as_array).map_or(0, Vec::len);
        if pieces > MAX_RULES {
            return Err(format!("post_processor.{key}: {pieces} pieces; at most {MAX_RULES} are allowed"));
        }
    }
    let tokens = processor.get("special_tokens").and_then(Value::as_object).into_iter().flatten();
    for (name, token) in tokens {
        let ids = token.get("ids").and_then(Value::as_array).map_or(0, Vec::len);
        if ids > MAX_RULES {
            return Err(format!(
                "post_processor.special_tokens: a token of {ids} ids; at most {MAX_RULES} are allowed"
            ));
        }
        piece("a name in post_processor.special_tokens", name)?;
    }
    let inner = processor.get("processors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if inner.len() > MAX_RULES {
        return Err(format!("post_processor: {} processors; at most {MAX_RULES} are allowed", inner.len()));
    }
    inner.iter().try_for_each(template)
}

/// Counts of a vocabulary, which is a map from entries to ids or a list of entries and scores.
#[derive(Default)]
struct Vocabulary {
    entries: usize,
    is_list: bool,
    /// Whether there is an entry of so many bytes; the last place stands for all that are longer.
    has: Vec<bool>,
    longest: usize,
    /// The greatest id. A value that is none is refused when the tokenizer is made.
    max_id: Option<u32>,
}

impl Vocabulary {
    /// The lengths that entries have, each once.
    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.has.iter().enumerate().filter(|(_, has)| **has).map(|(bytes, _)| bytes)
    }

    fn count(&mut self, entry: &str, id: Option<u64>) {
        self.entries += 1;
        self.max_id = self.max_id.max(id.and_then(|id| id.try_into().ok()));
        self.longest = self.longest.max(entry.len());
        let place = entry.len().min(MAX_PIECE_BYTES + 1);
        if self.has.len() <= place {
            self.has.resize(place + 1, false);
        }
        self.has[place] = true;
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut vocabulary = Vocabulary::default();
                while let Some((entry, id)) = map.next_entry::<Entry<'de>, Value>()? {
                    vocabulary.count(&entry.0, id.as_u64());
                }
                Ok(vocabulary)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let mut vocabulary = Vocabulary { is_list: true, ..Vocabulary::default() };
                while let Some((entry, _)) = list.next_element::<(Entry<'de>, IgnoredAny)>()? {
                    vocabulary.count(&entry.0, Some(vocabulary.entries as u64));
                }
                Ok(vocabulary)
            }

            fn visit_unit<E>(self) -> Result<Vocabulary, E> {
                Ok(Vocabulary::default())
            }
        }
        deserializer.deserialize_any(Entries)
    }
}

/// An entry, borrowed from the file where it has no escapes.
#[derive(Deserialize)]
struct Entry<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests;
