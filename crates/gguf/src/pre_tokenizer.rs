//! How byte-level tokenizers split a text into words, by the names that files use.
//!
//! The expressions are those of llama.cpp (`src/llama-vocab.cpp`), written for the library that is used here.

use crate::value::quoted;

/// Rules of a name.
#[derive(Debug)]
pub struct Rules {
    /// Names in `tokenizer.ggml.pre`.
    names: &'static [&'static str],
    /// Expressions, each applied to what those before it left.
    pub expressions: &'static [&'static str],
    /// Whether a word that is a token stays whole, whatever the merges.
    pub ignore_merges: bool,
    /// Whether a text begins with the token for it where the file does not say.
    pub add_bos: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const RULES: [Rules; 5] = [
    Rules { names: &["llama-bpe", "llama3", "llama-v3"], expressions: &[LLAMA3], ignore_merges: true, add_bos: true },
    Rules { names: &["qwen2", "deepseek-r1-qwen"], expressions: &[QWEN2], ignore_merges: false, add_bos: false },
    Rules { names: &["gpt-2", "phi-2"], expressions: &[GPT2], ignore_merges: false, add_bos: false },
    Rules { names: &["smollm"], expressions: &[r"\p{N}", GPT2], ignore_merges: false, add_bos: false },
    Rules {
        names: &["default"],
        expressions: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        ignore_merges: false,
        add_bos: false,
    },
];

/// The rules of a name; without one those of `default`, as in llama.cpp.
pub fn rules(name: Option<&str>) -> Result<&'static Rules, String> {
    let name = name.unwrap_or("default");
    RULES.iter().find(|rules| rules.names.contains(&name)).ok_or_else(|| {
        let names: Vec<&str> = RULES.iter().flat_map(|rules| rules.names).copied().collect();
        format!("tokenizer.ggml.pre is {}; supported: {}", quoted(name), names.join(", "))
    })
}
