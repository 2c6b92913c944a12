//! Tests of `bench_record`.

use super::*;
use std::fs::File;
use std::time::{Duration, SystemTime};

fn record(lossless: bool, pairs: usize) -> BenchRecord {
    let machine = Machine { device: "cpu".into(), cpu: "x".into(), threads: 2, dtype: "f32".into() };
    let all = TaskRecord {
        tokens_per_step: 2.0,
        speedup: 1.5,
        speedup_range: (1.4, 1.6),
        plain_tokens_per_second: 10.0,
        drafted_tokens_per_second: 15.0,
        same_text: pairs,
        pairs,
    };
    BenchRecord {
        gorgon: "1".into(),
        started: "2026-01-01T00:00:00Z".into(),
        machine,
        prompts: "p.jsonl".into(),
        tree: "chain:2".into(),
        named_tree: false,
        accept: "auto".into(),
        lossless,
        temperature: 0.0,
        all,
        tasks: BTreeMap::new(),
    }
}

#[test]
fn a_better_measurement_stays() {
    let dir = tempfile::tempdir().unwrap();
    let weights = dir.path().join("model.safetensors");
    let before = SystemTime::now() - Duration::from_secs(60);
    File::create(&weights).unwrap().set_modified(before).unwrap();
    let stored = |record: BenchRecord| {
        record.store(dir.path());
        let found = BenchRecord::read(dir.path()).unwrap();
        (found.lossless, found.all.pairs)
    };
    assert_eq!(stored(record(false, 500)), (false, 500));
    assert_eq!(stored(record(true, 60)), (true, 60), "lossless");
    assert_eq!(stored(record(true, 3)), (true, 60), "fewer runs");
    assert_eq!(stored(record(false, 500)), (true, 60), "lossy");
    assert_eq!(stored(record(true, 60)), (true, 60));
    assert_eq!(stored(record(true, 61)), (true, 61));
    let named = BenchRecord { named_tree: true, ..record(true, 500) };
    assert_eq!(stored(named), (true, 61), "another tree than the heads' own");
    // The heads were fitted anew since.
    File::create(&weights).unwrap().set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
    assert_eq!(stored(record(false, 3)), (false, 3));
}

/// Records of earlier versions are of lossless rules as far as anyone knows.
#[test]
fn records_without_the_mark_are_read() {
    let mut document = serde_json::to_value(record(true, 5)).unwrap();
    document.as_object_mut().unwrap().remove("lossless");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(FILE), document.to_string()).unwrap();
    assert_eq!(BenchRecord::read(dir.path()), Some(record(true, 5)));
}
