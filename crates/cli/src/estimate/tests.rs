//! Tests of `estimate`.

use super::*;

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

#[test]
fn a_folder_is_as_large_as_its_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("a")).unwrap();
    std::fs::write(dir.path().join("a/b"), [0; 300]).unwrap();
    std::fs::write(dir.path().join("c"), [0; 70]).unwrap();
    assert_eq!(folder_bytes(dir.path()), 370);
    assert_eq!(folder_bytes(&dir.path().join("nowhere")), 0);
}
