//! Answers that wait for a slot: first come, first served, and bounded.

use crate::job::Job;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Whether new jobs are refused.
    stopping: bool,
    /// Whether what waits or runs is given up too.
    abandoned: bool,
}

/// Answers that wait, between connections and engine.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
}

/// Why jobs were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// So many wait already.
    Full(usize),
    /// The server is stopping.
    Stopping,
}

impl Queue {
    /// A queue in which at most so many wait.
    pub fn new(most: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), most }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the answers of a request at the end, all or none.
    pub fn push(&self, jobs: Vec<Job>) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.stopping {
            return Err(Refused::Stopping);
        }
        if state.waiting.len() + jobs.len() > self.most {
            state.waiting.retain(|job| !job.outbox.is_closed());
        }
        let waiting = state.waiting.len();
        if waiting + jobs.len() > self.most {
            return Err(Refused::Full(waiting));
        }
        state.waiting.extend(jobs);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// The first job that is still wanted, if `take` wants it.
    pub fn pop_if(&self, take: impl FnOnce(&Job) -> bool) -> Option<Job> {
        let mut state = self.lock();
        while state.waiting.front().is_some_and(|job| job.outbox.is_closed()) {
            state.waiting.pop_front();
        }
        if state.waiting.front().is_some_and(take) { state.waiting.pop_front() } else { None }
    }

    /// Answers that wait.
    pub fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Waits until there is a job; false where there will be none.
    pub fn wait(&self) -> bool {
        let mut state = self.lock();
        loop {
            if !state.waiting.is_empty() {
                return true;
            }
            if state.stopping {
                return false;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes no new jobs from here on.
    pub fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Gives up what waits and what runs too.
    pub fn abandon(&self) {
        let mut state = self.lock();
        (state.stopping, state.abandoned) = (true, true);
        state.waiting.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Whether new jobs are refused.
    pub fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Whether everything was given up.
    pub fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }
}
