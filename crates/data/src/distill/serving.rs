//! Distillation by serving engines: many servers at once, none of them trusted to be there.
//!
//! Every conversation has a worker of its own, every answer a seed of its own. A server that fails is paused, longer
//! each time, or as long as it asks for; requests go to the others. Answers go into the same journal as the model's
//! own.

use super::budget::Budget;
use super::client::{Client, Question, Served, Serving, Trouble};
use super::conversation::{Conversation, Work};
use super::job::{Answering, DistillError, END_TOKEN, Event, LENGTH, Prompt, wrong};
use super::journal::{Answer, Journal};
use super::order::to_come;
use crate::render::Renderer;
use gorgon_core::accept::Greedy;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest pause of a server that asks for none.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long is slept before looking again whether to stop.
const MOMENT: Duration = Duration::from_millis(20);

/// Servers, and what they are asked.
pub struct Servers<'a> {
    /// Their addresses, up to and with `/v1`.
    pub urls: &'a [String],
    /// How to reach them.
    pub serving: &'a Serving,
    /// The model's tokenizer and chat template.
    pub renderer: &'a Renderer,
    /// Tokens in its vocabulary.
    pub vocab_size: usize,
    /// New tokens in an answer, at most.
    pub max_new_tokens: usize,
    /// Tokens in a conversation, at most.
    pub max_tokens: usize,
    /// Seed of all chance; every answer has its own.
    pub seed: u64,
    /// Temperature, nucleus, top tokens.
    pub sampling: (f64, Option<f64>, Option<usize>),
    /// Tokens that the model's context has room for.
    pub context: usize,
    /// Conversations at a time.
    pub slots: usize,
    /// Limit of all answers.
    pub budget: Budget,
}

/// State of one server: its failures, and until when it is paused.
#[derive(Default)]
struct State {
    paused_until: Option<Instant>,
    /// Pauses in a row.
    pauses: u32,
    busy: usize,
    as_text: bool,
    model: Option<String>,
    /// Why it was given up.
    lost: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queues and results that the workers share.
struct WorkerPool<'a, 'b> {
    servers: &'b Servers<'a>,
    client: Client<'b>,
    states: Mutex<Vec<State>>,
    journal: Mutex<&'b mut Journal>,
    waiting: Mutex<VecDeque<&'b Prompt>>,
    prompts: &'b [Prompt],
    budget: Mutex<Budget>,
    stop: &'b AtomicBool,
    failed: Mutex<Option<DistillError>>,
}

/// Lets servers answer all prompts that the journal does not have yet. Returns true when all are done, false when it
/// was asked to stop.
///
/// # Errors
/// When an answer cannot be had from any server, or the journal cannot be written. All answers that came are in it.
pub fn serve(
    servers: &Servers<'_>,
    prompts: &[Prompt],
    journal: &mut Journal,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(Event),
) -> Result<bool, DistillError> {
    let waiting = to_come(prompts, journal, &servers.budget);
    let workers = servers.slots.clamp(1, waiting.len().max(1));
    let local = servers.urls.iter().all(|url| gorgon_hub::is_loopback(url));
    let pool = WorkerPool {
        servers,
        client: Client::new(servers.serving, servers.renderer, servers.vocab_size, local),
        states: Mutex::new(servers.urls.iter().map(|_| State::default()).collect()),
        journal: Mutex::new(journal),
        waiting: Mutex::new(waiting),
        prompts,
        budget: Mutex::new(servers.budget),
        stop,
        failed: Mutex::new(None),
    };
    let (events, heard) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (pool, events) = (&pool, events.clone());
            scope.spawn(move || pool.work(&events));
        }
        drop(events);
        heard.iter().for_each(&mut *observe);
    });
    if let Some(error) = lock(&pool.failed).take() {
        return Err(error);
    }
    let over = pool.reaches_limit();
    let journal = lock(&pool.journal);
    Ok(over || prompts.iter().all(|prompt| journal.is_done(prompt.row)))
}

impl WorkerPool<'_, '_> {
    fn work(&self, events: &Sender<Event>) {
        while !self.is_over() && !self.reaches_limit() {
            let Some(prompt) = lock(&self.waiting).pop_front() else { return };
            if let Err(error) = self.converse(prompt, events) {
                lock(&self.failed).get_or_insert(error);
            }
        }
    }

    /// Whether the answers reach their limit.
    fn reaches_limit(&self) -> bool {
        lock(&self.budget).reached(self.prompts, &lock(&self.journal)).is_some()
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || lock(&self.failed).is_some()
    }

    /// One conversation, from where the journal leaves it.
    fn converse(&self, prompt: &Prompt, events: &Sender<Event>) -> Result<(), DistillError> {
        let Servers { renderer, max_new_tokens, max_tokens, seed, context, .. } = *self.servers;
        // Tokens are picked by the servers, not by this rule.
        let answering = &Answering { max_new_tokens, max_tokens, self_talk_turns: 0, rule: &Greedy, seed };
        let work = Work { renderer, answering, capacity: max_tokens.min(context) };
        let mut conversation = work.open(prompt, &lock(&self.journal))?;
        loop {
            let why = match self.turn(&work, &mut conversation, events)? {
                Turn::Answered(answer) => {
                    let tokens = answer.ids.len();
                    lock(&self.journal).answer(answer)?;
                    let _ = events.send(Event::Answer { row: prompt.row, tokens });
                    continue;
                }
                Turn::Over(why) => why,
                Turn::Stopped => return Ok(()),
            };
            lock(&self.journal).done(prompt.row, why)?;
            let _ = events.send(Event::Conversation { row: prompt.row, slot: None });
            return Ok(());
        }
    }

