//! The OpenAI API: requests as JSON, answers as JSON. Nothing here knows sockets or tensors.

pub(crate) mod answer;
pub(crate) mod chat;
pub(crate) mod completion;
pub(crate) mod error;
pub(crate) mod fields;
pub(crate) mod models;
pub(crate) mod sampling;
pub(crate) mod tools;

#[cfg(test)]
mod tests;
