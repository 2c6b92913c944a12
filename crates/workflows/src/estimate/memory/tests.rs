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
    assert!(peak(&watch) < 50, "{}", peak(&watch));
    drop(fill(100 << 20));
    // The system counts pages in batches by thread, and may take some back meanwhile: a few per cent either way.
    assert!((95..150).contains(&peak(&watch)), "{}", peak(&watch));
}
