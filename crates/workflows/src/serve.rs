//! `gorgon serve`: a model with its drafter behind an OpenAI-compatible API.

use crate::drafting::{Drafting, Newer};
use crate::failure::Failure;
use crate::learn::{CorrectionLog, Learning};
use crate::load;
use crate::prompts;
use crate::renewal::Renewal;
use crate::settings::Settings;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_draft::corrections::{CorrectedDrafter, Corrections};
use gorgon_draft::drafter::Drafter;
use gorgon_infer::Drafts;
use gorgon_model::cache::KvCache;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_serve::{Engine, EngineError, Limits, Model, Options, Server, Stop};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tokens of context, unless `--context` asks for another number.
const CONTEXT: usize = 8192;
/// Tokens of the smallest context that a prompt and an answer have room in.
const LEAST_CONTEXT: usize = 16;
/// Sequences whose whole context a cache has room for, where the memory is not known.
const UNMEASURED: usize = 8;
/// Bytes of a file with an API key at most.
const KEY_BYTES: u64 = 4096;
/// How often a request to stop is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServeJob {
    /// The model, as it was named.
    pub model: String,
    /// The name that requests give; the model's own if there is none.
    pub name: Option<String>,
    /// The heads, if any.
    pub heads: Option<PathBuf>,
    /// The address.
    pub host: IpAddr,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Answers that are decoded at once.
    pub batch: usize,
    /// Answers that wait at most; four times the batch if it is not given.
    pub queue: Option<usize>,
    /// Rows of all caches at most; as the memory allows if it is not given.
    pub cache_tokens: Option<usize>,
    /// Seconds that a request may take.
    pub timeout: u64,
    /// A file with the API key.
    pub api_key_file: Option<PathBuf>,
    /// The API key.
    pub api_key: Option<String>,
    /// A web origin whose pages may ask.
    pub cors: Option<String>,
    /// Where corrections of what drafts are logged to, if they are. Newer weights of it are taken up then.
    pub learn: Option<Learning>,
}

impl ServeJob {
    /// Serves until the process is asked to stop. `listening` gets the address and the model's name.
    ///
    /// # Errors
    /// When the model, the drafter or the address cannot be had.
    pub fn run(
        &self,
        drafting: Drafting,
        settings: &Settings,
        listening: &mut dyn FnMut(SocketAddr, &str),
    ) -> Result<(), Failure> {
        check_origin(self.cors.as_deref())?;
        let stop = settings.console.stop_flag();
        let api_key = self.key()?;
        let dir = load::decoder_only(&self.model, "serve", settings)?;
        // Greedy and coupled texts are decoded alike; both take the most likely drafts.
        let drafting = drafting.for_text_of(&dir, (RuleChoice::Auto, Transform::IDENTITY), &settings.console)?;
        let config = ModelConfig::read(&dir)?;
        let renderer = prompts::renderer(&dir, self.heads.as_deref(), settings)?;
        let whole = load::context(&config, settings)?;
        let context = if settings.context.is_some() { whole } else { whole.min(CONTEXT) };
        if context < LEAST_CONTEXT {
            let message = format!("a context of {context} tokens: a server needs {LEAST_CONTEXT} at least");
            return Err(Failure::input(message).hint("--context asks for another number"));
        }
        let decoder = load::decoder(&dir, context, settings)?;
        let newer = self.learn.as_ref().and_then(|_| Newer::of(&drafting));
        let renewal = Renewal::new(&drafting, drafting.drafters(&decoder)?);
        let log = self.learn.as_ref().map(|learn| CorrectionLog::open(learn, &dir, &drafting)).transpose()?;
        let limits = self.limits(&drafting, &decoder, context, renewal.drafter().needs().lends_target, settings)?;
        let created = u64::try_from(settings.started.as_second()).unwrap_or_default();
        let name = self.name.clone().unwrap_or_else(|| name(&self.model));
        let model = Model { name: name.clone(), renderer, context, vocab_size: config.vocab_size, created };
        let entropy = RandomState::new().hash_one(settings.started.as_nanosecond());
        let (address, store) = (SocketAddr::new(self.host, self.port), drafting.live_store());
        let options = Options { address, api_key, cors: self.cors.clone(), limits, store, entropy };
        let refused = |error| Failure::run(format!("{address}: {error}")).hint("choose another --port");
        let server = Server::bind(model, options).map_err(refused)?;
        listening(server.address(), &name);
        let _watch = Watch::start(server.stopper(), stop)?;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if let Some(newer) = newer {
                scope.spawn(|| renewal.watch(newer, &decoder, &over, &settings.console));
            }
            let _over = Raised(&over);
            answer(server, &decoder, &drafting, &renewal, log)
        })
    }

    fn limits(
        &self,
        drafting: &Drafting,
        decoder: &Arc<Decoder>,
        context: usize,
        is_lent: bool,
        settings: &Settings,
    ) -> Result<Limits, Failure> {
        let batch = if is_lent { 1 } else { self.batch };
        if batch < self.batch {
            settings.console.say("note: this drafter runs layers of the model itself: one answer at a time");
        }
        let rows = match self.cache_tokens {
            Some(rows) if rows < context => {
                let message = format!("--cache-tokens {rows}: fewer than the context of {context} tokens");
                return Err(Failure::input(message).hint("ask for more, or for a smaller --context"));
            }
            Some(rows) => rows,
            None => affordable(drafting, decoder, context)?.clamp(context, context.saturating_mul(4 * batch)),
        };
        let mut limits = Limits::new(batch, rows);
        limits.sessions = if is_lent { 1 } else { limits.sessions };
        limits.queue = self.queue.unwrap_or(limits.queue);
        limits.request_time = Duration::from_secs(self.timeout);
        Ok(limits)
    }

    /// The API key, from its file or as it was given.
    fn key(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.api_key_file else { return Ok(self.api_key.clone().filter(|key| !key.is_empty())) };
        let mut text = String::new();
        let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
        file.take(KEY_BYTES + 1).read_to_string(&mut text).map_err(|error| Failure::io(path, &error))?;
        let key = text.trim();
        if key.is_empty() || text.len() as u64 > KEY_BYTES || key.contains(char::is_whitespace) {
            let message = format!("{}: no API key: it must be one word of at most {KEY_BYTES} bytes", path.display());
            return Err(Failure::input(message));
        }
        Ok(Some(key.to_owned()))
    }
}

