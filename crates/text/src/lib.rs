//! Text and token ids: the tokenizer of a model folder, streaming detokenisation, chat templates.

pub mod template;
pub mod tokenizer;
pub mod variables;
