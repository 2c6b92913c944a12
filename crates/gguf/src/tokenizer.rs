//! The tokenizer in the spelling of `tokenizer.json` and `tokenizer_config.json`.

use crate::Gguf;
use crate::value::quoted;
use crate::vocabulary::Vocabulary;
use crate::{merges, pre_tokenizer};
use serde_json::{Map, Value, json};

/// The kinds of tokenizers.
enum Model {
    /// Byte-level byte-pair encoding.
    Bytes,
    /// Byte-pair encoding of SentencePiece.
    SentencePiece,
}

impl Model {
    fn of(gguf: &Gguf) -> Result<Self, String> {
        const KEY: &str = "tokenizer.ggml.model";
        match gguf.metadata.text(KEY)? {
            Some("gpt2") => Ok(Self::Bytes),
            Some("llama") => Ok(Self::SentencePiece),
            Some(other) => Err(format!("{KEY} is {}; supported: gpt2, llama", quoted(other))),
            None => Err(format!("{KEY} is missing: the file has no tokenizer")),
        }
    }
}

fn pre_tokenizer(gguf: &Gguf) -> Result<&'static pre_tokenizer::Rules, String> {
    pre_tokenizer::rules(gguf.metadata.text("tokenizer.ggml.pre")?)
}

/// The document `tokenizer.json`.
pub fn tokenizer(gguf: &Gguf) -> Result<Value, String> {
    let model = Model::of(gguf)?;
    let vocabulary = Vocabulary::read(gguf)?;
    let mut document = match model {
        Model::Bytes => byte_level(gguf, &vocabulary)?,
        Model::SentencePiece => sentence_piece(gguf, &vocabulary)?,
    };
    document["version"] = "1.0".into();
    document["added_tokens"] = added(&vocabulary);
    Ok(document)
}

/// Tokens that are looked for before a text is split.
fn added(vocabulary: &Vocabulary<'_>) -> Value {
    let whole = vocabulary.tokens.iter().enumerate().filter(|(id, text)| vocabulary.is_whole(*id) && !text.is_empty());
    let list = whole.map(|(id, content)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": vocabulary.is_special(id)})
    });
    list.collect()
}

/// Ids by texts, as the vocabulary of a tokenizer.
fn listed(vocabulary: &Vocabulary<'_>) -> Value {
    let entries = vocabulary.tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into()));
    Value::Object(entries.collect::<Map<String, Value>>())
}

fn byte_level(gguf: &Gguf, vocabulary: &Vocabulary<'_>) -> Result<Value, String> {
    const MERGES: &str = "tokenizer.ggml.merges";
    vocabulary.ids()?;
    let rules = pre_tokenizer(gguf)?;
    let merges = gguf.metadata.texts(MERGES)?.ok_or_else(|| format!("{MERGES} is missing"))?;
    let pair = |merge: &String| {
        // A token may begin with a space only in theory; llama.cpp cuts after the first character too.
        let start = merge.chars().next().map_or(0, char::len_utf8);
        let cut = merge[start..].find(' ').map(|at| at + start);
        cut.map(|at| json!([merge[..at], merge[at + 1..]]))
            .ok_or_else(|| format!("{MERGES} has {}, which is no pair", quoted(merge)))
    };
    let merges: Vec<Value> = merges.iter().map(pair).collect::<Result<_, String>>()?;
    let split = |expression: &&str| json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false});
    let mut steps: Vec<Value> = rules.expressions.iter().map(split).collect();
    steps.push(json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}));
    Ok(json!({
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": rules.ignore_merges, "vocab": listed(vocabulary), "merges": merges,
        },
    }))
}

fn sentence_piece(gguf: &Gguf, vocabulary: &Vocabulary<'_>) -> Result<Value, String> {
    const SCORES: &str = "tokenizer.ggml.scores";
    let scores = gguf.metadata.numbers(SCORES)?.ok_or_else(|| format!("{SCORES} is missing"))?;
    if scores.len() != vocabulary.tokens.len() {
        return Err(format!("{SCORES} has {} entries for {} tokens", scores.len(), vocabulary.tokens.len()));
    }
    if let Some(at) = scores.iter().position(|score| score.is_nan()) {
        return Err(format!("{SCORES}: the score of token {at} is no number"));
    }
    let merges = merges::of_scores(vocabulary.tokens, scores, &vocabulary.ids()?)?;
    let unknown = vocabulary.named(gguf, "unknown")?;
    // With a space before every text, decoding takes it away again.
    let prefix = gguf.metadata.flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let mut normalizers = vec![spaces];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Ok(json!({
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": listed(vocabulary), "merges": merges,
        },
    }))
}

/// The document `tokenizer_config.json`.
pub fn settings(gguf: &Gguf) -> Result<Value, String> {
    let model = Model::of(gguf)?;
    let vocabulary = Vocabulary::read(gguf)?;
    let by_default = match model {
        Model::Bytes => pre_tokenizer(gguf)?.add_bos,
        Model::SentencePiece => true,
    };
    let flag = |name: &str| gguf.metadata.flag(&format!("tokenizer.ggml.{name}"));
    let mut settings = json!({
        "add_bos_token": flag("add_bos_token")?.unwrap_or(by_default),
        "add_eos_token": flag("add_eos_token")?.unwrap_or(false),
    });
    for (ours, theirs) in
        [("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"), ("padding", "pad_token")]
    {
        if let Some(token) = vocabulary.named(gguf, ours)? {
            settings[theirs] = token.into();
        }
    }
    if let Some(template) = gguf.metadata.text("tokenizer.chat_template")? {
        settings["chat_template"] = match gguf.metadata.text("tokenizer.chat_template.tool_use")? {
            None => template.into(),
            Some(with_tools) => json!([
                {"name": "default", "template": template},
                {"name": "tool_use", "template": with_tools},
            ]),
        };
    }
    Ok(settings)
}
