//! A micro-batch that does not fit into memory is computed in halves.
//!
//! A step's loss is a sum over its conversations, divided by the weight of the whole step. So the parts of a
//! micro-batch add up to the same loss and gradients as the whole, apart from the order in which numbers are added.
//! Cuts depend on sizes and on the limits found in earlier steps, which checkpoints hold. They never depend on threads
//! or time.

use crate::error::{TrainError, panic_message, shown};
use crate::parameters::Parameter;
use crate::trainer::objective::{Gradients, Objective, Size};
use burn::tensor::Tensor;
use gorgon_draft::settings::SettingsError;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// Memory limits found so far. Checkpoints hold them, so a resumed run makes the same cuts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Bytes of the smallest micro-batch that did not fit.
    pub too_large: Option<u64>,
    /// Whether micro-batches are computed one after another: two at once did not fit.
    #[serde(default)]
    pub one_at_a_time: bool,
    /// Whether it was reported that micro-batches are larger than their limit.
    #[serde(skip)]
    reported: bool,
}

/// The memory that a step's micro-batches have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MicroBatchLimit {
    pub known: Known,
    /// Bytes that one micro-batch may have at work.
    pub limit: Option<u64>,
}

impl MicroBatchLimit {
    /// The memory that each of `at_once` micro-batches has under a limit for all of fitting, of which data between steps
    /// takes `held` bytes. It does not depend on the number of threads, so cuts do not either.
    ///
    /// # Errors
    /// When the limit leaves nothing for them.
    pub fn new(
        limit: Option<u64>,
        parameters: &[Parameter],
        (at_once, held): (usize, u64),
        known: Known,
    ) -> Result<Self, TrainError> {
        let Some(limit) = limit else { return Ok(Self { known, limit: None }) };
        let fixed = fixed_bytes(parameters.iter().map(Parameter::len).sum(), at_once);
        let left = limit.checked_sub(fixed + held).filter(|left| *left > 0).ok_or_else(|| {
            let mb = |bytes: u64| bytes.div_ceil(1_000_000);
            let mut reason = format!("parameters, moments and gradients alone take {} MB", mb(fixed));
            if held > 0 {
                reason += &format!(", and training.shuffle_buffer {} MB", mb(held));
            }
            SettingsError::new("training.memory_limit_mb", limit / 1_000_000, reason)
        })?;
        let sharing = if known.one_at_a_time { 1 } else { at_once.max(1) as u64 };
        Ok(Self { known, limit: Some(left / sharing) })
    }
}

/// A step, as its micro-batches see it.
pub(crate) struct Step<'a, O: Objective> {
    objective: &'a O,
    weights: &'a [Tensor<1>],
    totals: &'a [f64],
    limits: MicroBatchLimit,
    /// The smallest micro-batch that did not fit in this step. It takes effect in the next step, so cuts do not depend
    /// on which micro-batch was first.
    found: Mutex<Option<Cut>>,
}

/// A micro-batch that was cut.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub size: Size,
    /// The device's message; `None` if the micro-batch was larger than its limit.
    pub message: Option<String>,
}

impl Known {
    /// Remembers a cut. Returns a message for the user, if it is news.
    pub(crate) fn learn(&mut self, found: Option<Cut>, limits: MicroBatchLimit, step: u64) -> Option<String> {
        let Cut { size, message } = found?;
        let why = match message {
            // The limit is known without remembering it.
            None if self.reported => return None,
            None => {
                self.reported = true;
                format!("{} are its share", shown(limits.limit.unwrap_or(0)))
            }
            Some(_) if self.too_large.is_some_and(|known| size.bytes >= known) => return None,
            Some(message) => {
                self.too_large = Some(size.bytes);
                message
            }
        };
        Some(format!(
            "step {}: a micro-batch of {} tokens, {} at work, does not fit into memory ({why}): from here on such ones are \
             computed in halves, which add up to the same loss",
            step + 1,
            size.tokens,
            shown(size.bytes)
        ))
    }
}

/// Bytes of parameters, of their two moments, of a set of gradients for each micro-batch of a step, and of their sum.
pub fn fixed_bytes(parameters: usize, micro_batches: usize) -> u64 {
    4 * parameters as u64 * (4 + micro_batches as u64)
}

impl<'a, O: Objective> Step<'a, O> {
    pub fn new(objective: &'a O, weights: &'a [Tensor<1>], totals: &'a [f64], limits: MicroBatchLimit) -> Self {
        Self { objective, weights, totals, limits, found: Mutex::new(None) }
    }

    /// The smallest that was cut without being known to be too large.
    pub fn found(self) -> Option<Cut> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of a micro-batch in the step's loss and gradients. It is computed in as many pieces as it takes, in the
    /// order of its conversations.
    ///
    /// # Errors
    /// As of [`Objective::gradients`]; [`TrainError::Memory`] if a single conversation does not fit.
    pub fn gradients(&self, batch: &O::Batch) -> Result<Gradients, TrainError> {
        let size = self.objective.size(batch);
        let too_large = self.limits.known.too_large.is_some_and(|known| size.bytes >= known);
        let halves = || self.objective.halves(batch);
        let message = match self.limits.limit.is_some_and(|limit| size.bytes > limit) {
            true => None,
            // A single conversation is tried anyway: others may have been in its way.
            false if too_large && halves().is_some() => Some(String::new()),
            false => match self.attempt(batch) {
                Ok(done) => return done,
                Err(message) => Some(message),
            },
        };
        let halves = halves();
        if message.as_ref().is_none_or(|message| !message.is_empty()) && halves.is_some() {
            self.note(Cut { size, message: message.clone() });
        }
        match halves {
            Some((first, other)) => Ok(self.gradients(&first)?.plus(self.gradients(&other)?)),
            None => Err(TrainError::Memory {
                place: self.objective.place(batch),
                tokens: size.tokens,
                needed: size.bytes,
                available: self.limits.limit,
                reported: message.unwrap_or_default(),
            }),
        }
    }

    /// Computes a micro-batch as a whole. The outer error is a message about missing memory.
    fn attempt(&self, batch: &O::Batch) -> Result<Result<Gradients, TrainError>, String> {
        let compute = || -> Result<Gradients, TrainError> {
            let gradients = self.objective.gradients(self.weights, batch, self.totals)?;
            // Devices queue work and report missing memory when they are waited for.
            if let Some(weight) = self.weights.first().filter(|weight| !gorgon_kernels::host::is_host(&weight.device()))
            {
                weight.device().sync().map_err(|error| TrainError::Data(error.to_string()))?;
            }
            Ok(gradients)
        };
        match catch_unwind(AssertUnwindSafe(compute)) {
            Ok(Err(error)) if is_about_memory(&error.to_string()) => Err(error.to_string()),
            Ok(done) => Ok(done),
            Err(panic) => match panic_message(&*panic).filter(|message| is_about_memory(message)) {
                Some(message) => Err(message),
                None => resume_unwind(panic),
            },
        }
    }

    fn note(&self, cut: Cut) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.as_ref().is_none_or(|known| cut.size.bytes < known.size.bytes) {
            *found = Some(cut);
        }
    }
}

/// Whether a message of a device or a library is about missing memory.
fn is_about_memory(message: &str) -> bool {
    let message = message.to_lowercase();
    ["out of memory", "out-of-memory", "out_of_memory", "outofmemory", "buffertoobig", "memory allocation of"]
        .iter()
        .any(|words| message.contains(words))
}

#[cfg(test)]
mod tests;
