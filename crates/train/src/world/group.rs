//! Threads of one process that meet: each brings something, and all get what comes of it.

use crate::error::TrainError;
use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A thread's seat in its group. Dropping it, by a panic too, ends all meetings: nobody waits for one who is gone.
pub(crate) struct Seat {
    group: Arc<Group>,
    number: usize,
}

struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// What each seat brought to the meeting that is going on.
    brought: Vec<Option<Box<dyn Any + Send>>>,
    /// What came of it, until all have taken it.
    result: Option<Arc<dyn Any + Send + Sync>>,
    /// Seats that have not taken it.
    taking: usize,
    /// Whether a seat was given up.
    over: bool,
}

impl Seat {
    /// The seats of a new group.
    pub fn group_of(size: usize) -> Vec<Self> {
        let state = State { brought: (0..size).map(|_| None).collect(), result: None, taking: 0, over: false };
        let group = Arc::new(Group { state: Mutex::new(state), changed: Condvar::new() });
        (0..size).map(|number| Self { group: group.clone(), number }).collect()
    }

    /// Its number, counted from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Brings a value and waits for those of all others. The last one to come makes the result of them, in the order of
    /// the seats, alone; all get the same.
    ///
    /// # Errors
    /// [`TrainError::Ended`] when another seat was given up.
    pub fn meet<T, R>(&self, value: T, combine: impl FnOnce(Vec<T>) -> R) -> Result<Arc<R>, TrainError>
    where
        T: Send + 'static,
        R: Send + Sync + 'static,
    {
        // The last meeting is over when all have left it.
        let mut state = self.wait(self.lock(), |state| state.result.is_none())?;
        state.brought[self.number] = Some(Box::new(value));
        if state.brought.iter().all(Option::is_some) {
            let brought = state.brought.iter_mut().filter_map(|value| value.take()?.downcast().ok());
            let values: Vec<T> = brought.map(|value| *value).collect();
            state.result = Some(Arc::new(combine(values)));
            state.taking = state.brought.len();
            self.group.changed.notify_all();
        }
        let mut state = self.wait(state, |state| state.result.is_some())?;
        let result = state.result.clone();
        state.taking -= 1;
        if state.taking == 0 {
            state.result = None;
            self.group.changed.notify_all();
        }
        result.and_then(|result| result.downcast().ok()).ok_or(TrainError::Ended)
    }

    /// Waits until it is so.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        is_so: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>, TrainError> {
        loop {
            // What all of them came to is theirs, also if one has gone on and given up.
            if is_so(&state) {
                return Ok(state);
            }
            if state.over {
                return Err(TrainError::Ended);
            }
            state = self.group.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A panic while the state was held leaves it as good as any: the meeting is over then.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.group.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.lock().over = true;
        self.group.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
