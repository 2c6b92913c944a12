//! Records of a step or an evaluation are gone when it is over, also where nothing goes back through them.

mod on_backbone;

use gorgon_train::config::LanguageLoss;
use gorgon_train::trainer::Objective;
use on_backbone::{loaded, medusa_two, step, stirred};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system allocator unchanged; only a number is kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are in use after some steps of one number beyond those after steps of another, which fill what is kept
/// for all later ones.
fn kept<O: Objective>(objective: &O, number: u64, after: u64) -> isize {
    let parameters = stirred(objective.parameters(3));
    let run = |number: u64| {
        (0..STEPS).for_each(|_| drop(step(objective, &parameters, number)));
        IN_USE.load(Ordering::Relaxed) as isize
    };
    let before = run(after);
    run(number) - before
}

/// Bytes that are in use after some evaluations beyond those after the first two, without a backward pass between them.
/// They run on one thread: others would get buffers of their own when their first turn comes.
fn kept_by_evaluations<O: Objective>(objective: &O) -> isize {
    let parameters = stirred(objective.parameters(3));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let run = |times: usize| {
        pool.install(|| (0..times).for_each(|_| drop(objective.evaluate(&parameters).unwrap())));
        IN_USE.load(Ordering::Relaxed) as isize
    };
    let before = run(2);
    run(EVALUATIONS) - before
}

const STEPS: usize = 12;
/// Enough for graphs of 190 kB each, if they were kept, to be seen.
const EVALUATIONS: usize = 48;

/// One test, since what others allocate meanwhile would count.
#[test]
fn steps_and_evaluations_keep_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let two = medusa_two(dir.path(), LanguageLoss::Kl);
    assert_eq!(two.phases(8).len(), 2, "it is frozen, then it is fitted");
    let (heads, eagle) = (on_backbone::heads(loaded()), on_backbone::eagle(loaded()));
    for (name, kept) in [
        ("Medusa-2 at rest", kept(&two, 0, 7)),
        ("Medusa-2 on the move", kept(&two, 7, 7)),
        ("Medusa", kept(&heads, 0, 0)),
        ("EAGLE", kept(&eagle, 0, 0)),
    ] {
        assert!(kept < 20_000, "{name}: {kept} bytes more after {STEPS} steps");
    }
    for (name, kept) in [("Medusa-2", kept_by_evaluations(&two)), ("EAGLE", kept_by_evaluations(&eagle))] {
        // Buffers are kept.
        assert!(kept < 3_000_000, "{name}: {kept} bytes more after {EVALUATIONS} evaluations");
    }
}
