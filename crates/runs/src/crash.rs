//! A test hook: the process dies at a named point, as if it had been killed with `kill -9` there.
//!
//! With the environment variable `GORGON_CRASH_AT=<point>:<n>`, the n-th time (from 1) that the process reaches the
//! point is its end: nothing is flushed, dropped or cleaned up. With `<point>:<n>:panic` it panics there instead, as a
//! defect of the program would. Tests start a child with it and look at what the child left behind. Without the
//! variable, a point costs one look at a value that is read once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that names the point.
const VARIABLE: &str = "GORGON_CRASH_AT";

/// Where a process can be made to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// All bytes are written, under a temporary name, perhaps not on the disk yet.
    AfterWrite,
    /// Everything is on the disk, under a temporary name.
    BeforeRename,
    /// Everything has its final name, which is perhaps not on the disk yet.
    BeforeFolderSync,
}

impl Point {
    /// Every point.
    pub const ALL: [Self; 3] = [Self::AfterWrite, Self::BeforeRename, Self::BeforeFolderSync];

    /// Its name in `GORGON_CRASH_AT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AfterWrite => "after-write",
            Self::BeforeRename => "before-rename",
            Self::BeforeFolderSync => "before-folder-sync",
        }
    }
}

/// Marks a point: the process dies here when it was asked to.
pub(crate) fn at(point: Point) {
    static ASKED: OnceLock<Option<(Point, u64, bool)>> = OnceLock::new();
    static REACHED: AtomicU64 = AtomicU64::new(0);
    let asked = ASKED.get_or_init(|| std::env::var(VARIABLE).ok().and_then(|value| parse(&value)));
    if let Some((fatal, occurrence, panics)) = *asked
        && fatal == point
        && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == occurrence
    {
        assert!(!panics, "{VARIABLE} asked for a panic");
        die();
    }
}

/// The point, the occurrence, and whether to panic there.
fn parse(value: &str) -> Option<(Point, u64, bool)> {
    let (name, occurrence) = value.split_once(':')?;
    let (occurrence, panics) = match occurrence.strip_suffix(":panic") {
        Some(occurrence) => (occurrence, true),
        None => (occurrence, false),
    };
    let point = Point::ALL.into_iter().find(|point| point.name() == name)?;
    Some((point, occurrence.parse().ok()?, panics))
}

fn die() -> ! {
    #[cfg(unix)]
    {
        use rustix::process::{Signal, getpid, kill_process};
        // This signal cannot be caught: the call does not return.
        let _ = kill_process(getpid(), Signal::KILL);
    }
    std::process::abort()
}

#[cfg(test)]
mod tests;
