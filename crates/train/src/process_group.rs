//! The replicas that train together: data-parallel training.
//!
//! Read this page to use a [`ProcessGroup`]. Nothing outside this folder knows how replicas exchange values.
//!
//! A **replica** has all parameters, all data and a backbone of its own. It is a thread with a device, or a process
//! that `mpirun` started, or one of several threads of such a process. Its **rank** is its number, counted from 0.
//!
//! Every step goes like this:
//!
//! 1. Replica `r` of `n` computes the gradients of the micro-batches whose number is `r` modulo `n`
//!    ([`ProcessGroup::share`]).
//! 2. The gradients are summed over all replicas ([`ProcessGroup::reduce`]).
//! 3. Every replica takes the same optimizer step.
//! 4. Rank 0 alone evaluates and writes ([`ProcessGroup::is_root`]).
//!
//! The micro-batches of a step, and the divisors of their losses, do not depend on `n`. Only the order of the sums
//! does; within one process on the CPU not even that, so that weights are equal bit for bit.
//!
//! A training on one device is a group of one replica: every call below returns at once and changes nothing.
//!
//! | file | holds |
//! |---|---|
//! | `setup` | making a group, watching it, choosing where sums are taken |
//! | `reduce` | sums of gradients; copies of rank 0's state |
//! | `local` | threads of one process that exchange values |
//! | `device_sums` | sums on the devices themselves (NCCL) |
//! | `mpi` | other processes; without the feature `mpi` there are none |
//! | `watchdog` | ends a process whose replicas wait for one that failed |

mod device_sums;
mod local;
mod mpi;
mod reduce;
mod setup;
mod watchdog;

pub use mpi::{Membership, join};
pub use watchdog::{Overdue, Patience};

use self::device_sums::DeviceSums;
use self::local::LocalRank;
use self::mpi::Processes;
use self::watchdog::Watched;
use crate::error::TrainError;
use std::sync::Arc;

/// One replica's membership in its group. Dropping it ends the exchanges of the process's other replicas.
pub struct ProcessGroup {
    rank: usize,
    size: usize,
    processes: Processes,
    /// Its place among the replicas of this process, if there are several.
    local: Option<LocalRank>,
    device_sums: Option<DeviceSums>,
    watched: Option<Arc<Watched>>,
}

impl ProcessGroup {
    /// Number of replicas.
    pub fn size(&self) -> usize {
        self.size
    }

    /// True for rank 0, which evaluates and writes.
    pub fn is_root(&self) -> bool {
        self.rank == 0
    }

    /// The numbers of this replica's micro-batches, of `batches` in a step.
    pub(crate) fn share(&self, batches: usize) -> impl Iterator<Item = usize> + use<> {
        (self.rank..batches).step_by(self.size)
    }

    /// Ends all processes after one of them failed, since the others would wait for it.
    pub fn abort(&self) {
        self.processes.abort();
    }

    /// Waits until all processes call it.
    pub fn barrier(&self) {
        self.processes.barrier();
    }

    /// Combines a value of each of this process's replicas, in the order of their ranks. One replica runs `combine`,
    /// which may exchange with other processes; all replicas get the result.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another replica failed.
    fn combine<T, R>(&self, value: T, combine: impl FnOnce(Vec<T>, Processes) -> R) -> Result<Arc<R>, TrainError>
    where
        T: Send + 'static,
        R: Send + Sync + 'static,
    {
        let combine = |values| combine(values, self.processes);
        match &self.local {
            Some(local) => local.exchange(value, combine),
            None => Ok(Arc::new(combine(vec![value]))),
        }
    }

    /// Runs `work` in the first replica of each process, then in its others. So the first can leave files for them.
    ///
    /// # Errors
    /// Those of `work`; [`TrainError::Ended`] when another replica failed.
    pub(crate) fn local_root_first(&self, work: impl FnOnce() -> Result<(), TrainError>) -> Result<(), TrainError> {
        let Some(local) = &self.local else { return work() };
        let (first, mut work) = (local.number() == 0, Some(work));
        let mut run = || work.take().map_or(Ok(()), |work| work());
        let done = if first { run() } else { Ok(()) };
        let failed = local.exchange(done.is_err(), |failed| failed.contains(&true));
        done?;
        match *failed? {
            true => Err(TrainError::Ended),
            false => run(),
        }
    }

    /// True if `here` is true in any replica.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another replica failed.
    pub(crate) fn any(&self, here: bool) -> Result<bool, TrainError> {
        let mut sum = [f64::from(u8::from(here))];
        self.all_reduce(&mut sum)?;
        Ok(sum[0] > 0.0)
    }

    /// Replaces each value by its sum over all replicas.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another replica failed.
    pub(crate) fn all_reduce(&self, values: &mut [f64]) -> Result<(), TrainError> {
        let sums = self.combine(values.to_vec(), |all, processes| {
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

    /// Replaces the values by those of rank 0.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another replica failed.
    pub(crate) fn broadcast(&self, values: &mut [f32]) -> Result<(), TrainError> {
        let first = self.local.as_ref().is_none_or(|local| local.number() == 0);
        let own = if first { values.to_vec() } else { vec![] };
        let copied = self.combine(own, |mut all, processes| {
            let mut first = all.swap_remove(0);
            processes.broadcast(&mut first);
            first
        })?;
        values.copy_from_slice(&copied);
        Ok(())
    }

    /// This replica's result if every replica succeeded, so that none continues alone.
    ///
    /// # Errors
    /// This replica's own error; [`TrainError::Ended`] when another replica failed.
    pub(crate) fn all_or_none<T>(&self, own: Result<T, TrainError>) -> Result<T, TrainError> {
        let failed = self.any(own.is_err());
        let own = own?;
        if failed? { Err(TrainError::Ended) } else { Ok(own) }
    }
}

#[cfg(test)]
mod tests;
