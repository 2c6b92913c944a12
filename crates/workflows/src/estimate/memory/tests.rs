//! Tests of `memory`.

use super::*;
use std::path::Path;

#[test]
fn the_peak_is_seen_and_forgotten() {
    if !Path::new("/proc/self/clear_refs").exists() {
        eprintln!("SKIPPED: this system does not tell a process's peak");
        return;
    }
    let fill = |bytes: usize| std::hint::black_box(vec![1u8; bytes]);
    drop(fill(200 << 20));
    let watch = Watch::start();
    let peak = |watch: &Watch| watch.peak().unwrap() >> 20;
    // Other tests of this process use memory meanwhile, but less than was filled before.
    assert!(peak(&watch) < 150, "{}", peak(&watch));
    // The system counts pages in batches by thread, and may take some back meanwhile: a few per cent either way.
    // Another test of this process may begin a watch of its own meanwhile, which forgets the peak.
    let seen = (0..20).map(|_| {
        drop(fill(100 << 20));
        peak(&watch)
    });
    assert!(seen.into_iter().any(|peak| peak >= 95));
}
