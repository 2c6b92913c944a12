//! What a long job will take, said before it begins, and what it took, said when it is done.

use crate::error::Failure;
use crate::fitting::{self, duration};
use crate::printer::bytes;
use crate::settings::Settings;
use gorgon_model::device::Compute;
use gorgon_train::micro_batch;
use gorgon_train::parameters::Parameter;
use gorgon_train::trainer::{DryRun, FitSettings, Objective, Purpose, Spent};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// The file in a run folder that holds both.
pub const RESULTS: &str = "results.json";

/// What a job will take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Bytes in memory, beside what was resident before.
    pub memory: u64,
    /// Bytes that were resident before, where the system tells: program and backbone.
    pub before: Option<u64>,
    /// The same by formulas alone.
    pub memory_by_formula: u64,
    /// Bytes in a GPU's pool beyond what was there before, where it tells.
    pub pool: Option<u64>,
    /// Bytes on the disk.
    pub disk: Disk,
    /// Seconds of work, evaluations apart; `None` where nothing was timed.
    pub seconds: Option<f64>,
}

/// What a job will leave on the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk {
    /// Bytes of a checkpoint.
    pub checkpoint: u64,
    /// Checkpoints in the end, unless the best one is older than those.
    pub checkpoints: u64,
    /// Bytes of everything else.
    pub rest: u64,
}

impl Disk {
    /// A run's checkpoints; `moments` and `parameters` are numbers of values in them, of `tensors` parameters.
    pub fn of_run(parameters: usize, moments: usize, tensors: usize, fit: &FitSettings) -> Self {
        // Names, shapes and places in the header of a safetensors file take about this much, three times for each
        // parameter.
        let header = 110 * 3 * tensors as u64;
        let saved = |every: u64| fit.schedule.steps.checked_div(every).unwrap_or(0);
        let saves = saved(fit.save_every).max(saved(fit.eval_every)).max(1);
        Self {
            checkpoint: 4 * (parameters + moments) as u64 + header,
            checkpoints: saves.min(fit.save_total_limit as u64),
            rest: 0,
        }
    }

    /// Bytes with so many checkpoints.
    fn with(&self, checkpoints: u64) -> u64 {
        self.checkpoint * checkpoints + self.rest
    }

    /// Bytes in the end.
    pub fn bytes(&self) -> u64 {
        self.with(self.checkpoints)
    }

    /// In words.
    pub fn words(&self) -> String {
        match self.checkpoint {
            0 => format!("disk {}", bytes(self.bytes())),
            one => format!("disk {} ({} more if the best checkpoint is an old one)", bytes(self.bytes()), bytes(one)),
        }
    }
}

/// What fitting takes, told by formulas and by steps that are run before.
#[derive(Clone, Copy, Debug)]
pub struct Fitting {
    /// Bytes by formula.
    pub by_formula: u64,
    /// Bytes, as the largest step takes them; by formula where the system does not tell.
    pub memory: u64,
    /// Bytes of a micro-batch at work.
    pub at_work: u64,
    /// Seconds of all steps.
    pub seconds: f64,
}

impl Fitting {
    /// Runs and discards the first few steps, the largest ones of `steps`, which have the most at work together, and an
    /// evaluation on what `objective` has as held-out data, for which a few of the longest conversations will do
    /// ([`longest`]): what is resident then is what fitting will take. A GPU's `pool` is cut up by every step a little
    /// more, so however long they take, all of the largest ones are run there.
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
        let by_formula = fixed + largest.steps.first().map_or(0, |(bytes, _)| *bytes);
        let watch = Watch::start();
        let seconds = dry_run_seconds(objective, fit, &largest, pool.is_some())?;
        let memory = watch.peak().unwrap_or(by_formula);
        let at_work = memory.saturating_sub(fixed) / rayon::current_num_threads() as u64;
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
            let batches = objective.batches(step).map_err(fitting::failure)?;
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

/// Runs what tells of all steps and forgets it; if `patiently`, all of the largest ones. Returns the seconds of all
/// steps.
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
    let there_is_time = || started.elapsed() < LONGEST_RUN;
    let mut dry_run = DryRun::new(objective, fit);
    let mut seconds = 0.0;
    for phase in &phases {
        let steps: Vec<u64> = timed(phase).collect();
        let preparing = dry_run.prepare(&steps, Purpose::Time).map_err(fitting::failure)?;
        seconds += preparing * (phase.end - phase.start) as f64;
        let mut taken = vec![];
        for step in timed(phase).filter(|step| *step < phase.start + 2 || there_is_time()) {
            taken.push(dry_run.step(step).map_err(fitting::failure)?);
        }
        seconds += typical(taken) * (phase.end - phase.start) as f64;
    }
    // Micro-batches side by side rarely need the most at the same moment: several steps are tried.
    dry_run.prepare(&largest, Purpose::Memory).map_err(fitting::failure)?;
    for (_, step) in largest.iter().enumerate().filter(|(i, _)| *i == 0 || patiently || there_is_time()) {
        dry_run.step(*step).map_err(fitting::failure)?;
    }
    dry_run.evaluate().map_err(fitting::failure)?;
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

impl Fitting {
    /// What was told on one device, for all that fit together. On the CPU each of them has parameters, moments and a
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

/// A look at what a GPU's memory pool holds, over some time.
#[derive(Clone, Debug)]
pub struct Pool {
    compute: Compute,
    /// Bytes that it held when the look began.
    before: u64,
}

impl Pool {
    /// From now on; `None` on the CPU.
    pub fn of(compute: &Compute) -> Option<Self> {
        compute.pool_bytes().map(|before| Self { compute: compute.clone(), before })
    }

