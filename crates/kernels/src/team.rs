//! A few threads that stand ready for very short work.
//!
//! A decode step is some thirty products of 2 to 200 microseconds, one after the other. Handing each to a general
//! thread pool costs about as much as it saves. Here helpers wait in a loop for some hundred microseconds after their
//! last work before they go to sleep, and the leader does the work itself while helpers take from it what they can: it
//! waits for a helper only to finish a piece that the helper has begun. A helper that the system puts aside in the
//! middle of a piece (another program uses its core) holds the leader up, so after such a wait the leader works alone
//! for some time, and helpers sleep: the loss stays within a few percent.

use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Multiply-adds worth handing to others: below this, one thread is done before another has noticed.
pub const WORTHWHILE: usize = 1 << 16;
/// Turns of the waiting loop before a helper sleeps: some hundred microseconds.
const PATIENCE: usize = 20_000;

/// Turns of the leader's waiting loop before it looks at a clock.
const PIECE: u64 = 2_000;
/// A longer wait for a helper shows that its core was needed elsewhere: pieces last some ten microseconds.
const HELD_UP: Duration = Duration::from_micros(200);
/// The leader then works alone for so many times the wait, and twice as many each time that it is held up again soon.
const REST: (u32, u32) = (4, 256);
const SOON: Duration = Duration::from_millis(50);

/// Runs `task(0)` to `task(tasks - 1)`, each once, in no fixed order, on the calling thread and as many others as its
/// rayon pool has. `work` is the number of multiply-adds of all tasks together. If the team is at work already, the
/// calling thread does everything.
///
/// # Panics
/// If a task panics.
pub fn run(tasks: usize, work: usize, task: impl Fn(usize) + Sync) {
    // Long pieces are waited for longer at the end: at ten multiply-adds a nanosecond nobody was held up.
    let piece = Duration::from_nanos((work / tasks.max(1) / 10) as u64);
    lead(tasks, work, HELD_UP + piece, task);
}

/// Runs one of `pieces` pieces of work that are done side by side. If there is one for each thread, [`run`] and its
/// like stay on the calling thread in it.
pub fn one_of<R>(pieces: usize, work: impl FnOnce() -> R) -> R {
    let before = ALONE.replace(ALONE.get() || pieces >= rayon::current_num_threads());
    // Put back on a panic too.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _before = Before(before);
    work()
}

/// Threads that [`run`] may use here.
pub fn threads() -> usize {
    if ALONE.get() { 1 } else { rayon::current_num_threads() }
}

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Variant in which the leader works alone for some time after it was held up for longer than `held_up`.
fn lead(tasks: usize, work: usize, held_up: Duration, task: impl Fn(usize) + Sync) {
    let threads = if work < WORTHWHILE || tasks < 2 { 1 } else { threads() };
    static TEAM: OnceLock<Team> = OnceLock::new();
    if threads < 2 || !TEAM.get_or_init(|| Team::new(threads - 1)).lead(tasks, threads - 1, held_up, &task) {
        (0..tasks).for_each(task);
    }
}

/// Runs `each` on every item, each once, in no fixed order, as [`run`] does. An item may be a long piece of work: that
/// a helper is waited for at the end is no sign of anything then.
///
/// # Panics
/// If an item's work panics.
pub fn each<T: Send>(items: &mut [T], work: usize, each: impl Fn(&mut T) + Sync) {
    let first = Items { first: items.as_mut_ptr() };
    // SAFETY: there are so many items, and each is handed to one task.
    lead(items.len(), work, Duration::MAX, |index| each(unsafe { first.item(index) }));
}

/// Runs `each` on every chunk of `size` values with its index, the last chunk shorter where it must be, as [`run`]
/// does.
///
/// # Panics
/// If `each` panics, or `size` is zero.
pub fn chunks<T: Send>(values: &mut [T], size: usize, work: usize, each: impl Fn(usize, &mut [T]) + Sync) {
    let (length, first) = (values.len(), Items { first: values.as_mut_ptr() });
    run(length.div_ceil(size), work, |index| {
        let start = index * size;
        // SAFETY: the chunk lies within the values, and each chunk is handed to one task.
        each(index, unsafe { first.items(start, size.min(length - start)) });
    });
}

