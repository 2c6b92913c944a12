//! Drafters that are made of others: cascades, several draft models whose trees are merged, phrases behind a draft
//! model, and the target over a part of its cache. No draft changes greedy
//! or coupled text, the law of sampled text is enumerated, and rejected drafts leave no trace.

mod cascade;
mod every_composed;
pub mod law;
pub mod models;
mod ouroboros;
mod partial;
mod specinfer;
mod triforce;
