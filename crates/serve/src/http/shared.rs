//! State that all connections and the engine share.

use crate::api::answer::Shape;
use crate::api::chat::Chat;
use crate::api::completion::{Completion, Prompt};
use crate::api::error::ApiError;
use crate::api::sampling::Sampling;
use crate::job::Job;
use crate::metrics::Metrics;
use crate::options::{Model, Options};
use crate::outbox::Sender;
use crate::queue::{Queue, Refused};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::render::RenderError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Answers of one request at most.
const ANSWERS: usize = 128;

/// State that all connections and the engine share.
pub(crate) struct Shared {
    pub model: Model,
    pub options: Options,
    pub queue: Queue,
    pub metrics: Metrics,
    /// Requests so far.
    requests: AtomicU64,
}

/// A request that was understood: the answers to decode, and what they will look like.
pub(super) struct Asked {
    pub jobs: Vec<Job>,
    pub shape: Shape,
    pub stream: bool,
}

impl Shared {
    /// For a model.
    pub fn new(model: Model, options: Options) -> Self {
        let queue = Queue::new(options.limits.queue);
        Self { model, options, queue, metrics: Metrics::new(), requests: AtomicU64::new(0) }
    }

    /// Answers that one request may ask for.
    fn most_answers(&self) -> usize {
        self.options.limits.queue.min(ANSWERS)
    }

    /// Understands the body of a chat request.
    pub fn chat(&self, body: &[u8], outbox: &Sender) -> Result<Asked, ApiError> {
        let chat = Chat::parse(body, self.most_answers())?;
        self.check_model(&chat.sampling)?;
        let renderer = &self.model.renderer;
        if chat.tools.is_some() && !renderer.has_tools() {
            return Err(ApiError::field("tools", "tools: the model's chat template writes no tools"));
        }
        let renderer = match chat.variables.is_empty() {
            true => renderer.clone(),
            false => renderer.also(chat.variables.clone()).map_err(template)?,
        };
        let text = renderer.render(&chat.messages, chat.tools.as_ref(), true).map_err(template)?;
        // The template writes the special tokens itself.
        let ids = renderer.text().encode(&text, false).map_err(ApiError::request)?;
        let shape = self.shape(&chat.sampling, true, chat.logprobs, chat.tools.is_some());
        let jobs = self.jobs(vec![ids], &chat.sampling, chat.logprobs, outbox)?;
        Ok(Asked { jobs, shape, stream: chat.sampling.stream })
    }

    /// Understands the body of a request to continue texts.
    pub fn completion(&self, body: &[u8], outbox: &Sender) -> Result<Asked, ApiError> {
        let asked = Completion::parse(body, self.most_answers(), self.model.vocab_size)?;
        self.check_model(&asked.sampling)?;
        let text = self.model.renderer.text();
        let encode = |prompt| match prompt {
            Prompt::Ids(ids) => Ok(ids),
            Prompt::Text(prompt) => text.encode(&prompt, asked.add_special).map_err(ApiError::request),
        };
        let prompts = asked.prompts.into_iter().map(encode).collect::<Result<_, _>>()?;
        let shape = self.shape(&asked.sampling, false, asked.logprobs, false);
        let jobs = self.jobs(prompts, &asked.sampling, asked.logprobs, outbox)?;
        Ok(Asked { jobs, shape, stream: asked.sampling.stream })
    }

    fn check_model(&self, sampling: &Sampling) -> Result<(), ApiError> {
        match &sampling.model {
            Some(name) if *name != self.model.name => {
                let name: String = name.chars().take(128).collect();
                let message = format!("the model {name:?} is not served here; {:?} is", self.model.name);
                let code = Some("model_not_found");
                Err(ApiError {
                    param: Some("model".into()),
                    code,
                    ..ApiError::new(404, "invalid_request_error", message)
                })
            }
            _ => Ok(()),
        }
    }

    fn shape(&self, sampling: &Sampling, is_chat: bool, logprobs: Option<usize>, has_tools: bool) -> Shape {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        Shape {
            is_chat,
            id: format!("{:08x}{number:08x}", self.options.entropy as u32),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            model: self.model.name.clone(),
            include_usage: sampling.include_usage,
            pieces: sampling.pieces,
            token_ids: sampling.token_ids,
            logprobs,
            has_tools,
        }
    }

    /// The answers that a request asks for.
    fn jobs(
        &self,
        prompts: Vec<Vec<Token>>,
        sampling: &Sampling,
        logprobs: Option<usize>,
        outbox: &Sender,
    ) -> Result<Vec<Job>, ApiError> {
        let (limits, context) = (&self.options.limits, self.model.context);
        let arrived = Instant::now();
        let drawn = || {
            let number = self.requests.load(Ordering::Relaxed);
            let mut random = SeededRandom::sequence(self.options.entropy, number, 0, 0);
            (random.uniform() * 2.0_f64.powi(53)) as u64
        };
        let seed = sampling.seed.unwrap_or_else(drawn);
        let end_tokens = if sampling.ignore_eos { &[][..] } else { self.model.renderer.end_tokens() };
        let mut jobs = vec![];
        for prompt in prompts {
            if prompt.is_empty() {
                return Err(ApiError::field("prompt", "the prompt has no tokens"));
            }
            if prompt.len() > context {
                let message =
                    format!("a prompt of {} tokens does not fit the context of {context} tokens", prompt.len());
                return Err(ApiError::request(message).code("context_length_exceeded"));
            }
            let room = context - prompt.len() + 1;
            let max_new_tokens = sampling.max_tokens.unwrap_or(limits.default_tokens).min(room);
            jobs.extend((0..sampling.n).map(|sample| Job {
                prompt: prompt.clone(),
                max_new_tokens,
                end_tokens: end_tokens.to_vec(),
                stop: sampling.stop.clone(),
                transform: sampling.transform,
                seed,
                sample,
                index: 0,
                drafts: sampling.drafts,
                logprobs,
                arrived,
                deadline: arrived + limits.request_time,
                outbox: outbox.clone(),
            }));
        }
        jobs.iter_mut().enumerate().for_each(|(index, job)| job.index = index);
        Ok(jobs)
    }

    /// Puts answers into the queue.
    pub fn push(&self, jobs: Vec<Job>) -> Result<(), ApiError> {
        let pushed = self.queue.push(jobs);
        self.metrics.queued.set(self.queue.len());
        pushed.map_err(|refused| match refused {
            Refused::Stopping => ApiError::stopping(),
            Refused::Full(waiting) => {
                self.metrics.refused.add(1);
                ApiError::busy(waiting, self.retry_after(waiting))
            }
        })
    }

    /// Seconds until a queue of so many is likely to have moved: as long as answers have taken to begin so far.
    fn retry_after(&self, waiting: usize) -> u64 {
        let batches = waiting.div_ceil(self.options.limits.batch.max(1));
        (batches as u64).clamp(1, 60)
    }
}

/// A template that refuses a conversation is the request's fault.
fn template(error: RenderError) -> ApiError {
    let words = match &error {
        // The path is the server's business.
        RenderError::Template(template) => template.reason(),
        other => other.to_string(),
    };
    ApiError::field("messages", words)
}
