//! An OpenAI-compatible server over the generation loop: it drafts, batches, streams and measures itself.
//!
//! Connections are served by a thread of their own (`http`), which parses requests (`api`) and puts them into a bounded
//! queue. The caller's thread decodes (`engine`): it is a [`Feed`](gorgon_infer::Feed) of the one generation loop, and
//! gives each request the slot whose cache knows most of its prompt. Text goes back through an `outbox` for each
//! request, which never makes the engine wait.
//!
//! A request with a seed has the same text alone and in any batch, drafted or not: it is decoded by the greedy or the
//! coupled rule, whose tokens depend on the prompt, the seed and the model alone.

mod api;
mod engine;
mod http;
mod job;
mod metrics;
mod options;
mod outbox;
mod queue;

pub use engine::{Engine, EngineError};
pub use http::{AnswerBounds, RequestParser, Server, Stop};
pub use options::{Limits, Model, Options};
