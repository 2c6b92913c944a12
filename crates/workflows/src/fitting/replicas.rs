//! Fitting on several devices of this machine at once.
//!
//! Each device has a thread with its share of the CPU's threads, and a copy of all that is fitted and fitted to.
//! Replica 0 is the one that a training on a single device would have; the others are made by its thread's side and
//! write nothing. A replica that fails ends the others at their next exchange, and the first real reason is
//! reported.

use crate::failure::{Failure, panic_message};
use crate::settings::Settings;
use gorgon_model::device::DeviceChoice;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::error::TrainError;
use gorgon_train::process_group::{Overdue, Patience, ProcessGroup};
use gorgon_train::trainer::{self, FitSettings, Objective, Outcome, Report};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The library that sums gradients of several CUDA devices: `nccl`, or `host`, which always works.
const SUMS: &str = "GORGON_SUMS";

/// How long devices may take to come together, and to follow one that failed, where the library that they wait in
/// cannot be interrupted: then the program ends.
const PATIENCE: Patience = Patience { beginning: Duration::from_secs(180), after_loss: Duration::from_secs(30) };

/// The job of replica 0.
pub struct Lead<'a, O> {
    /// The objective that it fits.
    pub objective: &'a O,
    /// The run folder that it writes.
    pub run: &'a RunDir,
    /// How it fits.
    pub fit: &'a FitSettings,
}

/// Fits on the devices of `settings`, of which the first is that of `lead`; `copy` makes what the others fit.
///
/// # Errors
/// As of fitting on one device; what goes wrong with one of several is named after it.
pub fn fit<O: Objective>(
    lead: &Lead<'_, O>,
    copy: &(dyn Fn(&Settings) -> Result<O, Failure> + Sync),
    settings: &[Settings],
    observe: &mut (dyn FnMut(Report) + Send),
) -> Result<Outcome, Failure> {
    let stop = settings[0].console.stop_flag();
    let requested = std::env::var(SUMS).unwrap_or_default();
    let sums = on_devices(&settings[0].together, &requested)?;
    let job = Together { settings, sums, fit: within(lead.fit, &settings[0]), stop: &stop };
    let mut members = ProcessGroup::replicas(settings.len()).into_iter().enumerate();
    let Some((_, first)) = members.next() else { return Err(Failure::run("no device to fit on")) };
    if settings.len() == 1 {
        return trainer::fit_in(&first, lead.objective, lead.run, lead.fit, &stop, observe).map_err(Failure::training);
    }
    let (result, others) = std::thread::scope(|scope| {
        let job = &job;
        let start =
            |(number, group)| scope.spawn(move || job.replica(number, group, |group| job.assist(group, number, copy)));
        let others: Vec<_> = members.map(start).collect();
        let result = job.replica(0, first, |group| job.fit(group, lead.objective, lead.run, observe));
        let joined =
            others.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::run("a thread died"))));
        (result, joined.collect::<Vec<_>>())
    });
    let outcome = result?;
    for other in others {
        other?;
    }
    outcome.ok_or_else(|| Failure::run(TrainError::Ended))
}

/// State that all replicas share.
struct Together<'a> {
    settings: &'a [Settings],
    /// Whether to try burn's sums over devices.
    sums: bool,
    fit: FitSettings,
    stop: &'a AtomicBool,
}

