//! A server over the embedded model, with a drafter that can be held up.

use super::client;
use gorgon_core::tree::ChainTree;
use gorgon_core::{Token, tree::TreeBuilder};
use gorgon_data::render::Renderer;
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_draft::ngram::NgramDrafter;
use gorgon_infer::Drafts;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_serve::{Engine, Limits, Model, Options, Server, Stop};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../checkpoints/tiny")
}

/// While it is shut, whoever drafts waits: a step takes as long as a test wants.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn set_shut(&self, shut: bool) {
        *self.0.0.lock().unwrap() = shut;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let shut = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(shut, |shut| *shut).unwrap());
    }
}

/// Prompt lookup behind a gate.
struct Gated {
    inner: NgramDrafter,
    gate: Gate,
}

impl Drafter for Gated {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.gate.pass();
        self.inner.draft(root, context)
    }
}

/// A server that runs.
pub struct Testing {
    pub address: SocketAddr,
    pub gate: Gate,
    pub stop: Stop,
    thread: Option<JoinHandle<()>>,
}

/// Starts a server with other limits than those of a batch of four.
pub fn start(change: impl FnOnce(&mut Options)) -> Testing {
    let limits = Limits { client_time: Duration::from_secs(300), ..Limits::new(4, 8 * 1024) };
    let address = "127.0.0.1:0".parse().unwrap();
    let mut options = Options { address, api_key: None, cors: None, limits, store: None, entropy: 7 };
    change(&mut options);
    let decoder = Arc::new(Decoder::load(&folder(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let renderer = Renderer::load(&folder()).unwrap();
    let model = Model { name: "tiny".into(), renderer, context: 1024, vocab_size: 4096, created: 1 };
    let server = Server::bind(model, options).unwrap();
    let (address, stop, gate) = (server.address(), server.stopper(), Gate::default());
    let held = gate.clone();
    let thread = std::thread::spawn(move || {
        let drafter = || Box::new(Gated { inner: NgramDrafter::new(2), gate: held.clone() }) as Box<dyn Drafter>;
        let tree = ChainTree::new(6).unwrap();
        let drafts = Some(Drafts { drafter: &drafter, tree: &tree as &dyn TreeBuilder });
        server.run(&Engine { decoder, drafts, takes_chains: true, version: None }).unwrap();
    });
    Testing { address, gate, stop, thread: Some(thread) }
}

impl Testing {
    pub fn post(&self, path: &str, body: &Value) -> client::Reply {
        client::post(self.address, path, body)
    }

    /// A number of `/metrics`.
    pub fn metric(&self, name: &str) -> f64 {
        let text = client::get(self.address, "/metrics").body;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("gorgon_{name} ")));
        line.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
    }

    /// Waits until a number of `/metrics` is another.
    pub fn wait_for(&self, name: &str, value: f64) {
        while self.metric(name) != value {
            std::thread::yield_now();
        }
    }

    /// Waits for the server's end.
    pub fn join(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Testing {
    fn drop(&mut self) {
        self.gate.set_shut(false);
        self.stop.abandon();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}