/// Answers until the server is asked to stop.
fn answer(
    server: Server,
    decoder: &Arc<Decoder>,
    drafting: &Drafting,
    renewal: &Renewal<'_>,
    log: Option<Arc<dyn Corrections>>,
) -> Result<(), Failure> {
    let drafter = || -> Box<dyn Drafter> {
        match &log {
            Some(log) => Box::new(CorrectedDrafter::new(renewal.drafter(), log.clone())),
            None => renewal.drafter(),
        }
    };
    let drafts = Drafts { drafter: &drafter, tree: drafting.builder.as_ref() };
    let drafts = (!drafting.is_plain()).then_some(drafts);
    let (takes_chains, version) = (drafting.takes_chains(), || renewal.version());
    let engine = Engine { decoder: decoder.clone(), drafts, takes_chains, version: Some(&version) };
    server.run(&engine).map_err(|error| match error {
        EngineError::Decode(error) => Failure::from(error),
        error => Failure::run(error),
    })
}

/// Rows of caches for which half of the free memory is enough.
fn affordable(drafting: &Drafting, decoder: &Arc<Decoder>, context: usize) -> Result<usize, Failure> {
    let compute = decoder.compute();
    let Some(available) = load::available_memory(compute) else {
        return Ok(UNMEASURED.saturating_mul(context));
    };
    let (_, drafter) = drafting.memory(decoder.config(), compute, context)?;
    let per_row = ((KvCache::bytes(decoder.config(), compute, context) + drafter) / context as u128).max(1);
    Ok(usize::try_from(u128::from(available) / 2 / per_row).unwrap_or(usize::MAX))
}

/// A model's name: a repo's as it is, of a folder or file its last part.
fn name(model: &str) -> String {
    let path = Path::new(model);
    let last = path.file_name().filter(|_| path.exists()).and_then(|name| name.to_str());
    last.unwrap_or(model).to_owned()
}

/// Raises a flag when it is dropped, after a panic too.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Looks for a request to stop, until it is dropped.
struct Watch(Arc<AtomicBool>);

impl Watch {
    fn start(server: Stop, stop: Arc<AtomicBool>) -> Result<Self, Failure> {
        let done = Arc::new(AtomicBool::new(false));
        let over = done.clone();
        let watch = move || {
            while !over.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    return server.stop();
                }
                std::thread::sleep(LOOK);
            }
        };
        std::thread::Builder::new().name("stop".into()).spawn(watch).map_err(Failure::run)?;
        Ok(Self(done))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Fails unless pages of this origin can ask: a scheme and a host, or all pages.
fn check_origin(cors: Option<&str>) -> Result<(), Failure> {
    let Some(origin) = cors.filter(|&origin| origin != "*") else { return Ok(()) };
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    if host.is_some_and(|host| !host.is_empty() && !host.contains(|c: char| c == '/' || c.is_whitespace())) {
        return Ok(());
    }
    let message = format!("--cors {origin}: not a web origin");
    Err(Failure::input(message).hint("a scheme and a host, such as https://example.org, or * for all pages"))
}