impl Together<'_> {
    /// A replica's life: `None` if it ended because another one failed. It leaves the process group in any case, so that
    /// the others do not wait for it.
    fn replica(
        &self,
        number: usize,
        mut group: ProcessGroup,
        work: impl FnOnce(&ProcessGroup) -> Result<Outcome, Fault> + Send,
    ) -> Result<Option<Outcome>, Failure> {
        let name = self.name(number);
        let life = || {
            let threads = (rayon::current_num_threads() / self.settings.len()).max(1);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(Failure::run)?;
            pool.install(|| {
                self.come_together(&mut group, number)?;
                work(&group)
            })
        };
        let done = catch_unwind(AssertUnwindSafe(life));
        match &done {
            Ok(Err(Fault::Own(failure))) => group.report_failure(failure.message()),
            Err(panic) => group.report_failure(&panic_message(&**panic)),
            _ => {}
        }
        match done {
            Ok(Ok(outcome)) => Ok(Some(outcome)),
            Ok(Err(Fault::Ended)) => Ok(None),
            Ok(Err(Fault::Own(failure))) => Err(failure.of(&name)),
            Err(panic) => Err(Failure::run(format!("internal error: {}", panic_message(&*panic))).of(&name)),
        }
    }

    /// As errors name a replica.
    fn name(&self, number: usize) -> String {
        let device = self.settings[number].together[number];
        format!("device {} of {} ({device})", number + 1, self.settings.len())
    }

    /// Sees that every device is there, then lets them sum what they can.
    fn come_together(&self, group: &mut ProcessGroup, number: usize) -> Result<(), Fault> {
        let names: Vec<String> = (0..self.settings.len()).map(|number| self.name(number)).collect();
        let console = self.settings[0].console.clone();
        group.watch(PATIENCE, move |overdue| {
            let hint =
                "GORGON_SUMS=host sums gradients in memory, which needs no library; checkpoints are as they were";
            // Only the end of the process frees what the library holds.
            console.abort(&Failure::run(waited_for(&overdue, &names)).hint(hint));
        })?;
        group.check_device(self.settings[number].compute()?.device())?;
        if self.sums { self.sum_on_devices(group, number) } else { Ok(()) }
    }

    fn sum_on_devices(&self, group: &mut ProcessGroup, number: usize) -> Result<(), Fault> {
        let devices = self.settings.iter().map(|settings| Ok(settings.compute()?.device().clone()));
        let devices = devices.collect::<Result<Vec<_>, Failure>>()?;
        if let Some(reason) = group.sum_on_devices(&devices)? {
            let line = format!("gradients are summed in memory: the devices cannot sum them ({reason})");
            self.settings[number].console.say(line);
        }
        Ok(())
    }

    fn fit<O: Objective>(
        &self,
        group: &ProcessGroup,
        objective: &O,
        run: &RunDir,
        observe: &mut dyn FnMut(Report),
    ) -> Result<Outcome, Fault> {
        Ok(trainer::fit_in(group, objective, run, &self.fit, self.stop, observe)?)
    }

    /// A replica other than the first.
    fn assist<O: Objective>(
        &self,
        group: &ProcessGroup,
        number: usize,
        copy: &(dyn Fn(&Settings) -> Result<O, Failure> + Sync),
    ) -> Result<Outcome, Fault> {
        let objective = copy(&self.settings[number])?;
        let (_scratch, run) = scratch()?;
        let (name, console) = (self.name(number), &self.settings[0].console);
        self.fit(group, &objective, &run, &mut |report| {
            if let Report::Note(line) = report {
                console.say(format!("{name}: {line}"));
            }
        })
    }
}

/// A run folder for what is not kept; it goes with the guard.
///
/// # Errors
/// When it cannot be made.
pub fn scratch() -> Result<(tempfile::TempDir, RunDir), Failure> {
    let folder = tempfile::tempdir().map_err(Failure::run)?;
    let run = RunDir::create(folder.path(), "assistant")?;
    Ok((folder, run))
}

/// Why a replica stops.
enum Fault {
    /// Another one has failed.
    Ended,
    Own(Failure),
}

impl From<TrainError> for Fault {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Ended => Self::Ended,
            error => Self::Own(Failure::training(error)),
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Own(failure)
    }
}

/// Who waited for whom, in a line.
fn waited_for(overdue: &Overdue, names: &[String]) -> String {
    let of = |number: &usize| names.get(*number).map_or("a device", String::as_str);
    let waiting: Vec<&str> = overdue.waiting.iter().map(of).collect();
    let (waiting, seconds) = (waiting.join(", "), overdue.waited.as_secs());
    match overdue.lost.first() {
        Some((number, reason)) => format!("{}: {reason}; {waiting} waited for it for {seconds} s in vain", of(number)),
        None => format!("the devices did not come together: {waiting} waited for {seconds} s"),
    }
}

/// Replicas on the CPU share the memory that fitting may take.
fn within(fit: &FitSettings, settings: &Settings) -> FitSettings {
    FitSettings { memory_limit: fit.memory_limit.map(|bytes| bytes / settings.copies() as u64), ..*fit }
}

/// Whether burn may sum gradients on the devices: CUDA devices, each named once, unless the environment says otherwise.
fn on_devices(together: &[DeviceChoice], requested: &str) -> Result<bool, Failure> {
    let mut indices: Vec<usize> = vec![];
    for device in together {
        match device {
            DeviceChoice::Cuda(index) if !indices.contains(index) => indices.push(*index),
            _ => {}
        }
    }
    match requested {
        "" => Ok(indices.len() == together.len()),
        "nccl" => Ok(true),
        "host" => Ok(false),
        _ => Err(Failure::input(format!("{SUMS}={requested}: expected nccl or host"))),
    }
}

#[cfg(test)]
mod tests;
