//! Work with a server that speaks OpenAI's API: chats and measurements.

mod client;
pub mod measure;

pub use client::{Client, Streamed};
