//! A byte-level BPE tokenizer with a chat template, trained on a corpus.

use gorgon_runs::atomic;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use tokenizers::decoders::byte_level::ByteLevel as ByteLevelDecoder;
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::{AddedToken, Tokenizer, models::TrainerWrapper};

/// Opens a conversation.
pub const BEGIN: &str = "<|begin|>";
/// Ends a turn.
pub const END: &str = "<|end|>";
/// Open a turn of each role.
pub const ROLES: [&str; 3] = ["<|system|>", "<|user|>", "<|assistant|>"];

/// The chat template: `<|begin|>` and then each turn as `<|role|>content<|end|>`.
const TEMPLATE: &str = "{{ bos_token }}{% for message in messages %}\
     {{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

/// Words with the space before them, numbers, punctuation, line ends, other white space: the pattern of Qwen2's
/// tokenizer but for the numbers, which are taken by two digits and with the space before them. A number below 100 is
/// then one token that stands right beside the word before it: a small model finds and compares whole tokens, and
/// hardly ever learns to do so with numbers in pieces.
const PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Trains a tokenizer of `size` tokens and writes `tokenizer.json`, `tokenizer_config.json` and
/// `generation_config.json` into `dir`.
///
/// # Errors
/// When the corpus cannot give so many tokens, or the folder cannot be written.
pub fn train<I>(corpus: I, size: usize, dir: &Path) -> io::Result<()>
where
    I: Iterator<Item = String> + Send,
{
    let specials: Vec<AddedToken> =
        [BEGIN, END].iter().chain(&ROLES).map(|token| AddedToken::from(*token, true).normalized(false)).collect();
    let wrong = |error: tokenizers::Error| io::Error::other(error.to_string());
    let mut trainer = TrainerWrapper::from(
        BpeTrainerBuilder::new()
            .show_progress(false)
            .vocab_size(size)
            .special_tokens(specials)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build(),
    );
    let mut tokenizer = Tokenizer::new(BPE::default());
    let split =
        Split::new(SplitPattern::Regex(PATTERN.into()), SplitDelimiterBehavior::Isolated, false).map_err(wrong)?;
    let bytes = ByteLevel::new(false, true, false);
    tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![split.into(), bytes.into()])));
    tokenizer.with_decoder(Some(ByteLevelDecoder::new(false, true, false)));
    tokenizer.train(&mut trainer, corpus).map_err(wrong)?;
    let found = tokenizer.get_vocab_size(true);
    if found != size {
        return Err(io::Error::other(format!("the corpus gives {found} tokens, not {size}")));
    }
    let text = tokenizer.to_string(true).map_err(wrong)?;
    atomic::write(&dir.join("tokenizer.json"), |file| file.write_all(text.as_bytes()))?;
    write_json(&dir.join("tokenizer_config.json"), &config())?;
    let end = tokenizer.token_to_id(END);
    write_json(
        &dir.join("generation_config.json"),
        &json!({"bos_token_id": tokenizer.token_to_id(BEGIN), "eos_token_id": end, "pad_token_id": end}),
    )
}

fn config() -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN, "eos_token": END, "pad_token": END,
        "clean_up_tokenization_spaces": false,
        "chat_template": TEMPLATE,
    })
}

/// Writes pretty-printed JSON.
pub(crate) fn write_json(path: &Path, value: &Value) -> io::Result<()> {
    atomic::write(path, |file| {
        serde_json::to_writer_pretty(&mut *file, value)?;
        file.write_all(b"\n")
    })
}
