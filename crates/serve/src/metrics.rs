//! Counters and gauges in Prometheus' text format.

use gorgon_infer::{StepOutcome, StepTimes};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Depths whose acceptance is counted.
const DEPTHS: usize = 32;
/// Shortest time over which a rate is taken.
const WINDOW: Duration = Duration::from_secs(1);

/// A counter, or a gauge.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub fn add(&self, number: usize) {
        self.0.fetch_add(number as u64, Ordering::Relaxed);
    }

    pub fn set(&self, number: usize) {
        self.0.store(number as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A rate between two looks at a counter.
#[derive(Debug)]
struct Rate {
    since: Instant,
    count: u64,
    last: f64,
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub answers: Count,
    pub failed: Count,
    pub cancelled: Count,
    pub refused: Count,
    pub queued: Count,
    pub running: Count,
    pub connections: Count,
    pub tokens: Count,
    pub steps: Count,
    pub sequence_steps: Count,
    pub prompt_read: Count,
    pub prompt_reused: Count,
    pub rows_used: Count,
    pub rows_capacity: Count,
    pub sessions: Count,
    pub renewals: Count,
    drafted_steps: Count,
    drafted: Count,
    step_micros: Count,
    draft_micros: Count,
    accepted: [Count; DEPTHS],
    first_token_micros: Count,
    first_tokens: Count,
    speedups: Mutex<Vec<(usize, f64)>>,
    rate: Mutex<Rate>,
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        let zero = Count::default;
        Self {
            answers: zero(),
            failed: zero(),
            cancelled: zero(),
            refused: zero(),
            queued: zero(),
            running: zero(),
            connections: zero(),
            tokens: zero(),
            steps: zero(),
            sequence_steps: zero(),
            prompt_read: zero(),
            prompt_reused: zero(),
            rows_used: zero(),
            rows_capacity: zero(),
            sessions: zero(),
            renewals: zero(),
            drafted_steps: zero(),
            drafted: zero(),
            step_micros: zero(),
            draft_micros: zero(),
            accepted: std::array::from_fn(|_| zero()),
            first_token_micros: zero(),
            first_tokens: zero(),
            speedups: Mutex::default(),
            rate: Mutex::new(Rate { since: Instant::now(), count: 0, last: 0.0 }),
        }
    }

    /// Counts a step of some sequences.
    pub fn step(&self, sequences: usize, times: &StepTimes) {
        self.steps.add(1);
        self.sequence_steps.add(sequences);
        self.step_micros.add(times.total().as_micros() as usize);
        self.draft_micros.add(times.draft.0.as_micros() as usize);
    }

    /// Counts what a step brought one sequence.
    pub fn outcome(&self, outcome: &StepOutcome) {
        if outcome.nodes > 1 {
            self.drafted_steps.add(1);
            self.drafted.add(outcome.nodes - 1);
            self.accepted.iter().take(outcome.accepted).for_each(|depth| depth.add(1));
        }
    }

    /// Counts the time from a request's arrival to its first token.
    pub fn first_token(&self, time: Duration) {
        self.first_tokens.add(1);
        self.first_token_micros.add(time.as_micros() as usize);
    }

    /// Takes note of speed-ups over plain decoding, by the number of sequences.
    pub fn set_speedups(&self, speedups: Vec<(usize, f64)>) {
        *self.speedups.lock().unwrap_or_else(PoisonError::into_inner) = speedups;
    }

    /// Tokens per second since the last look that is at least a second ago.
    fn tokens_per_second(&self) -> f64 {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, time) = (self.tokens.get(), rate.since.elapsed());
        if time >= WINDOW {
            let last = (count - rate.count) as f64 / time.as_secs_f64();
            *rate = Rate { since: Instant::now(), count, last };
        }
        rate.last
    }

    /// Everything as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let whole = |count: &Count| count.get() as f64;
        let seconds = |count: &Count| count.get() as f64 / 1e6;
        let per = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let counters = [
            ("answers_total", "Answers that ended well", whole(&self.answers)),
            ("answers_failed_total", "Answers that failed", whole(&self.failed)),
            ("answers_cancelled_total", "Answers whose client left", whole(&self.cancelled)),
            ("requests_refused_total", "Requests refused because the queue was full", whole(&self.refused)),
            ("tokens_total", "New tokens", whole(&self.tokens)),
            ("steps_total", "Steps of the batch", whole(&self.steps)),
            ("sequence_steps_total", "Steps, each sequence counted", whole(&self.sequence_steps)),
            ("step_seconds_total", "Time of all steps", seconds(&self.step_micros)),
            ("draft_seconds_total", "The part of it that drafting took", seconds(&self.draft_micros)),
            ("prompt_tokens_read_total", "Prompt tokens that were read", whole(&self.prompt_read)),
            ("prompt_tokens_reused_total", "Prompt tokens that a cache knew", whole(&self.prompt_reused)),
            ("drafted_steps_total", "Drafted steps, each sequence counted", whole(&self.drafted_steps)),
            ("drafted_tokens_total", "Drafted tokens", whole(&self.drafted)),
            ("drafter_renewals_total", "Times that newer weights of the drafter were taken up", whole(&self.renewals)),
            ("first_token_seconds_sum", "Time from arrival to the first token", seconds(&self.first_token_micros)),
            ("first_token_seconds_count", "Answers with a first token", whole(&self.first_tokens)),
        ];
        let decoded = whole(&self.tokens) - whole(&self.first_tokens);
        let gauges = [
            ("queue", "Answers that wait", whole(&self.queued)),
            ("batch", "Answers that are read or decoded", whole(&self.running)),
            ("connections", "Open connections", whole(&self.connections)),
            ("sessions", "Conversations whose cache is kept", whole(&self.sessions)),
            ("kv_rows_used", "Rows of all caches that are in use", whole(&self.rows_used)),
            ("kv_rows_capacity", "Rows of all caches at most", whole(&self.rows_capacity)),
            ("tokens_per_second", "New tokens per second since the last look", self.tokens_per_second()),
            ("tokens_per_step", "New tokens per sequence and step", per(decoded, whole(&self.sequence_steps))),
            ("mean_batch", "Sequences per step", per(whole(&self.sequence_steps), whole(&self.steps))),
        ];
        counters.iter().for_each(|(name, help, value)| entry(&mut out, "counter", name, help, *value));
        gauges.iter().for_each(|(name, help, value)| entry(&mut out, "gauge", name, help, *value));
        self.labelled(&mut out);
        out
    }

    /// Acceptance by depth, and speed-ups by batch size.
    fn labelled(&self, out: &mut String) {
        head(out, "counter", "accepted_total", "Drafted steps in which a draft of this depth was accepted");
        for (depth, count) in self.accepted.iter().enumerate().filter(|(_, count)| count.get() > 0) {
            let _ = writeln!(out, "gorgon_accepted_total{{depth=\"{}\"}} {}", depth + 1, count.get());
        }
        head(out, "gauge", "speedup", "Tokens per second over those of plain steps, by sequences at most");
        for (sequences, speedup) in self.speedups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(out, "gorgon_speedup{{sequences=\"{sequences}\"}} {speedup}");
        }
    }
}

fn head(out: &mut String, kind: &str, name: &str, help: &str) {
    let _ = writeln!(out, "# HELP gorgon_{name} {help}.\n# TYPE gorgon_{name} {kind}");
}

fn entry(out: &mut String, kind: &str, name: &str, help: &str, value: f64) {
    head(out, kind, name, help);
    let _ = writeln!(out, "gorgon_{name} {value}");
}
