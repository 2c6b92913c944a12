//! How a group is made, watched and given device sums.

use super::ProcessGroup;
use super::device_sums::{self, DeviceSums};
use super::local::LocalRank;
use super::mpi::Processes;
use super::watchdog::{Overdue, Patience, Watched};
use crate::error::TrainError;
use burn::tensor::Device;
use std::sync::{Arc, Mutex, PoisonError};

impl ProcessGroup {
    /// One replica for this process as a whole.
    pub fn current() -> Self {
        Self::of(Processes::current(), None)
    }

    /// A group of one replica, whatever other processes there are.
    pub(crate) fn single() -> Self {
        Self::of(Processes { rank: 0, size: 1 }, None)
    }

    /// `replicas` replicas in this process. Every process has to call it at the same time.
    pub fn replicas(replicas: usize) -> Vec<Self> {
        let processes = Processes::current();
        let mut counts = vec![0.0; processes.size];
        counts[processes.rank] = replicas as f64;
        processes.sum_f64(&mut counts);
        let before = counts[..processes.rank].iter().sum::<f64>() as usize;
        let size = counts.iter().sum::<f64>() as usize;
        let member =
            |local: LocalRank| Self { rank: before + local.number(), size, ..Self::of(processes, Some(local)) };
        LocalRank::group_of(replicas).into_iter().map(member).collect()
    }

    fn of(processes: Processes, local: Option<LocalRank>) -> Self {
        let Processes { rank, size } = processes;
        Self { rank, size, processes, local, device_sums: None, watched: None }
    }

    /// Watches calls that cannot be interrupted. If a replica of this process waits in one for too long, `overdue` is
    /// called from another thread and should end the process. All replicas of the process have to call this together.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another replica failed.
    pub fn watch(
        &mut self,
        patience: Patience,
        overdue: impl FnOnce(Overdue) + Send + 'static,
    ) -> Result<(), TrainError> {
        let Some(local) = &self.local else { return Ok(()) };
        let group = local.exchange((), |all: Vec<()>| {
            let watched = Watched::group_of(all.len(), patience, overdue);
            Mutex::new(watched.into_iter().map(|one| Some(Arc::new(one))).collect::<Vec<_>>())
        })?;
        self.watched = group.lock().unwrap_or_else(PoisonError::into_inner)[local.number()].take();
        Ok(())
    }

    /// Reports to the watchdog that this replica fails.
    pub fn report_failure(&self, reason: &str) {
        if let Some(watched) = &self.watched {
            watched.lost(reason);
        }
    }

    /// Checks that a device can hold numbers and compute with them.
    ///
    /// # Errors
    /// The reason, if it cannot.
    pub fn check_device(&self, device: &Device) -> Result<(), TrainError> {
        let check = || device_sums::check(device);
        let checked = self.watched.as_ref().map_or_else(check, |watched| watched.during(true, check));
        checked.map_err(|reason| TrainError::Data(format!("the device does not compute: {reason}")))
    }

    /// Sums gradients on the devices of this process's replicas from here on, if burn can do so for all of them.
    /// Returns the reason if it cannot. All replicas of the process have to call this together.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another replica failed.
    pub fn sum_on_devices(&mut self, devices: &[Device]) -> Result<Option<String>, TrainError> {
        // Sums that continue in other processes are taken in memory.
        let Some(local) = self.local.as_ref().filter(|_| self.processes.size == 1) else { return Ok(None) };
        let (device_sums, reason) = match DeviceSums::probe(devices, local.number(), self.watched.clone()) {
            Ok(sums) => (Some(sums), None),
            Err(reason) => (None, Some(reason)),
        };
        let first = local.exchange(reason, |reasons| reasons.into_iter().flatten().next())?;
        self.device_sums = device_sums.filter(|_| first.is_none());
        Ok((*first).clone())
    }
}
