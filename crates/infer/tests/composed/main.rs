//! Drafters that are made of others: cascades, and several draft models whose trees are merged. No draft changes greedy
//! or coupled text, the law of sampled text is enumerated, and rejected drafts leave no trace.

mod cascade;
mod every_composed;
mod law;
mod models;
mod specinfer;
