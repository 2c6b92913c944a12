//! Tests of `record`.

use super::*;

fn record(times: &[(usize, f64)]) -> CalibrationRecord {
    CalibrationRecord {
        drafting_tree: vec![],
        tree: vec![],
        accuracies: vec![],
        positions: 0,
        children: vec![],
        chain: vec![],
        decoded: vec![],
        rows: vec![],
        step_times: times
            .iter()
            .map(|&(nodes, seconds)| StepTime { nodes, seconds, draft_seconds: 0.0, spread: 0.0 })
            .collect(),
        expected_tokens_per_step: 1.0,
        expected_speedup: 1.0,
        threads: 1,
        device: "cpu".into(),
        dtype: "f32".into(),
    }
}

#[test]
fn costs_lie_between_the_measured_ones() {
    let record = record(&[(1, 2.0), (3, 4.0), (5, 6.0)]);
    let costs: Vec<f64> = [1, 2, 3, 4, 5, 10].iter().map(|&n| record.cost(n).unwrap()).collect();
    assert_eq!(costs, [1.0, 2.0, 2.0, 2.5, 3.0, 6.0]);
    assert_eq!(self::record(&[]).cost(3), None);
}

#[test]
fn a_record_that_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(CalibrationRecord::read(dir.path()).unwrap().is_none());
    let good = record(&[(1, 1.0), (2, 1.5)]);
    let write = |record: &CalibrationRecord| {
        std::fs::write(dir.path().join(FILE), serde_json::to_string(record).unwrap()).unwrap();
        CalibrationRecord::read(dir.path())
    };
    assert_eq!(write(&good).unwrap().unwrap().cost(2), Some(1.5));
    for bad in [record(&[(1, -1.0)]), record(&[(2, 1.0), (1, 1.0)]), record(&[(1, f64::MAX)])] {
        assert!(write(&bad).unwrap_err().to_string().contains(FILE));
    }
    let sealed = good.sealed().unwrap().to_string();
    for (from, to, reads) in [("", "", true), ("1.5", "1.25", false)] {
        std::fs::write(dir.path().join(FILE), sealed.replace(from, to)).unwrap();
        assert_eq!(CalibrationRecord::read(dir.path()).is_ok(), reads);
    }
    let mut bad = good.clone();
    bad.step_times[1].spread = -0.5;
    assert!(write(&bad).unwrap_err().to_string().contains("cannot spread by -0.5"));
    let mut bad = good;
    bad.chain = vec![1.5];
    assert!(write(&bad).unwrap_err().to_string().contains("1.5 is no share"));
    std::fs::write(dir.path().join(FILE), "{").unwrap();
    assert!(CalibrationRecord::read(dir.path()).is_err());
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = serde_json::to_string(&record(&[(1, 1.0)])).unwrap();
    std::fs::write(dir.path().join(FILE), text.replacen('{', "{\"threads\": 2,", 1)).unwrap();
    let error = CalibrationRecord::read(dir.path()).unwrap_err().to_string();
    assert!(error.contains("the key \"threads\" is there twice"), "{error}");
}
