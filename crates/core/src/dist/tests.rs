//! Tests of `dist`.

use super::*;

#[test]
fn argmax_takes_the_lowest_index_and_never_nan() {
    assert_eq!(argmax(&[1.0, 3.0, 3.0]), Some(1));
    assert_eq!(argmax(&[f32::NAN, -1.0, f32::NAN, -1.0]), Some(1));
    assert_eq!(argmax(&[f64::NAN]), None);
    assert_eq!(argmax::<f32>(&[]), None);
}

#[test]
fn top_indices_breaks_ties_by_index_and_puts_nan_last() {
    assert_eq!(top_indices(&[0.0, 2.0, 2.0, 1.0], 3), [1, 2, 3]);
    assert_eq!(top_indices(&[0.0, -0.0, 0.0], 2), [0, 1]);
    assert_eq!(top_indices(&[f32::NAN, 0.5, f32::NAN], 2), [1, 0]);
    assert_eq!(top_indices(&[1.0, 2.0], 9), [1, 0]);
    assert!(top_indices(&[1.0, 2.0], 0).is_empty());
}

#[test]
fn softmax_is_stable_and_total() {
    let far = softmax(&[1.0e38_f32, -1.0e38, 1.0e38], 1.0);
    assert_eq!(far, [0.5, 0.0, 0.5]);
    assert_eq!(softmax(&[0.0, f64::INFINITY, f64::INFINITY], 1.0), [0.0, 0.5, 0.5]);
    assert_eq!(softmax(&[f32::NAN, 1.0], 1.0), [0.0, 1.0]);
    assert_eq!(softmax(&[f32::NAN, f32::NAN], 1.0), [1.0, 0.0]);
    assert_eq!(softmax(&[f32::NEG_INFINITY, f32::NEG_INFINITY], 1.0), [1.0, 0.0]);
    assert_eq!(softmax(&[2.0, 5.0, 5.0], 0.0), [0.0, 1.0, 0.0]);
    assert_eq!(softmax(&[2.0, 5.0, 4.999], 1e-310), [0.0, 1.0, 0.0]);
    assert!(softmax::<f32>(&[], 1.0).is_empty());
    let p = softmax(&[1.0_f32, 2.0, 3.0], 0.5);
    let expected = [1.0, 2.0_f64.exp(), 4.0_f64.exp()].map(|w| w / (1.0 + 2.0_f64.exp() + 4.0_f64.exp()));
    assert!(p.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15));
}

#[test]
fn residual_is_none_when_exhausted_and_handles_other_lengths() {
    assert_eq!(residual(&[0.5, 0.5], &[0.5, 0.5]), None);
    assert_eq!(residual(&[0.5, 0.5], &[1.0]), Some(vec![0.0, 1.0].into()));
    assert_eq!(residual(&[0.25, 0.75], &[0.0, 0.5, 0.5]), Some(vec![0.5, 0.5].into()));
}

#[test]
fn distances_and_entropies_of_known_distributions() {
    let (p, q) = ([0.5, 0.5, 0.0], [0.25, 0.25, 0.5]);
    assert_eq!(total_variation(&p, &q), 0.5);
    assert_eq!(overlap(&p, &q), 0.5);
    assert!((entropy(&[0.25; 4]) - 4.0_f64.ln()).abs() < 1e-15);
    assert_eq!(entropy(&[1.0, 0.0]), 0.0);
    assert!((smoothed_entropy(&[1.0, 0.0]) + 1.00001_f64.ln()).abs() < 1e-15);
    assert_eq!(typical_filter(&[0.25; 4], 2.0, 8.0), [1.0, 0.0, 0.0, 0.0]);
}
