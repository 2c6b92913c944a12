//! Tests of `measure`.

use super::*;

#[test]
fn percentiles_are_values_that_were_seen() {
    let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    assert_eq!(percentiles(values), [50.0, 95.0, 99.0]);
    assert_eq!(percentiles(vec![3.0]), [3.0; 3]);
    assert_eq!(percentiles(vec![]), [0.0; 3]);
}

#[test]
fn a_summary_adds_up_what_clients_saw() {
    let one = Seen {
        first: Some(Duration::from_secs(2)),
        tokens: 11.0,
        steps: 5.0,
        drafted: 20.0,
        accepted: 5.0,
        gaps: vec![0.5],
    };
    let found = summary(2, &[one.clone(), Seen { first: Some(Duration::from_secs(1)), ..one }], 1, 4.0);
    assert_eq!((found.answers, found.failed, found.tokens_per_second), (2, 1, 5.5));
    assert_eq!((found.first, found.gaps), ([1.0, 2.0, 2.0], [0.5; 3]));
    assert_eq!((found.tokens_per_step, found.acceptance), (Some(2.0), Some(0.25)));
    assert_eq!(chart("m", &[found]).series[0].points, [(2.0, 5.5)]);
}
