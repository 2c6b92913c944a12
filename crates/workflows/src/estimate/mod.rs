//! Memory, disk and time of a long job: estimated before it begins, and compared with what was measured.

mod dry_run;
mod memory;

pub use self::dry_run::{FittingCost, longest, share_of_time};
pub use self::memory::{Pool, Watch};

use crate::settings::Settings;
use crate::units::{bytes, duration};
use gorgon_train::trainer::{FitSettings, Spent};
use serde_json::{Value, json};

/// The planned cost of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Bytes in memory, without what was resident before.
    pub memory: u64,
    /// Bytes that were resident before, where the system tells: program and backbone.
    pub before: Option<u64>,
    /// Bytes in memory by formulas alone.
    pub memory_by_formula: u64,
    /// Bytes in a GPU's pool beyond what was there before, where it tells.
    pub pool: Option<u64>,
    /// Bytes on the disk.
    pub disk: Disk,
    /// Seconds of work, evaluations apart; `None` where nothing was timed.
    pub seconds: Option<f64>,
}

/// The planned disk space of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk {
    /// Bytes of a checkpoint.
    pub checkpoint: u64,
    /// Checkpoints in the end, unless the best one is older than those.
    pub checkpoints: u64,
    /// Bytes of everything else.
    pub other: u64,
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
            other: 0,
        }
    }

    /// Bytes with so many checkpoints.
    fn with(&self, checkpoints: u64) -> u64 {
        self.checkpoint * checkpoints + self.other
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

/// The measured cost of a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// The highest resident size, as [`Plan::memory`] counts it.
    pub memory: Option<u64>,
    /// The bytes that a GPU's pool came to hold, as [`Plan::pool`] counts it.
    pub pool: Option<u64>,
    /// Bytes on the disk.
    pub disk: u64,
    /// Checkpoints there.
    pub checkpoints: u64,
    /// Where the time went.
    pub spent: Spent,
    /// Seconds of all steps, by the speed of the first ones.
    pub corrected: Option<f64>,
    /// Whether the job was not interrupted.
    pub whole: bool,
}

impl Plan {
    /// The plan as a document: bytes and seconds as numbers, `null` where nothing is known.
    pub fn document(&self) -> Value {
        json!({
            "memory_bytes": self.memory,
            "memory_bytes_by_formula": self.memory_by_formula,
            "device_pool_bytes": self.pool,
            "checkpoint_bytes": self.disk.checkpoint,
            "checkpoints": self.disk.checkpoints,
            "disk_bytes": self.disk.bytes(),
            "seconds": self.seconds,
        })
    }

    /// Plan and measurement side by side, as `results.json` has them. They are reported too.
    pub fn close(&self, measured: &Measured, settings: &Settings) -> Value {
        let disk = self.disk.with(measured.checkpoints.max(self.disk.checkpoints));
        let seconds = Some(measured.spent.fitting).filter(|_| measured.whole);
        let mut parts = vec![];
        let pool = self.pool.zip(measured.pool.filter(|_| measured.whole));
        // With a GPU the process's own memory is that of its compilers.
        if let Some(memory) = measured.memory.filter(|_| measured.whole && pool.is_none()) {
            parts.push(format!("memory {} / {}", bytes(self.memory), bytes(memory)));
        }
        parts.extend(pool.map(|(planned, held)| format!("device memory {} / {}", bytes(planned), bytes(held))));
        parts.push(format!("disk {} / {}", bytes(disk), bytes(measured.disk)));
        if let (Some(planned), Some(fitted)) = (self.seconds, seconds) {
            let corrected =
                measured.corrected.map(|s| format!(" ({} by the first steps)", duration(s))).unwrap_or_default();
            parts.push(format!("fitting {} / {}{corrected}", duration(planned), duration(fitted)));
        }
        let line = format!("planned / measured: {}", parts.join("; "));
        settings.console.say(line);
        json!({
            "memory_bytes": pair(self.memory as f64, measured.memory.filter(|_| measured.whole).map(|m| m as f64)),
            "memory_bytes_by_formula": self.memory_by_formula,
            "peak_rss_bytes": self.before.map(|before| {
                let peak = measured.memory.filter(|_| measured.whole);
                pair((before + self.memory) as f64, peak.map(|peak| (before + peak) as f64))
            }),
            "device_pool_bytes": pool.map(|(planned, held)| pair(planned as f64, Some(held as f64))),
            "disk_bytes": pair(disk as f64, Some(measured.disk as f64)),
            "fitting_seconds": pair(self.seconds.unwrap_or(f64::NAN), seconds),
            "fitting_seconds_by_first_steps": measured.corrected,
            "evaluating_seconds": measured.spent.evaluating,
            "saving_seconds": measured.spent.saving,
            "undisturbed": measured.whole,
        })
    }
}

/// The planned and the measured value, and the first over the second.
pub fn pair(planned: f64, measured: Option<f64>) -> Value {
    json!({"planned": planned, "measured": measured, "ratio": measured.map(|measured| planned / measured)})
}
