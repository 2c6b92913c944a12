//! Tests of `row_calibration`.

use super::*;

/// Numbers in `[0, 1)` from a linear congruence.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A row of 32 logits, its true probabilities, and the 8 best candidates as a drafter of sharpness `sharpness` has them.
fn drawn(numbers: &mut Numbers, sharpness: f64) -> (Vec<f64>, Vec<Candidate>) {
    let logits: Vec<f64> = (0..32).map(|_| 6.0 * numbers.next()).collect();
    let softmax = |scale: f64| {
        let powers: Vec<f64> = logits.iter().map(|logit| (scale * logit).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(|power| power / sum).collect::<Vec<f64>>()
    };
    let mut row: Vec<Candidate> =
        (0..).zip(softmax(sharpness)).map(|(token, probability)| Candidate { token, probability }).collect();
    row.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    row.truncate(8);
    (softmax(1.0), row)
}

fn came(numbers: &mut Numbers, truth: &[f64]) -> Token {
    let mut left = numbers.next();
    truth
        .iter()
        .position(|p| {
            left -= p;
            left < 0.0
        })
        .unwrap_or(truth.len() - 1) as Token
}

#[test]
fn a_drafter_that_is_right_is_left_alone() {
    let mut numbers = Numbers(1);
    let (_, row) = drawn(&mut numbers, 1.0);
    for (before, after) in row.iter().zip(&RowCalibration::new().corrected(0, &row, &[])[..]) {
        assert!((before.probability - after.probability).abs() < 1e-12 && before.token == after.token);
    }
}

#[test]
fn a_drafter_that_is_too_sure_is_corrected() {
    let mut numbers = Numbers(2);
    let mut calibration = RowCalibration::new();
    for _ in 0..4000 {
        let (truth, row) = drawn(&mut numbers, 2.0);
        let token = came(&mut numbers, &truth);
        calibration.learn(1, &row, &[], token);
    }
    let (mut own, mut corrected) = (0.0, 0.0);
    for _ in 0..2000 {
        let (truth, row) = drawn(&mut numbers, 2.0);
        let first = truth[row[0].token as usize];
        own += (row[0].probability - first).abs();
        corrected += (calibration.corrected(1, &row, &[])[0].probability - first).abs();
    }
    assert!(corrected < 0.35 * own, "error {corrected} where it was {own}");
    let learned = calibration.at(1);
    assert!((0.4..0.75).contains(&learned.sharpness), "{learned:?}");
    assert_eq!(calibration.at(0), DepthCalibration::default());
}

#[test]
fn rows_that_make_no_sense_do_no_harm() {
    let mut calibration = RowCalibration::new();
    let row = [f64::NAN, 2.0, -1.0, 0.0].map(|probability| Candidate { token: 7, probability });
    for depth in [0, 3, MAX_DEPTH, usize::MAX] {
        for came in [7, 8] {
            calibration.learn(depth, &row, &[f64::INFINITY, f64::NAN], came);
            calibration.learn(depth, &[], &[], came);
        }
        assert!(calibration.corrected(depth, &row, &[f64::NAN]).iter().all(|c| (0.0..=1.0).contains(&c.probability)));
        assert!(calibration.corrected(depth, &[], &[]).is_empty());
    }
    assert!(calibration.depths.iter().all(|at| at.sharpness.is_finite() && at.shift.is_finite()));
}

#[test]
fn start_values_are_checked() {
    let mut calibration = RowCalibration::new();
    let row = [Candidate { token: 1, probability: 0.9 }];
    (0..50).for_each(|_| calibration.learn(0, &row, &[], 2));
    assert_eq!(RowCalibration::starting_at(&calibration.depths), calibration);
    let wrong = DepthCalibration { sharpness: f64::NAN, ..DepthCalibration::default() };
    let sharp = DepthCalibration { sharpness: 1e9, ..DepthCalibration::default() };
    let read = RowCalibration::starting_at(&[wrong, sharp]);
    assert_eq!(read.at(0), DepthCalibration::default());
    assert!((read.at(1).sharpness - 10.0).abs() < 1e-12);
}

/// Of two tokens that a drafter believes in equally, the one that the tokens before speak for comes.
#[test]
fn evidence_is_weighed_as_far_as_it_is_right() {
    let row = [1, 2].map(|token| Candidate { token, probability: 0.45 });
    let evidence = [-1.0, 2.0];
    let first = RowCalibration::new().corrected(0, &row, &evidence);
    assert_eq!(first[0].token, 2, "the order is that of the corrected probabilities");
    let (mut right, mut wrong) = (RowCalibration::new(), RowCalibration::new());
    for _ in 0..200 {
        right.learn(0, &row, &evidence, 2);
        wrong.learn(0, &row, &evidence, 1);
    }
    assert!(right.at(0).evidence > 0.9 && wrong.at(0).evidence < 0.1, "{right:?} {wrong:?}");
    assert!(right.corrected(0, &row, &evidence)[0].probability > first[0].probability);
}
