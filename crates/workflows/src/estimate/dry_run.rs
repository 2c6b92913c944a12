//! Memory and time of fitting, estimated from a few discarded steps.

use super::memory::{Pool, Watch};
use crate::failure::Failure;
use crate::settings::Settings;
use gorgon_train::micro_batch;
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{DryRun, FitSettings, Objective, Purpose};
use std::cmp::Reverse;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The cost of fitting, by formulas and by a few discarded steps.
#[derive(Clone, Copy, Debug)]
pub struct FittingCost {
    /// Bytes by formula.
    pub by_formula: u64,
    /// Bytes, as the largest step takes them; by formula where the system does not tell.
    pub memory: u64,
    /// Bytes of a micro-batch at work.
    pub at_work: u64,
    /// Seconds of all steps.
    pub seconds: f64,
}

impl FittingCost {
    /// Estimates memory and time from a few discarded steps: the first few, the largest ones of `steps`, and an
    /// evaluation on the held-out data of `objective`, for which a few of the longest conversations will do
    /// ([`longest`]). What is resident then is what fitting will take. Every step fragments a GPU's `pool` a little
    /// more, so there all of the largest steps are run, however long they take.
    ///
    /// # Errors
    /// When the data cannot be read, the backbone fails, or a single conversation does not fit into memory.
    pub fn measure<O: Objective>(
        objective: &O,
        fit: &FitSettings,
        steps: impl Iterator<Item = u64>,
        pool: Option<&Pool>,
    ) -> Result<Self, Failure> {
        let parameters: usize = objective.parameters(0).iter().map(Parameter::len).sum();
        let largest = Largest::of(objective, steps)?;
        let fixed = micro_batch::fixed_bytes(parameters, largest.at_once);
        // Discarded steps do without the data that is kept between steps.
        let held = objective.held_bytes() * largest.at_once as u64;
        let by_formula = fixed + largest.steps.first().map_or(0, |(bytes, _)| *bytes);
        let watch = Watch::start();
        let seconds = dry_run_seconds(objective, fit, &largest, pool.is_some())?;
        let memory = watch.peak().unwrap_or(by_formula) + held;
        let by_formula = by_formula + held;
        let at_work = memory.saturating_sub(fixed + held) / rayon::current_num_threads() as u64;
        Ok(Self { by_formula, memory, at_work, seconds })
    }
}

/// The largest steps.
struct Largest {
    /// Bytes of what is at work together, and the step, the largest first.
    steps: Vec<(u64, u64)>,
    /// Micro-batches of a step at most.
    at_once: usize,
}

impl Largest {
    fn of<O: Objective>(objective: &O, steps: impl Iterator<Item = u64>) -> Result<Self, Failure> {
        let mut largest = Self { steps: vec![], at_once: 0 };
        for step in steps {
            let batches = objective.batches(step).map_err(Failure::training)?;
            largest.at_once = largest.at_once.max(batches.len());
            let mut sizes: Vec<u64> = batches.iter().map(|batch| objective.size(batch).bytes).collect();
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            largest.steps.push((sizes.iter().take(rayon::current_num_threads()).sum(), step));
            largest.steps.sort_by_key(|(bytes, _)| Reverse(*bytes));
            largest.steps.truncate(LARGEST_RUN);
        }
        Ok(largest)
    }
}

/// Runs steps that represent all of them and discards the results; if `patiently`, all of the largest ones. Returns
/// the seconds of all steps.
fn dry_run_seconds<O: Objective>(
    objective: &O,
    fit: &FitSettings,
    largest: &Largest,
    patiently: bool,
) -> Result<f64, Failure> {
    let timed = |phase: &Range<u64>| phase.start..phase.end.min(phase.start + STEPS_RUN);
    let phases = objective.phases(fit.schedule.steps);
    let largest: Vec<u64> = largest.steps.iter().map(|(_, step)| *step).collect();
    let started = Instant::now();
    let has_time = || started.elapsed() < LONGEST_RUN;
    let mut dry_run = DryRun::new(objective, fit);
    let mut seconds = 0.0;
    for phase in &phases {
        let steps: Vec<u64> = timed(phase).collect();
        let preparing = dry_run.prepare(&steps, Purpose::Time).map_err(Failure::training)?;
        seconds += preparing * (phase.end - phase.start) as f64;
        let mut taken = vec![];
        for step in timed(phase).filter(|step| *step < phase.start + 2 || has_time()) {
            taken.push(dry_run.step(step).map_err(Failure::training)?);
        }
        seconds += typical(taken) * (phase.end - phase.start) as f64;
    }
    // Micro-batches side by side rarely need the most at the same moment: several steps are tried.
    dry_run.prepare(&largest, Purpose::Memory).map_err(Failure::training)?;
    for (_, step) in largest.iter().enumerate().filter(|(i, _)| *i == 0 || patiently || has_time()) {
        dry_run.step(*step).map_err(Failure::training)?;
    }
    dry_run.evaluate().map_err(Failure::training)?;
    Ok(seconds)
}

/// The middle of some steps' seconds, of which the first warms up.
fn typical(mut seconds: Vec<f64>) -> f64 {
    if seconds.len() > 1 {
        seconds.remove(0);
    }
    gorgon_bench::median(seconds).unwrap_or(0.0)
}

/// The longest of some conversations, as many as are measured on at once.
pub fn longest<T: Clone>(conversations: &[T], tokens: impl Fn(&T) -> usize) -> Vec<T> {
    let mut all: Vec<&T> = conversations.iter().collect();
    all.sort_by_key(|conversation| Reverse(tokens(conversation)));
    all.into_iter().take(rayon::current_num_threads()).cloned().collect()
}

impl FittingCost {
    /// The cost on all devices that train together, from that on one. On the CPU each of them has parameters, moments and a
    /// sum of gradients of its own, and threads whose buffers hold as much as a micro-batch at work; all share what
    /// stays as it is. Other devices share the work.
    pub fn divided(self, parameters: usize, settings: &Settings, micro_batches: usize) -> Self {
        let more = (settings.copies() as u64 - 1) * (4 * 4 * parameters as u64 + self.at_work);
        Self {
            by_formula: self.by_formula + more,
            memory: self.memory + more,
            at_work: self.at_work,
            seconds: self.seconds * share_of_time(settings, micro_batches),
        }
    }
}

/// The part of a step's time on one device that it takes on all that fit together.
pub fn share_of_time(settings: &Settings, micro_batches: usize) -> f64 {
    let devices = settings.together.len().max(1);
    let (all, most) = (micro_batches.max(1), micro_batches.max(1).div_ceil(devices));
    if settings.copies() < devices { most as f64 / all as f64 } else { 1.0 }
}

/// Steps of each phase that are run before a plan is made, for the time they take.
const STEPS_RUN: u64 = 4;
/// The largest steps that are run before, for the memory they take.
const LARGEST_RUN: usize = 4;
/// After so long no more steps are run than have to be.
const LONGEST_RUN: Duration = Duration::from_secs(60);