    fn turn(
        &self,
        work: &Work<'_>,
        conversation: &mut Conversation<'_>,
        events: &Sender<Event>,
    ) -> Result<Turn, DistillError> {
        let Some(user) =
            conversation.user(conversation.turn).map(str::to_owned).filter(|_| conversation.last_end != LENGTH)
        else {
            return Ok(Turn::Over(None));
        };
        if let Err(error) = conversation.transcript.ask_with(&user, conversation.prompt.calls(conversation.turn)) {
            return Ok(Turn::Over(Some(error.to_string())));
        }
        let ids = &conversation.transcript.example().ids;
        let room = work.capacity.saturating_sub(ids.len());
        if room == 0 {
            return Ok(Turn::Over(Some(format!(
                "no room for turn {} in {} tokens",
                conversation.turn + 1,
                work.capacity
            ))));
        }
        let question = Question {
            ids,
            text: conversation.transcript.text(),
            add_special: !work.renderer.has_template(),
            max_tokens: room.min(work.answering.max_new_tokens),
            sampling: self.servers.sampling,
            // Servers take 32 bits with a sign.
            seed: (work.random(conversation).uniform() * f64::from(i32::MAX)) as u64,
        };
        let Some(Served { ids, end, retokenised }) = self.answer(&question, events)? else { return Ok(Turn::Stopped) };
        conversation.transcript.answer_ids(&ids).map_err(|error| wrong(conversation.prompt, &error))?;
        let answer = Answer {
            row: conversation.prompt.row,
            turn: conversation.turn,
            ids,
            end: end.into(),
            user: None,
            retokenised,
        };
        conversation.turn += 1;
        conversation.last_end = if end == LENGTH { LENGTH } else { END_TOKEN };
        Ok(Turn::Answered(answer))
    }

    /// An answer from whichever server has one; `None` if it was asked to stop.
    fn answer(&self, question: &Question<'_>, events: &Sender<Event>) -> Result<Option<Served>, DistillError> {
        let (mut attempt, mut last) = (0, (0, String::new()));
        while attempt < self.servers.serving.attempts {
            let Some((server, as_text)) = self.pick() else { return Ok(None) };
            let url = self.servers.urls[server].trim_end_matches('/');
            let answered = match self.model(server, url) {
                Ok(model) => self.client.ask(url, &model, question, as_text),
                Err(trouble) => Err(trouble),
            };
            let mut states = lock(&self.states);
            let state = &mut states[server];
            state.busy -= 1;
            match answered {
                Ok(served) => {
                    (state.pauses, state.paused_until) = (0, None);
                    return Ok(Some(served));
                }
                // Not every server takes ids; that is no failure of it.
                Err(Trouble::Refused { may_be_ids: true, .. }) if !as_text => state.as_text = true,
                Err(Trouble::Refused { reason, .. }) => self.lose(&mut states, server, &reason, events)?,
                Err(Trouble::Passing { reason, wait }) => {
                    self.pause(state, wait);
                    (attempt, last) = (attempt + 1, (server, reason));
                }
            }
        }
        let (server, reason) = last;
        Err(DistillError::Unserved { url: self.servers.urls[server].clone(), attempts: attempt, reason })
    }

    /// Gives a server up.
    fn lose(
        &self,
        states: &mut [State],
        server: usize,
        reason: &str,
        events: &Sender<Event>,
    ) -> Result<(), DistillError> {
        if states[server].lost.is_none() {
            let reason = format!("{}: {reason}", self.servers.urls[server]);
            states[server].lost = Some(reason.clone());
            let _ = events.send(Event::ServerLost { reason });
        }
        match states.iter().map(|state| state.lost.clone()).collect() {
            Some(reasons) => Err(DistillError::NoServers { reasons }),
            None => Ok(()),
        }
    }

    fn model(&self, server: usize, url: &str) -> Result<String, Trouble> {
        let known = self.servers.serving.model.clone().or_else(|| lock(&self.states)[server].model.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let model = self.client.model(url)?;
        lock(&self.states)[server].model = Some(model.clone());
        Ok(model)
    }

    /// The least busy server that is not paused, waiting for one if need be; `None` if it was asked to stop.
    fn pick(&self) -> Option<(usize, bool)> {
        while !self.is_over() {
            let now = Instant::now();
            let mut states = lock(&self.states);
            let is_free = |state: &State| state.lost.is_none() && state.paused_until.is_none_or(|until| until <= now);
            let free = states.iter().enumerate().filter(|(_, state)| is_free(state));
            let least = free.min_by_key(|(_, state)| (state.busy, state.pauses)).map(|(server, _)| server);
            if let Some(server) = least {
                states[server].busy += 1;
                return Some((server, states[server].as_text));
            }
            drop(states);
            std::thread::sleep(MOMENT);
        }
        None
    }

    /// Pauses a server. Requests that failed together are one failure.
    fn pause(&self, state: &mut State, wait: Option<Duration>) {
        let now = Instant::now();
        let shortest = Duration::from_millis(self.servers.serving.pause_ms);
        let own = (shortest * (1 << state.pauses.min(10))).min(LONGEST_PAUSE);
        if state.paused_until.is_none_or(|until| until <= now) {
            state.pauses += 1;
        }
        let until = now + wait.unwrap_or(own);
        state.paused_until = Some(state.paused_until.map_or(until, |known| known.max(until)));
    }
}

/// How a turn went.
enum Turn {
    Answered(Answer),
    /// There is no further one, perhaps for a reason worth telling.
    Over(Option<String>),
    Stopped,
}
