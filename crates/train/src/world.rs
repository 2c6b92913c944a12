//! Who fits together: data parallel training.
//!
//! A world is made of **replicas**: threads of one process with a device each, processes under MPI, or processes with
//! several replicas each. Every replica has all parameters, all data and a backbone of its own, and computes the
//! gradients of its share of a step's micro-batches: replica `r` of `n` those whose number is `r` modulo `n`. The sums
//! are exchanged, and every replica takes the same step. Which micro-batches a step has, and what their losses are
//! divided by, does not depend on `n`; only the order of sums does, and within one process on the CPU not even that.
//! Replica 0 alone evaluates and writes.
//!
//! Sums are taken within each process first (on the devices themselves where burn can, else in memory and in the order
//! of micro-batches), then over processes.

mod device_sums;
mod group;
mod processes;
mod watch;

pub use processes::{Membership, join};
pub use watch::{Overdue, Patience};

pub(crate) use processes::Processes;

use self::device_sums::DeviceSums;
use self::group::Seat;
use self::watch::Watched;
use crate::error::TrainError;
use burn::tensor::Device;
use std::sync::{Arc, Mutex, PoisonError};

/// A replica's place among those that fit together. Dropping it ends what its process's other replicas do together.
pub struct World {
    rank: usize,
    size: usize,
    processes: Processes,
    /// Its seat among the replicas of this process, if there are several.
    seat: Option<Seat>,
    on_devices: Option<DeviceSums>,
    /// Looks after what cannot be interrupted.
    watched: Option<Arc<Watched>>,
}

impl World {
    /// That of this process as a whole.
    pub fn current() -> Self {
        let processes = Processes::current();
        let Processes { rank, size } = processes;
        Self { rank, size, processes, seat: None, on_devices: None, watched: None }
    }

    /// That of a replica that is alone, whatever other processes there are: for what is not done together.
    pub(crate) fn alone() -> Self {
        let processes = Processes { rank: 0, size: 1 };
        Self { rank: 0, size: 1, processes, seat: None, on_devices: None, watched: None }
    }

    /// Those of `replicas` replicas of this process. Every process has to call it at once.
    pub fn divided(replicas: usize) -> Vec<Self> {
        let processes = Processes::current();
        let mut counts = vec![0.0; processes.size];
        counts[processes.rank] = replicas as f64;
        processes.sum_f64(&mut counts);
        let before = counts[..processes.rank].iter().sum::<f64>() as usize;
        let size = counts.iter().sum::<f64>() as usize;
        let seats = Seat::group_of(replicas).into_iter();
        seats
            .map(|seat| Self {
                rank: before + seat.number(),
                size,
                processes,
                seat: Some(seat),
                on_devices: None,
                watched: None,
            })
            .collect()
    }

    /// Has it watched that no replica of this process waits in vain where nothing can interrupt it: `overdue` is told,
    /// from another thread, and should end the process. All of its replicas have to call it at once.
    ///
    /// # Errors
    /// When another replica is gone.
    pub fn watch(
        &mut self,
        patience: Patience,
        overdue: impl FnOnce(Overdue) + Send + 'static,
    ) -> Result<(), TrainError> {
        let Some(seat) = &self.seat else { return Ok(()) };
        let group = seat.meet((), |all: Vec<()>| {
            let watched = Watched::group_of(all.len(), patience, overdue);
            Mutex::new(watched.into_iter().map(|one| Some(Arc::new(one))).collect::<Vec<_>>())
        })?;
        self.watched = group.lock().unwrap_or_else(PoisonError::into_inner)[seat.number()].take();
        Ok(())
    }

    /// Tells the watch that this replica fails.
    pub fn lost(&self, reason: &str) {
        if let Some(watched) = &self.watched {
            watched.lost(reason);
        }
    }

    /// Sees whether a device can hold numbers and compute with them.
    ///
    /// # Errors
    /// When it cannot; the error says why.
    pub fn check(&self, device: &Device) -> Result<(), TrainError> {
        let check = || device_sums::check(device);
        let checked = self.watched.as_ref().map_or_else(check, |watched| watched.during(true, check));
        checked.map_err(|reason| TrainError::Data(format!("the device does not compute: {reason}")))
    }

