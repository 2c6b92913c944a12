//! Ends waits that nothing can interrupt.
//!
//! If a device fails while communicators are made, or during a sum, the others wait in the library for ever. So each
//! replica reports when it enters the library and when it leaves. A thread checks whether one stays too long: longer
//! than a beginning may take, or long after another replica was lost. Then the process has to end, and a callback gets
//! the reason.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the first calls, which make communicators.
    pub beginning: Duration,
    /// For calls after another replica was lost. They may still fail by themselves.
    pub after_loss: Duration,
}

/// Replicas that wait for one that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Replicas that wait.
    pub waiting: Vec<usize>,
    /// Replicas that were lost, each with its reason.
    pub lost: Vec<(usize, String)>,
    /// How long they waited.
    pub waited: Duration,
}

/// Where a replica is.
#[derive(Clone, Debug)]
enum Place {
    Outside,
    /// Since when, and whether it is a beginning.
    Inside(Instant, bool),
    /// Since when, and why.
    Lost(Instant, String),
    /// It has finished.
    Done,
}

struct Watch {
    places: Mutex<Vec<Place>>,
    changed: Condvar,
}

/// A watched replica. Dropping it inside a call means that it is lost.
pub(crate) struct Watched {
    watch: Arc<Watch>,
    number: usize,
}

impl Watched {
    /// Watched replicas. `overdue` is called once, from a thread of its own, if one waits for too long.
    pub fn group_of(size: usize, patience: Patience, overdue: impl FnOnce(Overdue) + Send + 'static) -> Vec<Self> {
        let watch = Arc::new(Watch { places: Mutex::new(vec![Place::Outside; size]), changed: Condvar::new() });
        let own = watch.clone();
        std::thread::spawn(move || {
            if let Some(found) = own.wait_for_overdue(patience) {
                overdue(found);
            }
        });
        (0..size).map(|number| Self { watch: watch.clone(), number }).collect()
    }

    /// Runs `work`, which cannot be interrupted. `beginning`: it may take no longer than [`Patience::beginning`].
    pub fn during<R>(&self, beginning: bool, work: impl FnOnce() -> R) -> R {
        self.at(Place::Inside(Instant::now(), beginning));
        let done = work();
        self.at(Place::Outside);
        done
    }

    /// Reports that this replica is lost.
    pub fn lost(&self, reason: &str) {
        self.at(Place::Lost(Instant::now(), reason.to_owned()));
    }

    fn at(&self, place: Place) {
        self.watch.lock()[self.number] = place;
        self.watch.changed.notify_all();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let place = match &self.watch.lock()[self.number] {
            Place::Lost(..) => return,
            Place::Inside(..) => Place::Lost(Instant::now(), "it panicked".into()),
            Place::Outside | Place::Done => Place::Done,
        };
        self.at(place);
    }
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all replicas have finished, or one has waited too long.
    fn wait_for_overdue(&self, patience: Patience) -> Option<Overdue> {
        let mut places = self.lock();
        while places.iter().any(|place| matches!(place, Place::Outside | Place::Inside(..))) {
            let now = Instant::now();
            places = match until(&places, patience) {
                Some(end) if end <= now => return Some(overdue(&places, now)),
                Some(end) => {
                    let waited = self.changed.wait_timeout(places, end - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(places).unwrap_or_else(PoisonError::into_inner),
            };
        }
        None
    }
}

/// When the first replica will have waited too long, if nothing changes.
fn until(places: &[Place], patience: Patience) -> Option<Instant> {
    let lost = places.iter().filter_map(|place| if let Place::Lost(at, _) = place { Some(*at) } else { None }).min();
    let end = |place: &Place| {
        let Place::Inside(since, beginning) = place else { return None };
        let begun = beginning.then(|| *since + patience.beginning);
        begun.into_iter().chain(lost.map(|lost| lost.max(*since) + patience.after_loss)).min()
    };
    places.iter().filter_map(end).min()
}

fn overdue(places: &[Place], now: Instant) -> Overdue {
    let (mut waiting, mut lost, mut waited) = (vec![], vec![], Duration::ZERO);
    for (number, place) in places.iter().enumerate() {
        match place {
            Place::Inside(since, _) => {
                waiting.push(number);
                waited = waited.max(now.saturating_duration_since(*since));
            }
            Place::Lost(_, reason) => lost.push((number, reason.clone())),
            Place::Outside | Place::Done => {}
        }
    }
    Overdue { waiting, lost, waited }
}

#[cfg(test)]
mod tests;
