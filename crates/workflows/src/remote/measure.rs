//! A server's speed under several numbers of clients.

use super::client::{Client, Streamed};
use crate::failure::Failure;
use gorgon_runs::plot::{Chart, Series};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Requests to a server.
#[derive(Clone, Debug)]
pub struct Load {
    /// Conversations, each as its messages.
    pub prompts: Vec<Vec<Value>>,
    /// Requests with each number of clients.
    pub requests: usize,
    /// Fields of every request beside its messages.
    pub options: Value,
}

/// One answer as its client saw it.
#[derive(Clone, Debug, Default)]
struct Seen {
    first: Option<Duration>,
    /// From each piece of text to the next.
    gaps: Vec<f64>,
    tokens: f64,
    steps: f64,
    drafted: f64,
    accepted: f64,
}

/// A server with a number of clients. Times are in seconds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Clients at once.
    pub clients: usize,
    /// Answers that ended well, and those that did not.
    pub answers: usize,
    /// Answers that failed.
    pub failed: usize,
    /// New tokens of all answers over the time from the first request to the last answer.
    pub tokens_per_second: f64,
    /// Time to the first text: median, 95th percentile, 99th.
    pub first: [f64; 3],
    /// Time between pieces of text: median, 95th percentile, 99th.
    pub gaps: [f64; 3],
    /// New tokens per step, where the server says.
    pub tokens_per_step: Option<f64>,
    /// Accepted drafts of those that were made, where the server says.
    pub acceptance: Option<f64>,
}

impl Measured {
    /// For programs.
    pub fn document(&self) -> Value {
        let three = |[p50, p95, p99]: [f64; 3]| json!({"p50": p50, "p95": p95, "p99": p99});
        json!({
            "clients": self.clients, "answers": self.answers, "failed": self.failed,
            "tokens_per_second": self.tokens_per_second, "first_text_seconds": three(self.first),
            "between_texts_seconds": three(self.gaps), "tokens_per_step": self.tokens_per_step,
            "acceptance": self.acceptance,
        })
    }
}

/// Asks a server with so many clients at once, each of which asks again when it is answered.
///
/// # Errors
/// When no answer ended well: the first failure.
pub fn measure(client: &Client, load: &Load, clients: usize) -> Result<Measured, Failure> {
    let (next, seen, failures) = (AtomicUsize::new(0), Mutex::new(vec![]), Mutex::new(vec![]));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= load.requests {
                        return;
                    }
                    match one(client, &load.prompts[at % load.prompts.len()], &load.options) {
                        Ok(one) => seen.lock().unwrap_or_else(|error| error.into_inner()).push(one),
                        Err(failure) => failures.lock().unwrap_or_else(|error| error.into_inner()).push(failure),
                    }
                }
            });
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let seen = seen.into_inner().unwrap_or_else(|error| error.into_inner());
    let failures = failures.into_inner().unwrap_or_else(|error| error.into_inner());
    match failures.first().filter(|_| seen.is_empty()) {
        Some(failure) => Err(failure.clone()),
        None => Ok(summary(clients, &seen, failures.len(), seconds)),
    }
}

fn one(client: &Client, messages: &[Value], options: &Value) -> Result<Seen, Failure> {
    let (mut seen, begun, mut last) = (Seen::default(), Instant::now(), None);
    client.stream(messages, options, &mut |part| {
        let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        match part {
            Streamed::Text(..) => {
                let now = Instant::now();
                match last.replace(now) {
                    None => seen.first = Some(now - begun),
                    Some(before) => seen.gaps.push((now - before).as_secs_f64()),
                }
            }
            Streamed::Timings(timings) => {
                seen.steps = number(timings, "steps");
                (seen.drafted, seen.accepted) = (number(timings, "draft_n"), number(timings, "draft_n_accepted"));
            }
            Streamed::Usage(usage) => seen.tokens = number(usage, "completion_tokens"),
        }
        ControlFlow::Continue(())
    })?;
    Ok(seen)
}

fn summary(clients: usize, seen: &[Seen], failed: usize, seconds: f64) -> Measured {
    let sum = |of: fn(&Seen) -> f64| seen.iter().map(of).sum::<f64>();
    let (tokens, steps, drafted) = (sum(|one| one.tokens), sum(|one| one.steps), sum(|one| one.drafted));
    let first = seen.iter().filter_map(|one| Some(one.first?.as_secs_f64())).collect();
    Measured {
        clients,
        answers: seen.len(),
        failed,
        tokens_per_second: tokens / seconds,
        first: percentiles(first),
        gaps: percentiles(seen.iter().flat_map(|one| one.gaps.iter().copied()).collect()),
        // The first token of an answer is no step's.
        tokens_per_step: (steps > 0.0).then(|| (tokens - seen.len() as f64) / steps),
        acceptance: (drafted > 0.0).then(|| sum(|one| one.accepted) / drafted),
    }
}

/// The median, the 95th and the 99th percentile; 0 of nothing.
fn percentiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    };
    [at(0.5), at(0.95), at(0.99)]
}

/// Throughput over clients.
pub fn chart(model: &str, measured: &[Measured]) -> Chart {
    let points = measured.iter().map(|one| (one.clients as f64, one.tokens_per_second)).collect();
    Chart {
        title: format!("{model}: throughput"),
        x_label: "clients at once".into(),
        y_label: "tokens/s".into(),
        series: vec![Series { name: "all clients".into(), points }],
        log_y: false,
    }
}

#[cfg(test)]
mod tests;
