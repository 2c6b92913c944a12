//! The processes that fit together: data parallel training through MPI.
//!
//! Every process has all parameters and all data, and computes the gradients of its share of a step's micro-batches:
//! process `r` of `n` those whose number is `r` modulo `n`. The sums are exchanged, and every process takes the same
//! step. Which micro-batches a step has, and what their losses are divided by, does not depend on `n`; only the order
//! of the sums does. Process 0 alone evaluates and writes.
//!
//! Without the feature `mpi`, or when not started by `mpirun`, a process is alone and nothing is exchanged.

use crate::error::TrainError;
use std::sync::OnceLock;

/// A process's place among those that fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    rank: usize,
    size: usize,
}

static WORLD: OnceLock<World> = OnceLock::new();

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
        // What the launchers of Open MPI and of MPICH tell a process.
        let launched = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].iter().any(|name| std::env::var_os(name).is_some());
        // Work runs on a pool's thread, one call at a time.
        let universe = launched.then(|| mpi::initialize_with_threading(mpi::Threading::Serialized)).flatten();
        if let Some((universe, _)) = &universe {
            let world = universe.world();
            let _ = WORLD.set(World { rank: world.rank() as usize, size: world.size() as usize });
        }
        Membership { _universe: universe.map(|(universe, _)| universe) }
    }
    #[cfg(not(feature = "mpi"))]
    Membership {}
}

impl World {
    /// The one that this process is in.
    pub fn current() -> Self {
        WORLD.get().copied().unwrap_or(Self { rank: 0, size: 1 })
    }

    /// Processes in it.
    pub fn size(self) -> usize {
        self.size
    }

    /// Whether this process evaluates and writes.
    pub fn is_root(self) -> bool {
        self.rank == 0
    }

    /// The numbers of a step's micro-batches that are this process's.
    pub(crate) fn share(self, batches: usize) -> impl Iterator<Item = usize> {
        (self.rank..batches).step_by(self.size)
    }

    /// Ends all processes: one of them failed, and the others would wait for it.
    pub fn abort(self) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::traits::Communicator;
            mpi::topology::SimpleCommunicator::world().abort(1);
        }
    }

    /// Waits until all processes are here.
    pub fn wait(self) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::traits::CommunicatorCollectives;
            mpi::topology::SimpleCommunicator::world().barrier();
        }
    }

    /// Whether it is so in any process.
    pub(crate) fn any(self, here: bool) -> bool {
        let mut sum = [f64::from(u8::from(here))];
        self.sum_f64(&mut sum);
        sum[0] > 0.0
    }

    /// Sums over all processes, in place.
    pub(crate) fn sum_f64(self, values: &mut [f64]) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::collective::SystemOperation;
            use mpi::traits::CommunicatorCollectives;
            let own = values.to_vec();
            mpi::topology::SimpleCommunicator::world().all_reduce_into(&own[..], values, SystemOperation::sum());
        }
        let _ = values;
    }

    /// Sums over all processes, in place.
    pub(crate) fn sum_f32(self, values: &mut [f32]) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::collective::SystemOperation;
            use mpi::traits::CommunicatorCollectives;
            let own = values.to_vec();
            mpi::topology::SimpleCommunicator::world().all_reduce_into(&own[..], values, SystemOperation::sum());
        }
        let _ = values;
    }

    /// Process 0's values, in every process.
    pub(crate) fn copy_from_root(self, values: &mut [f32]) {
        #[cfg(feature = "mpi")]
        if self.size > 1 {
            use mpi::traits::{Communicator, Root};
            mpi::topology::SimpleCommunicator::world().process_at_rank(0).broadcast_into(values);
        }
        let _ = values;
    }

    /// This process's result, if all processes have one; so that none goes on alone.
    ///
    /// # Errors
    /// This process's own error, or that another one has one.
    pub(crate) fn all_or_none<T>(self, own: Result<T, TrainError>) -> Result<T, TrainError> {
        let failed = self.any(own.is_err());
        match own {
            Ok(_) if failed => Err(TrainError::Data("another process failed".into())),
            own => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_someones() {
        for size in 1..5 {
            let mut all: Vec<usize> = (0..size).flat_map(|rank| World { rank, size }.share(7)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..7).collect::<Vec<_>>());
        }
    }

    #[test]
    fn alone_nothing_is_exchanged() {
        let world = World::current();
        assert!(world.is_root() && world.size() == 1 && world.any(true) && !world.any(false));
        let mut values = [1.0, 2.0];
        world.sum_f64(&mut values);
        assert_eq!(values, [1.0, 2.0]);
    }
}