/// Items of a slice, each looked at by one task.
struct Items<T> {
    first: *mut T,
}
// SAFETY: tasks get distinct items, which may be sent to other threads.
unsafe impl<T: Send> Sync for Items<T> {}

impl<T> Items<T> {
    /// # Safety
    /// `index` lies within the slice, and no other reference to the item is alive.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that it is the only one")]
    unsafe fn item(&self, index: usize) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.first.add(index) }
    }

    /// # Safety
    /// `count` items from `start` on lie within the slice, and no other reference to them is alive.
    #[expect(clippy::mut_from_ref, reason = "the caller promises that it is the only one")]
    unsafe fn items(&self, start: usize, count: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(start), count) }
    }
}

/// Work of a round: a borrowed closure whose lifetime the leader guards.
#[derive(Clone, Copy)]
struct Job {
    task: *const (dyn Fn(usize) + Sync + 'static),
    tasks: usize,
    helpers: usize,
}

/// A cache line of its own, so that threads that write one value do not slow those that read another.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    job: UnsafeCell<Option<Job>>,
    /// Odd while a job is open.
    epoch: Line<AtomicUsize>,
    /// The next task.
    next: Line<AtomicUsize>,
    /// Helpers that may be looking at the job.
    inside: Line<AtomicUsize>,
    asleep: Line<AtomicUsize>,
    led: AtomicBool,
    panicked: AtomicBool,
    /// Until when the leader works alone, in nanoseconds after `started`.
    resting: AtomicU64,
    /// How many times the wait it last did.
    rest: AtomicU32,
    started: Instant,
}
// SAFETY: `job` is written by the leader alone, while no job is open and no helper is inside; helpers read it while
// they are inside and have seen the epoch of an open job.
unsafe impl Sync for Shared {}
// SAFETY: the closure behind the pointer is `Sync`, and the leader outlives every use of it.
unsafe impl Send for Shared {}

struct Team {
    shared: &'static Shared,
    helpers: Vec<Thread>,
}

impl Team {
    /// Starts helpers; fewer than asked for where the system has no threads left. They live as long as the process.
    fn new(helpers: usize) -> Self {
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            job: UnsafeCell::new(None),
            epoch: Line(AtomicUsize::new(0)),
            next: Line(AtomicUsize::new(0)),
            inside: Line(AtomicUsize::new(0)),
            asleep: Line(AtomicUsize::new(0)),
            led: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            resting: AtomicU64::new(0),
            rest: AtomicU32::new(0),
            started: Instant::now(),
        }));
        let start = |index: usize| {
            let builder = std::thread::Builder::new().name(format!("gorgon-{index}"));
            builder.spawn(move || shared.help(index)).ok().map(|handle| handle.thread().clone())
        };
        Self { shared, helpers: (0..helpers).map_while(start).collect() }
    }

    /// Runs a job with at most `helpers` helpers; false if another one is being run or helpers rest.
    fn lead(&self, tasks: usize, helpers: usize, held_up: Duration, task: &(dyn Fn(usize) + Sync)) -> bool {
        let shared = self.shared;
        if shared.is_resting() || shared.led.swap(true, SeqCst) {
            return false;
        }
        let open = Open { shared, held_up };
        let task: *const (dyn Fn(usize) + Sync + '_) = task;
        // SAFETY: only the lifetime changes. `Open` closes the job and waits for helpers before this function returns
        // or unwinds, so nobody uses the pointer after the borrow. No helper is inside, since the last job was closed
        // that way.
        unsafe {
            let task = std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync)>(task);
            *shared.job.get() = Some(Job { task, tasks, helpers });
        }
        shared.next.0.store(0, SeqCst);
        shared.epoch.0.fetch_add(1, SeqCst);
        if shared.asleep.0.load(SeqCst) > 0 {
            self.helpers.iter().take(helpers).for_each(Thread::unpark);
        }
        // SAFETY: the closure is borrowed for this call.
        shared.take_tasks(tasks, unsafe { &*task });
        drop(open);
        assert!(!shared.panicked.swap(false, SeqCst), "a task of the team panicked");
        true
    }
}

