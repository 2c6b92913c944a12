//! Records of a step for its gradients are gone when the step is over, also where nothing goes back through it.

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

const STEPS: usize = 12;

/// One test, since what others allocate meanwhile would count.
#[test]
fn steps_keep_nothing() {
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
}