    /// What it holds now beyond what it held when this began: a pool keeps what it was given, so that is the most that
    /// was needed since, unless it was made to give something back.
    pub fn grown(&self) -> u64 {
        self.compute.pool_bytes().unwrap_or(0).saturating_sub(self.before)
    }

    /// Has it give back what nobody uses.
    pub fn shrink(&self) {
        self.compute.shrink_pool();
    }
}

/// A look at this process's memory over some time.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Bytes that were resident when it began.
    before: Option<u64>,
}

impl Watch {
    /// From now on.
    pub fn start() -> Self {
        gorgon_bench::allocations::hand_back();
        // 5 asks the system to forget the peak so far. Where it cannot, there is nothing to compare with.
        let forgotten = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        Self { before: resident("VmRSS:").filter(|_| forgotten) }
    }

    /// Forgets the peak so far, and what it left: what was resident when it began stays what it compares with.
    pub fn forget_peak(&self) {
        Self::start();
    }

    /// What is resident now beyond what was when it began.
    pub fn grown(&self) -> Option<u64> {
        gorgon_bench::allocations::hand_back();
        Some(resident("VmRSS:")?.saturating_sub(self.before?))
    }

    /// What was resident when it began.
    pub fn before(&self) -> Option<u64> {
        self.before
    }

    /// The highest resident size since, beyond that at the beginning.
    pub fn peak(&self) -> Option<u64> {
        Some(resident("VmHWM:")?.saturating_sub(self.before?))
    }
}

/// A line of what the system says of this process, in bytes.
fn resident(key: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Bytes of all files in a folder and the folders in it.
pub fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => folder_bytes(&entry.path()),
        Ok(data) if data.is_file() => data.len(),
        _ => 0,
    };
    entries.map(size).sum()
}

/// What a job took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// The highest resident size, as [`Plan::memory`] counts it.
    pub memory: Option<u64>,
    /// What a GPU's pool came to hold, as [`Plan::pool`] counts it.
    pub pool: Option<u64>,
    /// Bytes on the disk.
    pub disk: u64,
    /// Checkpoints there.
    pub checkpoints: u64,
    /// Where the time went.
    pub spent: Spent,
    /// The seconds that the first steps made one expect.
    pub corrected: Option<f64>,
    /// Whether nothing came in between.
    pub whole: bool,
}

impl Plan {
    /// Writes plan and measurement beside each other into the run folder, and says them.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn close(&self, took: &Took, run: &Path, settings: &Settings) -> Result<(), Failure> {
        let disk = self.disk.with(took.checkpoints.max(self.disk.checkpoints));
        let seconds = Some(took.spent.fitting).filter(|_| took.whole);
        let mut said = vec![];
        let pool = self.pool.zip(took.pool.filter(|_| took.whole));
        // With a GPU the process's own memory is that of its compilers.
        if let Some(memory) = took.memory.filter(|_| took.whole && pool.is_none()) {
            said.push(format!("memory {} / {}", bytes(self.memory), bytes(memory)));
        }
        said.extend(pool.map(|(planned, held)| format!("device memory {} / {}", bytes(planned), bytes(held))));
        said.push(format!("disk {} / {}", bytes(disk), bytes(took.disk)));
        if let (Some(planned), Some(measured)) = (self.seconds, seconds) {
            let corrected = took.corrected.map(|s| format!(", {} by the first steps", duration(s))).unwrap_or_default();
            said.push(format!("fitting {}{corrected} / {}", duration(planned), duration(measured)));
        }
        let line = format!("planned / measured: {}", said.join("; "));
        let document = json!({
            "memory_bytes": pair(self.memory as f64, took.memory.filter(|_| took.whole).map(|m| m as f64)),
            "memory_bytes_by_formula": self.memory_by_formula,
            "peak_rss_bytes": self.before.map(|before| {
                let measured = took.memory.filter(|_| took.whole);
                pair((before + self.memory) as f64, measured.map(|m| (before + m) as f64))
            }),
            "device_pool_bytes": pool.map(|(planned, held)| pair(planned as f64, Some(held as f64))),
            "disk_bytes": pair(disk as f64, Some(took.disk as f64)),
            "fitting_seconds": pair(self.seconds.unwrap_or(f64::NAN), seconds),
            "fitting_seconds_by_first_steps": took.corrected,
            "evaluating_seconds": took.spent.evaluating,
            "saving_seconds": took.spent.saving,
            "undisturbed": took.whole,
        });
        fitting::write_json(&run.join(RESULTS), &json!({"plan": document}))?;
        settings.talk.say(line);
        Ok(())
    }
}

/// What was planned, what was measured, and the first over the second.
pub fn pair(planned: f64, measured: Option<f64>) -> Value {
    json!({"planned": planned, "measured": measured, "ratio": measured.map(|measured| planned / measured)})
}

#[cfg(test)]
mod tests;
