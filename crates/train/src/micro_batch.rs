//! A micro-batch that does not fit into memory is computed in halves.
//!
//! A step's loss is a sum over its conversations, divided by what the whole step weighs, so that the parts of a
//! micro-batch add up to the same loss and gradients as the whole: equal but for the order in which numbers are added.
//! What is cut depends on what did not fit in earlier steps, which checkpoints hold, and on sizes; never on threads or
//! time.

use crate::error::TrainError;
use crate::parameters::Parameter;
use crate::trainer::{Gradients, Objective};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// How large a micro-batch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Tokens of its conversations.
    pub tokens: usize,
    /// Bytes that it has at work, beside parameters, moments and gradients.
    pub bytes: u64,
}

/// What is known of the memory there is. Checkpoints hold it, so that a resumed run cuts what it would have cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Bytes of the smallest micro-batch that did not fit.
    pub too_large: Option<u64>,
    /// Whether micro-batches are computed one after another: two at once did not fit.
    #[serde(default)]
    pub one_at_a_time: bool,
    /// Whether it was said that micro-batches are larger than what is allowed.
    #[serde(skip)]
    told: bool,
}

/// The memory that a step's micro-batches have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub known: Known,
    /// Bytes that one micro-batch may have at work.
    pub limit: Option<u64>,
}

impl Room {
    /// The memory that each of `at_once` micro-batches has under a limit for all of fitting. It does not depend on the
    /// number of threads, so that what is cut does not either.
    ///
    /// # Errors
    /// When the limit leaves nothing for them.
    pub fn new(limit: Option<u64>, parameters: &[Parameter], at_once: usize, known: Known) -> Result<Self, TrainError> {
        let Some(limit) = limit else { return Ok(Self { known, limit: None }) };
        let fixed = fixed_bytes(parameters.iter().map(Parameter::len).sum(), at_once);
        let left = limit.checked_sub(fixed).filter(|left| *left > 0).ok_or_else(|| TrainError::Setting {
            key: "training.memory_limit_mb".into(),
            value: (limit / 1_000_000).to_string(),
            reason: format!("parameters, moments and gradients alone take {} MB", fixed.div_ceil(1_000_000)),
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
    room: Room,
    /// The smallest that did not fit in this step. Others learn of it in the next one, so that what is cut does not
    /// depend on which of them was first.
    found: Mutex<Option<Cut>>,
}

/// A micro-batch that was cut.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub size: Size,
    /// What the device said; `None` if it was larger than what is allowed.
    pub said: Option<String>,
}

impl Known {
    /// Remembers what did not fit. Returns what to say, if it is news.
    pub(crate) fn learn(&mut self, found: Option<Cut>, room: Room, step: u64) -> Option<String> {
        let Cut { size, said } = found?;
        let why = match said {
            // What is allowed is known without remembering it.
            None if self.told => return None,
            None => {
                self.told = true;
                format!("{} are its share", shown(room.limit.unwrap_or(0)))
            }
            Some(_) if self.too_large.is_some_and(|known| size.bytes >= known) => return None,
            Some(said) => {
                self.too_large = Some(size.bytes);
                said
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

/// `12.3 MB`, or `4.5 kB` below one.
pub(crate) fn shown(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

impl<'a, O: Objective> Step<'a, O> {
    pub fn new(objective: &'a O, weights: &'a [Tensor<1>], totals: &'a [f64], room: Room) -> Self {
        Self { objective, weights, totals, room, found: Mutex::new(None) }
    }

    /// The smallest that was cut without being known to be too large.
    pub fn found(self) -> Option<Cut> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of a micro-batch in the step's loss and gradients, in as many pieces as it takes; their order is that
    /// of its conversations.
    ///
    /// # Errors
    /// As of [`Objective::gradients`]; [`TrainError::Memory`] if a single conversation does not fit.
    pub fn gradients(&self, batch: &O::Batch) -> Result<Gradients, TrainError> {
        let size = self.objective.size(batch);
        let too_large = self.room.known.too_large.is_some_and(|known| size.bytes >= known);
        let halves = || self.objective.halves(batch);
        let said = match self.room.limit.is_some_and(|limit| size.bytes > limit) {
            true => None,
            // A single conversation is tried anyway: others may have been in its way.
            false if too_large && halves().is_some() => Some(String::new()),
            false => match self.attempt(batch) {
                Ok(done) => return done,
                Err(said) => Some(said),
            },
        };
        let halves = halves();
        if said.as_ref().is_none_or(|said| !said.is_empty()) && halves.is_some() {
            self.note(Cut { size, said: said.clone() });
        }
        match halves {
            Some((first, rest)) => Ok(self.gradients(&first)?.plus(self.gradients(&rest)?)),
            None => Err(TrainError::Memory {
                place: self.objective.place(batch),
                tokens: size.tokens,
                needed: size.bytes,
                there: self.room.limit,
                said: said.unwrap_or_default(),
            }),
        }
    }

    /// The error is what was said about the memory.
    fn attempt(&self, batch: &O::Batch) -> Result<Result<Gradients, TrainError>, String> {
        let compute = || -> Result<Gradients, TrainError> {
            let gradients = self.objective.gradients(self.weights, batch, self.totals)?;
            // Devices work ahead of what is asked of them: what does not fit is told when they are waited for.
            if let Some(weight) = self.weights.first().filter(|weight| !gorgon_kernels::host::is_host(&weight.device()))
            {
                weight.device().sync().map_err(|error| TrainError::Data(error.to_string()))?;
            }
            Ok(gradients)
        };
        match catch_unwind(AssertUnwindSafe(compute)) {
            Ok(Err(error)) if is_about_memory(&error.to_string()) => Err(error.to_string()),
            Ok(done) => Ok(done),
            Err(panic) => match message(&*panic).filter(|message| is_about_memory(message)) {
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

/// Whether a message of a device or a library says that there was not enough memory.
fn is_about_memory(message: &str) -> bool {
    let message = message.to_lowercase();
    ["out of memory", "out-of-memory", "out_of_memory", "outofmemory", "buffertoobig", "memory allocation of"]
        .iter()
        .any(|words| message.contains(words))
}

/// What a panic says.
pub(crate) fn message(panic: &(dyn Any + Send)) -> Option<String> {
    panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

impl Gradients {
    /// Both together: `self` comes first.
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.loss += other.loss;
        self.tokens += other.tokens;
        for (name, sum, weight) in other.counts {
            match self.counts.iter_mut().find(|(known, ..)| *known == name) {
                Some(known) => (known.1, known.2) = (known.1 + sum, known.2 + weight),
                None => self.counts.push((name, sum, weight)),
            }
        }
        self.gradients = self.gradients.into_iter().zip(other.gradients).map(|(a, b)| a + b).collect();
        self.not_finite = self.not_finite.or(other.not_finite);
        self
    }
}

#[cfg(test)]
mod tests;
