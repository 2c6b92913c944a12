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
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// What each seat's thread returns.
    fn together<R: Send>(size: usize, each: impl Fn(Seat) -> R + Sync) -> Vec<R> {
        std::thread::scope(|scope| {
            let each = &each;
            let threads: Vec<_> =
                Seat::group_of(size).into_iter().map(|seat| scope.spawn(move || each(seat))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn values_come_in_the_order_of_seats_and_all_get_the_same() {
        for size in 1..6 {
            let all = together(size, |seat| {
                let mut seen = vec![];
                for round in 0..300 {
                    // Some come late.
                    if (round + seat.number()) % 7 == 0 {
                        std::thread::yield_now();
                    }
                    seen.push(seat.meet((round, seat.number()), |values| values).unwrap().to_vec());
                }
                seen
            });
            for seen in all {
                for (round, values) in seen.into_iter().enumerate() {
                    assert_eq!(values, (0..size).map(|seat| (round, seat)).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn a_sum_is_taken_in_one_order() {
        let numbers = [1e8f32, 1.0, -1e8, 3.0];
        let expected = numbers.iter().sum::<f32>();
        for _ in 0..50 {
            let sums =
                together(4, |seat| *seat.meet(numbers[seat.number()], |values| values.iter().sum::<f32>()).unwrap());
            assert_eq!(sums, vec![expected; 4]);
        }
    }

    #[test]
    fn whoever_leaves_releases_those_who_wait() {
        let results = together(4, |seat| match seat.number() {
            2 => {
                seat.meet((), |_| ()).unwrap();
                Ok(())
            }
            _ => {
                seat.meet((), |_| ()).unwrap();
                seat.meet((), |_| ()).map(|_| ())
            }
        });
        let ended = |result: &Result<(), TrainError>| matches!(result, Err(TrainError::Ended));
        assert_eq!(results.iter().map(ended).collect::<Vec<_>>(), [true, true, false, true]);
    }

    #[test]
    fn a_panic_releases_those_who_wait() {
        // Of one of them, and of whoever makes the result.
        let results = together(3, |seat| {
            let number = seat.number();
            let work = AssertUnwindSafe(move || match number {
                1 => panic!("planned"),
                _ => seat.meet((), |_| ()).map(|_| ()),
            });
            catch_unwind(work).unwrap_or(Ok(()))
        });
        assert!(results[0].is_err() && results[2].is_err());
        let results = together(3, |seat| {
            let work = AssertUnwindSafe(move || seat.meet((), |_| panic!("planned")).map(|_: Arc<()>| ()));
            catch_unwind(work).map_err(|_| ())
        });
        assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
        assert!(results.iter().flatten().all(Result::is_err));
    }
}