    /// Lets burn sum gradients on the devices of this process's replicas, if it can do so for all of them. All of its
    /// replicas have to call it at once. Returns why it cannot.
    ///
    /// # Errors
    /// When another replica is gone.
    pub fn sum_on(&mut self, devices: &[Device]) -> Result<Option<String>, TrainError> {
        // What goes over to other processes is summed in memory.
        let Some(seat) = self.seat.as_ref().filter(|_| self.processes.size == 1) else { return Ok(None) };
        let (on_devices, reason) = match DeviceSums::tried(devices, seat.number(), self.watched.clone()) {
            Ok(sums) => (Some(sums), None),
            Err(reason) => (None, Some(reason)),
        };
        let first = seat.meet(reason, |reasons| reasons.into_iter().flatten().next())?;
        self.on_devices = on_devices.filter(|_| first.is_none());
        Ok((*first).clone())
    }

    /// Replicas in it.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether this replica evaluates and writes.
    pub fn is_root(&self) -> bool {
        self.rank == 0
    }

    /// The numbers of a step's micro-batches that are this replica's.
    pub(crate) fn share(&self, batches: usize) -> impl Iterator<Item = usize> + use<> {
        (self.rank..batches).step_by(self.size)
    }

    /// Ends all processes: one of them failed, and the others would wait for it.
    pub fn abort(&self) {
        self.processes.abort();
    }

    /// Waits until all processes are here.
    pub fn wait(&self) {
        self.processes.wait();
    }

    /// What gradients are summed with where they are, if anything; else they are summed in memory, by
    /// [`Self::together`].
    pub(crate) fn on_devices(&self) -> Option<&DeviceSums> {
        self.on_devices.as_ref()
    }

    /// What comes of a value of each of this process's replicas, in their order; the same for all of them. One of them
    /// makes it and may meanwhile speak to other processes.
    ///
    /// # Errors
    /// When another replica is gone.
    pub(crate) fn together<T, R>(
        &self,
        value: T,
        combine: impl FnOnce(Vec<T>, Processes) -> R,
    ) -> Result<Arc<R>, TrainError>
    where
        T: Send + 'static,
        R: Send + Sync + 'static,
    {
        let combine = |values| combine(values, self.processes);
        match &self.seat {
            Some(seat) => seat.meet(value, combine),
            None => Ok(Arc::new(combine(vec![value]))),
        }
    }

    /// Work by which the first replica of a process leaves something to its others: it goes first.
    ///
    /// # Errors
    /// Those of the work; when another replica is gone.
    pub(crate) fn in_turn(&self, work: impl FnOnce() -> Result<(), TrainError>) -> Result<(), TrainError> {
        let Some(seat) = &self.seat else { return work() };
        let (first, mut work) = (seat.number() == 0, Some(work));
        let mut do_it = || work.take().map_or(Ok(()), |work| work());
        let done = if first { do_it() } else { Ok(()) };
        let failed = seat.meet(done.is_err(), |failed| failed.contains(&true));
        done?;
        match *failed? {
            true => Err(TrainError::Ended),
            false => do_it(),
        }
    }

    /// Whether it is so in any replica.
    pub(crate) fn any(&self, here: bool) -> Result<bool, TrainError> {
        let mut sum = [f64::from(u8::from(here))];
        self.sum_f64(&mut sum)?;
        Ok(sum[0] > 0.0)
    }

    /// Sums over all replicas, in place.
    pub(crate) fn sum_f64(&self, values: &mut [f64]) -> Result<(), TrainError> {
        let sums = self.together(values.to_vec(), |all, processes| {
            let mut sums = vec![0.0; all[0].len()];
            for own in all {
                sums.iter_mut().zip(own).for_each(|(sum, value)| *sum += value);
            }
            processes.sum_f64(&mut sums);
            sums
        })?;
        values.copy_from_slice(&sums);
        Ok(())
    }

    /// Replica 0's values, in every replica.
    pub(crate) fn copy_from_root(&self, values: &mut [f32]) -> Result<(), TrainError> {
        let first = self.seat.as_ref().is_none_or(|seat| seat.number() == 0);
        let own = if first { values.to_vec() } else { vec![] };
        let copied = self.together(own, |mut all, processes| {
            let mut first = all.swap_remove(0);
            processes.copy_from_root(&mut first);
            first
        })?;
        values.copy_from_slice(&copied);
        Ok(())
    }

    /// This replica's result, if all replicas have one; so that none goes on alone.
    ///
    /// # Errors
    /// This replica's own error, or that another one has one.
    pub(crate) fn all_or_none<T>(&self, own: Result<T, TrainError>) -> Result<T, TrainError> {
        let failed = self.any(own.is_err());
        let own = own?;
        if failed? { Err(TrainError::Ended) } else { Ok(own) }
    }
}

#[cfg(test)]
mod tests;
