//! A drafter that has to draft before anything is known of it.

use crate::drafter::{Drafter, Feedback};
use gorgon_core::mean_speed::MeanSpeed;

/// Plain steps that a trial may lose: it ends with the step in which it lost more.
const LOST: f64 = 1.0;
/// Steps that it rests for after its first trial.
const REST: usize = 64;
/// Steps that it rests for at most.
const LONGEST_REST: usize = 8192;

/// A drafter and its tree.
pub struct Tried {
    /// The drafter.
    pub drafter: Box<dyn Drafter>,
    /// Nodes and depth of its tree.
    pub tree: (usize, usize),
    /// Its steps that are measured before it is judged.
    pub trial: u32,
}

/// A drafter that is tried, with what is known of it.
pub(super) struct Trial {
    pub tried: Tried,
    pub feedback: Feedback,
    pub speed: MeanSpeed,
    /// Steps of the present trial that are left.
    pub left: u32,
    /// Plain steps that it lost.
    lost: f64,
    /// The step from which it may be tried again, while it rests.
    until: Option<usize>,
    rest: usize,
    /// Its steps in all, and their tokens.
    steps: usize,
    tokens: usize,
}

impl Trial {
    pub fn new(tried: Tried) -> Self {
        let (feedback, left) = (tried.drafter.needs().feedback, tried.trial);
        let speed = MeanSpeed::default();
        Self { tried, feedback, speed, left, lost: 0.0, until: None, rest: REST, steps: 0, tokens: 0 }
    }

    /// True if it does not rest in a step.
    pub fn is_up(&self, step: usize) -> bool {
        self.until.is_none_or(|until| step >= until)
    }

    /// Tokens that its steps emit in the time of a plain one, if that was found out.
    pub fn rate(&self, plain: f64) -> Option<f64> {
        self.speed.rate(1).filter(|_| self.left == 0).map(|rate| rate * plain)
    }

    /// Notes a step, and judges it at the end of the trial: where it does not pay it rests, the longer the more often
    /// it did not.
    pub fn add(&mut self, seconds: f64, emitted: usize, plain: f64, step: usize) {
        self.speed.add(seconds, emitted as f64);
        self.steps += 1;
        self.tokens += emitted;
        let was_tried = self.left > 0;
        self.left = self.left.saturating_sub(1);
        self.lost += seconds / plain - emitted as f64;
        if self.left > 0 && self.lost < LOST {
            return;
        }
        let (tokens, cost) = (self.speed.tokens(), self.speed.seconds() / plain);
        let name = self.tried.drafter.name();
        if tokens > cost {
            (self.left, self.lost, self.rest) = (0, 0.0, REST);
            if was_tried {
                self.until = None;
                tracing::debug!(name, tokens_per_step = tokens, cost, "drafting pays");
            }
            return;
        }
        tracing::debug!(name, tokens_per_step = tokens, cost, rest = self.rest, "drafting pauses");
        self.until = Some(step + self.rest);
        self.rest = (2 * self.rest).min(LONGEST_REST);
        (self.left, self.lost, self.speed) = (self.tried.trial, 0.0, MeanSpeed::default());
    }

    /// Logs its steps, of so many in all.
    pub fn report(&self, steps: usize) {
        let name = self.tried.drafter.name();
        if self.steps == 0 {
            return tracing::debug!(name, of = steps, "not tried: it had no drafts, or wrong ones would cost too much");
        }
        let per_step = self.tokens as f64 / self.steps as f64;
        let verdict = if self.left == 0 { "pays" } else { "does not pay, or is not known to" };
        tracing::debug!(name, drafted = self.steps, of = steps, tokens_per_step = per_step, verdict, "tried");
    }
}
