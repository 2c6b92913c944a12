//! The tokens of a file, with their types.

use crate::Gguf;
use crate::value::quoted;
use std::collections::HashMap;

/// Types of tokens by their numbers in the file.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// Most tokens.
const MOST: usize = 1 << 22;

/// Control tokens that end a turn in the chat formats that are in use, whether or not a file says so. llama.cpp knows
/// them by these texts too.
const ENDS: [&str; 6] = ["<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<end_of_turn>"];

/// Tokens in the order of their ids.
pub struct Vocabulary<'a> {
    /// Texts.
    pub tokens: &'a [String],
    types: &'a [i64],
}

impl<'a> Vocabulary<'a> {
    /// The tokens of a file.
    pub fn read(gguf: &'a Gguf) -> Result<Self, String> {
        const TOKENS: &str = "tokenizer.ggml.tokens";
        const TYPES: &str = "tokenizer.ggml.token_type";
        let tokens = gguf.metadata.texts(TOKENS)?.ok_or_else(|| format!("{TOKENS} is missing"))?;
        let types = gguf.metadata.integers(TYPES)?.unwrap_or_default();
        if tokens.is_empty() || tokens.len() > MOST {
            return Err(format!("{TOKENS} has {} tokens; 1 to {MOST} are supported", tokens.len()));
        }
        if !types.is_empty() && types.len() != tokens.len() {
            return Err(format!("{TYPES} has {} entries for {} tokens", types.len(), tokens.len()));
        }
        Ok(Self { tokens, types })
    }

    /// Ids by texts.
    pub fn ids(&self) -> Result<HashMap<&'a str, usize>, String> {
        let mut ids = HashMap::with_capacity(self.tokens.len());
        for (id, token) in self.tokens.iter().enumerate() {
            if let Some(first) = ids.insert(token.as_str(), id) {
                return Err(format!("tokens {first} and {id} have the same text {}", quoted(token)));
            }
        }
        Ok(ids)
    }

    fn type_of(&self, id: usize) -> i64 {
        self.types.get(id).copied().unwrap_or(1)
    }

    /// Whether a token stands for no text.
    pub fn is_special(&self, id: usize) -> bool {
        matches!(self.type_of(id), CONTROL | UNKNOWN)
    }

    /// Whether a token is looked for in a text before it is split.
    pub fn is_whole(&self, id: usize) -> bool {
        matches!(self.type_of(id), CONTROL | UNKNOWN | USER_DEFINED)
    }

    /// The text of the token that a key names.
    pub fn named(&self, gguf: &Gguf, name: &str) -> Result<Option<&'a str>, String> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let Some(id) = gguf.metadata.count(&key)? else { return Ok(None) };
        // A file may say that there is none by the largest number.
        if id == u64::from(u32::MAX) {
            return Ok(None);
        }
        let token = usize::try_from(id).ok().and_then(|id| self.tokens.get(id));
        token
            .map(|token| Some(token.as_str()))
            .ok_or_else(|| format!("{key} is {id}; the vocabulary ends with token {}", self.tokens.len() - 1))
    }
}

/// Control tokens that end a turn by their texts.
pub fn end_tokens(gguf: &Gguf) -> Result<Vec<u64>, String> {
    if gguf.metadata.get("tokenizer.ggml.tokens").is_none() {
        return Ok(vec![]);
    }
    let vocabulary = Vocabulary::read(gguf)?;
    let ends = |(id, token): &(usize, &String)| vocabulary.type_of(*id) == CONTROL && ENDS.contains(&token.as_str());
    Ok(vocabulary.tokens.iter().enumerate().filter(ends).map(|(id, _)| id as u64).collect())
}
