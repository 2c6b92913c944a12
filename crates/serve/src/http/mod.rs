//! Sockets: a thread that accepts connections, and what is answered on them.

mod bounds;
mod connections;
mod events;
mod routes;
mod shared;
mod timed;

pub use bounds::{AnswerBounds, RequestParser};

use crate::engine::{Engine, EngineError};
use crate::options::{Model, Options};
use connections::accept;
use shared::Shared;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// Threads that render templates and tokenise prompts, at most.
const PARSERS: usize = 2;
/// Time that connections have to send what is left after the last answer.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A server that listens. It answers once [`run`](Self::run) decodes.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Runtime,
    accepting: tokio::task::JoinHandle<()>,
    stopping: watch::Sender<bool>,
}

/// Asks a server to stop: what it has begun is finished, what comes is refused.
#[derive(Clone)]
pub struct Stop {
    shared: Arc<Shared>,
    stopping: watch::Sender<bool>,
}

impl Stop {
    /// Asks.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
        self.shared.queue.stop();
    }

    /// Gives up what is under way, too.
    pub fn abandon(&self) {
        self.stop();
        self.shared.queue.abandon();
    }
}

impl Server {
    /// Listens for requests.
    ///
    /// # Errors
    /// When the address cannot be had, or a thread cannot be started.
    pub fn bind(model: Model, options: Options) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(options.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(PARSERS)
            .thread_name("connections")
            .enable_all()
            .build()?;
        let shared = Arc::new(Shared::new(model, options));
        let (stopping, stop) = watch::channel(false);
        let listener = runtime.block_on(async { tokio::net::TcpListener::from_std(listener) })?;
        let accepting = runtime.spawn(accept(listener, shared.clone(), stop));
        Ok(Self { shared, address, runtime, accepting, stopping })
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle that stops it.
    pub fn stopper(&self) -> Stop {
        Stop { shared: self.shared.clone(), stopping: self.stopping.clone() }
    }

    /// Decodes on this thread until the server is stopped and everything that was begun has ended, or the time for
    /// that has passed.
    ///
    /// # Errors
    /// When the drafter cannot draft for several sequences.
    pub fn run(self, engine: &Engine<'_>) -> Result<(), EngineError> {
        let Shared { model, options, queue, metrics, .. } = &*self.shared;
        engine.check(model, &options.limits)?;
        let watcher = self.patience();
        let decoded = engine.run(model, &options.limits, queue, metrics);
        watcher.abort();
        self.stopper().stop();
        self.runtime.block_on(async {
            let _ = tokio::time::timeout(LAST_WORDS, self.accepting).await;
        });
        self.runtime.shutdown_timeout(LAST_WORDS);
        Ok(decoded?)
    }

    /// Gives up what is under way some time after the server was asked to stop.
    fn patience(&self) -> tokio::task::JoinHandle<()> {
        let (stop, time) = (self.stopper(), self.shared.options.limits.drain_time);
        let mut stopping = self.stopping.subscribe();
        self.runtime.spawn(async move {
            if stopping.wait_for(|stopping| *stopping).await.is_ok() {
                tokio::time::sleep(time).await;
                stop.abandon();
            }
        })
    }
}
