//! Threads of one process that exchange values.

use crate::error::TrainError;
use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A thread's place in its group. Dropping it, by a panic too, ends all exchanges, so that no thread waits for it.
pub(crate) struct LocalRank {
    group: Arc<Group>,
    number: usize,
}

struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The value of each thread in the current exchange.
    values: Vec<Option<Box<dyn Any + Send>>>,
    /// Its result, until all threads have taken it.
    result: Option<Arc<dyn Any + Send + Sync>>,
    /// LocalRanks that have not taken it.
    pending: usize,
    /// Whether a thread has left the group.
    over: bool,
}

impl LocalRank {
    /// The places of a new group.
    pub fn group_of(size: usize) -> Vec<Self> {
        let state = State { values: (0..size).map(|_| None).collect(), result: None, pending: 0, over: false };
        let group = Arc::new(Group { state: Mutex::new(state), changed: Condvar::new() });
        (0..size).map(|number| Self { group: group.clone(), number }).collect()
    }

    /// Its number, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Waits for the values of all threads and returns what `combine` makes of them, in the order of their numbers. The
    /// last thread to arrive runs it; all get the same result.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another thread has left the group.
    pub fn exchange<T, R>(&self, value: T, combine: impl FnOnce(Vec<T>) -> R) -> Result<Arc<R>, TrainError>
    where
        T: Send + 'static,
        R: Send + Sync + 'static,
    {
        // The exchange before is over when all threads have taken its result.
        let mut state = self.wait(self.lock(), |state| state.result.is_none())?;
        state.values[self.number] = Some(Box::new(value));
        if state.values.iter().all(Option::is_some) {
            let values = state.values.iter_mut().filter_map(|value| value.take()?.downcast().ok());
            let values: Vec<T> = values.map(|value| *value).collect();
            state.result = Some(Arc::new(combine(values)));
            state.pending = state.values.len();
            self.group.changed.notify_all();
        }
        let mut state = self.wait(state, |state| state.result.is_some())?;
        let result = state.result.clone();
        state.pending -= 1;
        if state.pending == 0 {
            state.result = None;
            self.group.changed.notify_all();
        }
        result.and_then(|result| result.downcast().ok()).ok_or(TrainError::Ended)
    }

    /// Waits until `is_so` returns true.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        is_so: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>, TrainError> {
        loop {
            // A finished exchange counts, also if a thread has left since.
            if is_so(&state) {
                return Ok(state);
            }
            if state.over {
                return Err(TrainError::Ended);
            }
            state = self.group.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A panic while the state was locked leaves it usable: the exchange has ended then.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.group.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LocalRank {
    fn drop(&mut self) {
        self.lock().over = true;
        self.group.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
