//! The engine: the one generation loop over the queue, on the thread that calls it.

mod active;
mod feed;
mod logged;
mod slots;
mod text;

use crate::metrics::Metrics;
use crate::options::{Limits, Model};
use crate::queue::Queue;
use feed::Answers;
use gorgon_core::accept::Greedy;
use gorgon_core::tree::ChainTree;
use gorgon_infer::{Batch, DecodeError, Drafts, Pace};
use gorgon_model::decoder::Decoder;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Drafts of the short chain that is tried beside the tree.
const CHAIN: usize = 3;

/// Why the engine cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The drafter does not fit several sequences.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The listening thread cannot be used.
    #[error("the server's threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// A model with its drafter.
pub struct Engine<'a> {
    /// The model.
    pub decoder: Arc<Decoder>,
    /// The drafter and its tree; none for plain decoding.
    pub drafts: Option<Drafts<'a>>,
    /// Whether the drafter takes a short chain as well as its tree.
    pub takes_chains: bool,
    /// Counts how often the drafter's weights were replaced, if they can be. Sequences that begin later have a new
    /// drafter; those under way keep theirs.
    pub version: Option<&'a dyn Fn() -> u64>,
}

impl Engine<'_> {
    fn batch(&self, model: &Model, limits: &Limits) -> Result<Batch<'_>, DecodeError> {
        let batch = Batch::new(&self.decoder, limits.sessions, model.context, self.drafts)?;
        let Some(drafts) = self.drafts else { return Ok(batch) };
        let length = CHAIN.min(drafts.tree.max_depth());
        let shorter = self.takes_chains && length > 0 && drafts.tree.max_nodes() > length + 1;
        let chain = ChainTree::new(length).ok().filter(|_| shorter);
        Ok(batch.paced(Pace::new(chain)))
    }

    /// Checks that a batch can be made.
    pub(crate) fn check(&self, model: &Model, limits: &Limits) -> Result<(), DecodeError> {
        self.batch(model, limits).map(drop)
    }

    /// Decodes what the queue holds until the queue is stopped and empty. An error or a defect of decoding fails the
    /// requests that are under way; the engine goes on with empty caches.
    pub(crate) fn run(
        &self,
        model: &Model,
        limits: &Limits,
        queue: &Queue,
        metrics: &Metrics,
    ) -> Result<(), DecodeError> {
        metrics.rows_capacity.set(limits.rows);
        let sizes = (limits.sessions, limits.batch, limits.rows);
        let mut answers = Answers::new(queue, metrics, model.renderer.text(), sizes, self.version);
        loop {
            let mut batch = self.batch(model, limits)?;
            loop {
                if !answers.has_planned() && !queue.wait() {
                    return Ok(());
                }
                let served = catch_unwind(AssertUnwindSafe(|| batch.serve(&Greedy, &mut answers)));
                metrics.set_speedups(batch.pace().map(|pace| pace.speedups().collect()).unwrap_or_default());
                let message = match served {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(panic) => format!("a defect of the server: {}", words(&*panic)),
                };
                tracing::error!(message, "decoding failed");
                answers.fail(&message);
                break;
            }
        }
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("unknown")
}
