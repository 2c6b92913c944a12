//! The queue as a feed of the generation loop.

use super::active::{Active, Broken};
use super::slots::Slots;
use crate::api::error::ApiError;
use crate::job::Job;
use crate::metrics::Metrics;
use crate::outbox;
use crate::queue::Queue;
use gorgon_infer::{DecodeError, Event, Feed, Generation, Pace, Request, StepOutcome, StepTimes};
use gorgon_text::tokenizer::Tokenizer;
use std::ops::ControlFlow;

/// Speed-ups are reported once in so many steps.
const REPORTED: u64 = 32;

/// The answers that are being decoded, by slot, and those that wait.
pub(super) struct Answers<'a> {
    queue: &'a Queue,
    metrics: &'a Metrics,
    tokenizer: &'a Tokenizer,
    slots: Slots,
    /// Answers decoded at once at most.
    batch: usize,
    /// Jobs that have a slot and wait for the loop to ask for them.
    planned: Vec<Option<Job>>,
    active: Vec<Option<Active>>,
    abandoned: bool,
    /// The free slot that was asked last.
    asked: usize,
    version: Version<'a>,
}

/// How often the drafter's weights were replaced, now and as the slots know.
struct Version<'a> {
    now: Option<&'a dyn Fn() -> u64>,
    known: u64,
}

impl Version<'_> {
    /// Whether they were replaced since this was last asked.
    fn is_newer(&mut self) -> bool {
        let now = self.now.map_or(0, |now| now());
        std::mem::replace(&mut self.known, now) != now
    }
}

impl<'a> Answers<'a> {
    /// No answer yet. `version` counts how often the drafter's weights were replaced.
    pub fn new(
        queue: &'a Queue,
        metrics: &'a Metrics,
        tokenizer: &'a Tokenizer,
        (slots, batch, rows): (usize, usize, usize),
        version: Option<&'a dyn Fn() -> u64>,
    ) -> Self {
        let (planned, active) = ((0..slots).map(|_| None).collect(), (0..slots).map(|_| None).collect());
        let slots = Slots::new(slots, rows);
        let version = Version { now: version, known: version.map_or(0, |now| now()) };
        Self { queue, metrics, tokenizer, slots, batch, planned, active, abandoned: false, asked: usize::MAX, version }
    }

    /// Whether jobs have a slot and were not begun.
    pub fn has_planned(&self) -> bool {
        self.planned.iter().any(Option::is_some)
    }

    /// Gives waiting jobs slots, first come, first served: one that does not fit yet keeps later ones waiting.
    fn plan(&mut self) {
        if self.version.is_newer() {
            self.slots.outdate();
            self.metrics.renewals.add(1);
        }
        while self.slots.busy() < self.batch {
            let slots = &mut self.slots;
            let mut found = None;
            let job = self.queue.pop_if(|job| {
                found = slots.take(&job.prompt, job.rows());
                found.is_some()
            });
            let (Some(job), Some(slot)) = (job, found) else { break };
            self.planned[slot] = Some(job);
        }
        self.metrics.queued.set(self.queue.len());
        self.gauges();
    }

    fn gauges(&self) {
        self.metrics.running.set(self.slots.busy());
        self.metrics.sessions.set(self.slots.kept());
        self.metrics.rows_used.set(self.slots.rows_used());
    }

    /// Fails everything that is under way, after an error that ended the loop. All caches are to be new.
    pub fn fail(&mut self, message: &str) {
        let planned = self.planned.iter_mut().filter_map(Option::take).map(|job| job.outbox);
        let active = self.active.iter_mut().filter_map(Option::take).map(|active| active.job.outbox);
        for outbox in planned.chain(active) {
            self.metrics.failed.add(1);
            outbox.send(outbox::Event::Failed(ApiError::server(message)));
        }
        self.slots.clear();
        self.gauges();
    }
}

impl Feed<'static> for Answers<'_> {
    type Error = DecodeError;

    fn forgets(&mut self, slot: usize) -> bool {
        // Slots are asked in order: a lower one begins a new round.
        if slot <= self.asked {
            self.plan();
        }
        self.asked = slot;
        self.slots.forgets(slot)
    }

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'static>>, DecodeError> {
        let Some(job) = self.planned[slot].take() else { return Ok(None) };
        self.abandoned = self.queue.is_abandoned();
        let active = Active::new(job, self.tokenizer);
        let request = active.request();
        self.active[slot] = Some(active);
        Ok(Some(request))
    }

    fn wanted(&mut self, slot: usize) -> bool {
        let abandoned = self.queue.is_abandoned();
        self.active[slot].as_mut().is_some_and(|active| active.check(abandoned))
    }

    fn is_answer(&mut self, slot: usize) -> bool {
        self.active[slot].as_ref().is_some_and(Active::is_stopped)
    }

    fn measured(&mut self, sequences: usize, times: &StepTimes, pace: Option<&Pace>) {
        self.metrics.step(sequences, times);
        if let Some(pace) = pace.filter(|_| self.metrics.steps.get().is_multiple_of(REPORTED)) {
            self.metrics.set_speedups(pace.speedups().collect());
        }
        self.abandoned = self.queue.is_abandoned();
    }

    fn stepped(&mut self, slot: usize, outcome: &StepOutcome) {
        self.metrics.outcome(outcome);
        if let Some(active) = &mut self.active[slot] {
            active.stepped(outcome);
        }
    }

    fn event(&mut self, slot: usize, event: Event) -> ControlFlow<()> {
        let Some(active) = &mut self.active[slot] else { return ControlFlow::Break(()) };
        let Some(token) = event.token() else {
            self.metrics.first_token(active.job.arrived.elapsed());
            return ControlFlow::Continue(());
        };
        self.metrics.tokens.add(1);
        let drafted = matches!(event, Event::Drafted(_));
        if !active.push(token, drafted) {
            return ControlFlow::Break(());
        }
        // Only the last token of a step is no draft.
        if !drafted {
            active.flush();
            if !active.check(self.abandoned) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn finished(&mut self, slot: usize, generation: Generation) -> Result<(), DecodeError> {
        let Some(active) = self.active[slot].take() else { return Ok(()) };
        // The last token is emitted and not read.
        let emitted = &generation.ids[..generation.ids.len().saturating_sub(1)];
        let held = match generation.ids.is_empty() {
            // How much was read is not known here; whatever it is, the session knows.
            true => vec![],
            false => [active.job.prompt.as_slice(), emitted].concat(),
        };
        let reused = active.job.prompt.len().saturating_sub(generation.read);
        self.metrics.prompt_read.add(generation.read);
        self.metrics.prompt_reused.add(if generation.ids.is_empty() { 0 } else { reused });
        let ended = active.finish(&generation);
        match ended.broken {
            None => self.metrics.answers.add(1),
            Some(Broken::Cancelled) => self.metrics.cancelled.add(1),
            Some(Broken::Failed(_)) => self.metrics.failed.add(1),
        }
        self.slots.release(slot, held);
        self.gauges();
        // Whoever has the answer finds it counted.
        ended.tell();
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}