/// An open job: closed when dropped, and then no helper is inside.
struct Open {
    shared: &'static Shared,
    held_up: Duration,
}

impl Drop for Open {
    fn drop(&mut self) {
        let shared = self.shared;
        if shared.epoch.0.load(SeqCst) % 2 == 1 {
            shared.epoch.0.fetch_add(1, SeqCst);
        }
        // A helper that enters from here on sees that the job is closed; one that entered before is waited for.
        let waited = wait_until(|| shared.inside.0.load(SeqCst) == 0);
        if waited > self.held_up {
            shared.rest_after(waited);
        }
        shared.led.store(false, SeqCst);
    }
}

impl Shared {
    fn is_resting(&self) -> bool {
        let until = self.resting.load(SeqCst);
        until > 0 && (self.started.elapsed().as_nanos() as u64) < until
    }

    fn rest_after(&self, waited: Duration) {
        let now = self.started.elapsed();
        let worked = now.saturating_sub(Duration::from_nanos(self.resting.load(SeqCst)));
        let again = worked < SOON + waited;
        let times = if again { (2 * self.rest.load(SeqCst)).clamp(REST.0, REST.1) } else { REST.0 };
        self.rest.store(times, SeqCst);
        let until = now + (waited * times).min(Duration::from_secs(1));
        self.resting.store(until.as_nanos() as u64, SeqCst);
    }

    fn take_tasks(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        loop {
            let index = self.next.0.fetch_add(1, SeqCst);
            if index >= tasks {
                return;
            }
            task(index);
        }
    }

    /// A helper's life.
    fn help(&self, helper: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait_for_job(seen);
            self.inside.0.fetch_add(1, SeqCst);
            if self.epoch.0.load(SeqCst) == seen {
                // SAFETY: the job was open after this helper was counted as inside, so the leader waits for it before
                // it touches the job or lets go of the closure.
                let work = unsafe { (*self.job.get()).map(|job| (job, &*job.task)) };
                if let Some((job, task)) = work.filter(|(job, _)| helper < job.helpers) {
                    let done = catch_unwind(AssertUnwindSafe(|| self.take_tasks(job.tasks, task)));
                    if done.is_err() {
                        self.panicked.store(true, SeqCst);
                    }
                }
            }
            self.inside.0.fetch_sub(1, SeqCst);
        }
    }

    /// The epoch of an open job other than `seen`.
    fn wait_for_job(&self, seen: usize) -> usize {
        loop {
            for _ in 0..PATIENCE {
                let epoch = self.epoch.0.load(SeqCst);
                if epoch != seen && epoch % 2 == 1 {
                    return epoch;
                }
                std::hint::spin_loop();
            }
            self.asleep.0.fetch_add(1, SeqCst);
            // A job that was opened before the leader could see this helper asleep is found here.
            let epoch = self.epoch.0.load(SeqCst);
            if epoch == seen || epoch.is_multiple_of(2) {
                std::thread::park();
            }
            self.asleep.0.fetch_sub(1, SeqCst);
        }
    }
}

/// Waits for something that is about to happen, and tells how long beyond the time of a piece.
fn wait_until(done: impl Fn() -> bool) -> Duration {
    let mut started = None;
    for turn in 0u64.. {
        if done() {
            break;
        }
        if turn == PIECE {
            started = Some(Instant::now());
        }
        // If it does not happen, the core may be needed to make it happen.
        if turn % PIECE == PIECE - 1 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
    started.map_or(Duration::ZERO, |started| started.elapsed())
}

#[cfg(test)]
mod tests;
