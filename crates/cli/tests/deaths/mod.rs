//! Killing the program: at random moments, and at named points.
#![allow(dead_code)] // each test file uses its part

use crate::chain::start;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

/// How often each job is killed at random moments: few by default, `GORGON_TEST_KILLS` for more.
pub fn kills() -> u32 {
    std::env::var("GORGON_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(5)
}

/// A sequence of delays in milliseconds, the same in every run.
pub fn delays(longest: u64) -> impl Iterator<Item = Duration> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis((state >> 33) % longest)
    })
}

/// Starts the program and kills it after a while. Returns whether it was killed at work.
pub fn kill_after(args: &[&str], delay: Duration) -> bool {
    let mut child = start(args, &[]);
    std::thread::sleep(delay);
    let _ = child.kill();
    child.wait_with_output().unwrap().status.signal() == Some(9)
}

/// Runs the program to a named point, where it dies. Returns false if it never got there.
pub fn dies_at(args: &[&str], point: &str, occurrence: usize) -> bool {
    let at = format!("{point}:{occurrence}");
    let output = start(args, &[("GORGON_CRASH_AT", &at)]).wait_with_output().unwrap();
    let killed = output.status.signal() == Some(9);
    assert!(killed || output.status.success(), "{at}: {}", String::from_utf8_lossy(&output.stderr));
    killed
}

pub const POINTS: [&str; 3] = ["after-write", "before-rename", "before-folder-sync"];
