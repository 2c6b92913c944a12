//! However long a record is, little of it is held.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::{self, Cursor, Read},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use gorgon_data::source::{Options, Reader};

/// Counts what is allocated.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator; the counters do not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many bytes reading takes at most, and the lines kept and skipped.
fn most_held(input: impl Read + Send + 'static) -> (usize, Vec<usize>, Vec<usize>) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let mut reader = Reader::new(Path::new("long"), Box::new(input), &Options::default()).unwrap();
    let kept = reader.by_ref().map(|conversation| conversation.unwrap().line).collect();
    let skipped = reader.report().skipped.iter().map(|skipped| skipped.line).collect();
    (MOST.load(Ordering::Relaxed) - before, kept, skipped)
}

// One test only, as others would allocate at the same time.
#[test]
fn a_record_that_is_too_long_is_not_held() {
    let text = |text: &'static str| Cursor::new(text.as_bytes());
    let long = |byte| io::repeat(byte).take(64 << 20);
    let open = "{\"prompt\": \"a\"}\n{\"prompt\": \"";
    let lines = text(open).chain(long(b'x')).chain(text("\"}\n{\"prompt\": \"c\"}\n"));
    let array =
        text("[\n{\"prompt\": \"a\"},\n{\"prompt\": \"").chain(long(b'x')).chain(text("\"},\n{\"prompt\": \"c\"}]"));
    let deep =
        text("[\n{\"prompt\": \"a\"},\n").chain(long(b'[')).chain(long(b']')).chain(text(",\n{\"prompt\": \"c\"}]"));
    for (what, (most, kept, skipped)) in
        [("lines", most_held(lines)), ("array", most_held(array)), ("deep", most_held(deep))]
    {
        // A buffer of 4 MiB that doubles as it grows, and some more.
        assert!(most < 13 << 20, "{what}: {most}");
        assert_eq!((kept.len(), skipped.len()), (2, 1), "{what}");
    }
}
