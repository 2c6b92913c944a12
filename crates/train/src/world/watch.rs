//! Waits that nothing can interrupt: what devices do together inside a library ends for all of them or for none.
//!
//! A device that fails while communicators are made, or in the midst of a sum, leaves the others in the library for
//! ever. So each replica tells when it goes in and comes out, and a thread looks whether one is in there for longer
//! than it should be: longer than beginnings may take, or long after another replica was lost. Then the process has to
//! end, and whoever set the watch is told why.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For what is done together first, which takes a while anyway.
    pub beginning: Duration,
    /// For replicas that wait after another one was lost: it may be that they fail as well.
    pub after_loss: Duration,
}

/// Who waits for whom in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Replicas that wait.
    pub waiting: Vec<usize>,
    /// Replicas that were lost, and why, as far as it is known.
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
    /// It needs nobody any more.
    Done,
}

struct Watch {
    places: Mutex<Vec<Place>>,
    changed: Condvar,
}

/// A replica under watch. Dropping it while it panics means that it is lost.
pub(crate) struct Watched {
    watch: Arc<Watch>,
    number: usize,
}

impl Watched {
    /// Replicas under watch together. `overdue` is called once, from a thread of its own, if one waits in vain.
    pub fn group_of(size: usize, patience: Patience, overdue: impl FnOnce(Overdue) + Send + 'static) -> Vec<Self> {
        let watch = Arc::new(Watch { places: Mutex::new(vec![Place::Outside; size]), changed: Condvar::new() });
        let own = watch.clone();
        std::thread::spawn(move || {
            if let Some(found) = own.look(patience) {
                overdue(found);
            }
        });
        (0..size).map(|number| Self { watch: watch.clone(), number }).collect()
    }

    /// Does what cannot be interrupted; `beginning`: what may take no longer than a beginning.
    pub fn during<R>(&self, beginning: bool, work: impl FnOnce() -> R) -> R {
        self.at(Place::Inside(Instant::now(), beginning));
        let done = work();
        self.at(Place::Outside);
        done
    }

    /// Tells that this replica is lost, so that others wait for it in vain.
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

    /// Looks until all have gone, or one waits in vain.
    fn look(&self, patience: Patience) -> Option<Overdue> {
        let mut places = self.lock();
        while places.iter().any(|place| matches!(place, Place::Outside | Place::Inside(..))) {
            let now = Instant::now();
            places = match until(&places, patience) {
                Some(end) if end <= now => return Some(told(&places, now)),
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

/// When somebody will have waited too long, if all stays as it is.
fn until(places: &[Place], patience: Patience) -> Option<Instant> {
    let lost = places.iter().filter_map(|place| if let Place::Lost(at, _) = place { Some(*at) } else { None }).min();
    let end = |place: &Place| {
        let Place::Inside(since, beginning) = place else { return None };
        let begun = beginning.then(|| *since + patience.beginning);
        begun.into_iter().chain(lost.map(|lost| lost.max(*since) + patience.after_loss)).min()
    };
    places.iter().filter_map(end).min()
}

fn told(places: &[Place], now: Instant) -> Overdue {
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
