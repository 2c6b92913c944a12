//! Processes that `mpirun` started together.
//!
//! Without the feature `mpi`, or when not started by `mpirun`, a process is alone and nothing is exchanged.

use std::sync::OnceLock;

/// This process's rank among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processes {
    pub rank: usize,
    pub size: usize,
}

static PROCESSES: OnceLock<Processes> = OnceLock::new();

/// Keeps the connection to the other processes until it is dropped.
#[must_use]
pub struct Membership {
    #[cfg(feature = "mpi")]
    _universe: Option<mpi::environment::Universe>,
}

/// Joins the other processes, if `mpirun` started this one with any. To be called once, first.
pub fn join() -> Membership {
    #[cfg(feature = "mpi")]
    {
        use mpi::traits::Communicator;
        // The launchers of Open MPI and of MPICH set these.
        let launched = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].iter().any(|name| std::env::var_os(name).is_some());
        // Work runs on a pool's threads, one call at a time.
        let universe = launched.then(|| mpi::initialize_with_threading(mpi::Threading::Serialized)).flatten();
        if let Some((universe, _)) = &universe {
            let all = universe.world();
            let _ = PROCESSES.set(Processes { rank: all.rank() as usize, size: all.size() as usize });
        }
        Membership { _universe: universe.map(|(universe, _)| universe) }
    }
    #[cfg(not(feature = "mpi"))]
    Membership {}
}

impl Processes {
    pub fn current() -> Self {
        PROCESSES.get().copied().unwrap_or(Self { rank: 0, size: 1 })
    }

    /// Ends all of them.
    pub fn abort(self) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::traits::Communicator;
            mpi::topology::SimpleCommunicator::world().abort(1);
        }
    }

    /// Waits until all of them call it.
    pub fn barrier(self) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::traits::CommunicatorCollectives;
            mpi::topology::SimpleCommunicator::world().barrier();
        }
    }

    /// Replaces each value by its sum over all processes.
    pub fn sum_f64(self, values: &mut [f64]) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::collective::SystemOperation;
            use mpi::traits::CommunicatorCollectives;
            let own = values.to_vec();
            mpi::topology::SimpleCommunicator::world().all_reduce_into(&own[..], values, SystemOperation::sum());
        }
        let _ = values;
    }

    /// Replaces each value by its sum over all processes.
    pub fn sum_f32(self, values: &mut [f32]) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::collective::SystemOperation;
            use mpi::traits::CommunicatorCollectives;
            let own = values.to_vec();
            mpi::topology::SimpleCommunicator::world().all_reduce_into(&own[..], values, SystemOperation::sum());
        }
        let _ = values;
    }

    /// Replaces the values by those of process 0.
    pub fn broadcast(self, values: &mut [f32]) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::traits::{Communicator, Root};
            mpi::topology::SimpleCommunicator::world().process_at_rank(0).broadcast_into(values);
        }
        let _ = values;
    }
}
