//! Tests of `metrics`.

use super::*;
use serde_json::json;
use std::fs;

fn steps(path: &Path) -> Vec<u64> {
    read(path).unwrap().iter().map(|record| record["step"].as_u64().unwrap()).collect()
}

#[test]
fn a_torn_last_line_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.jsonl");
    let whole = "{\"step\":1}\n{\"step\":2}\n";
    let long = format!("{{\"step\":3,\"x\":\"{}", "x".repeat(3 * BLOCK as usize));
    for torn in ["", "{", "{\"step\":3", "{\"step\":3}", "\n", "{\"st\0\0\0\n", "\0\0\0\0", "7\n", &long] {
        fs::write(&path, format!("{whole}{torn}")).unwrap();
        assert_eq!(steps(&path), [1, 2], "{torn:?}");
        let mut metrics = Metrics::append(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole, "{torn:?}");
        metrics.record(&json!({"step": 4})).unwrap();
        assert_eq!(steps(&path), [1, 2, 4]);
        // Alone in the file, too.
        fs::write(&path, torn).unwrap();
        Metrics::append(&path).unwrap().record(&json!({"step": 5})).unwrap();
        assert_eq!(steps(&path), [5], "{torn:?}");
    }
}

#[test]
fn other_files_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    fs::write(&path, "this\nis\nno file\nof metrics\n").unwrap();
    assert!(Metrics::append(&path).unwrap_err().to_string().contains("notes.txt"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "this\nis\nno file\nof metrics\n");
    fs::write(&path, "{\"a\":1}\nwrong\n{\"a\":2}\n").unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("line 2"));
    assert!(read(&dir.path().join("none")).unwrap_err().to_string().contains("none"));
}

#[test]
fn later_steps_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.jsonl");
    let mut metrics = Metrics::append(&path).unwrap();
    metrics.record(&json!({"event": "started"})).unwrap();
    for step in 1..=5 {
        metrics.record(&json!({"step": step, "loss": 0.1 + f64::from(step), "none": f64::NAN})).unwrap();
    }
    assert!(metrics.record(&7).is_err());
    metrics.sync().unwrap();
    let before = fs::read_to_string(&path).unwrap();
    metrics.truncate_after(5).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    metrics.truncate_after(3).unwrap();
    let three: String = before.lines().take(4).flat_map(|line| [line, "\n"]).collect();
    assert_eq!(fs::read_to_string(&path).unwrap(), three);
    metrics.record(&json!({"step": 4})).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), three + "{\"step\":4}\n");
    let records = read(&path).unwrap();
    assert_eq!(records.len(), 5);
    assert_eq!(records[1]["none"], Value::Null);
}
