//! Tests of `transform`.

use super::*;

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-14)
}

#[test]
fn out_of_range_values_are_named() {
    assert!(Transform::new(-1.0, None, None).unwrap_err().to_string().contains("-1"));
    assert!(Transform::new(f64::NAN, None, None).is_err());
    assert_eq!(Transform::new(1.0, Some(0), None), Err(TransformError::TopK));
    assert_eq!(Transform::new(1.0, None, Some(1.5)), Err(TransformError::TopP(1.5)));
    assert!(Transform::new(1.0, None, Some(f64::NAN)).is_err());
}

#[test]
fn logits_and_probabilities_agree() {
    let logits = [0.5_f32, -1.0, 2.0, 0.0];
    let probabilities = softmax(&logits, 1.0);
    for (temperature, top_k, top_p) in
        [(1.0, None, None), (0.7, Some(3), None), (1.3, None, Some(0.8)), (0.0, None, None)]
    {
        let transform = Transform::new(temperature, top_k, top_p).unwrap();
        let from_logits = transform.apply(Row::Logits(&logits));
        assert!(close(&from_logits, &transform.apply(Row::Probabilities(&probabilities))));
    }
}

#[test]
fn ties_keep_lower_ids() {
    let flat = [0.25; 4];
    let top_k = Transform::new(1.0, Some(2), None).unwrap();
    assert_eq!(top_k.apply(Row::Probabilities(&flat)), [0.5, 0.5, 0.0, 0.0]);
    // The sum reaches 0.5 with the second token and exceeds it with the third, which therefore stays.
    let top_p = Transform::new(1.0, None, Some(0.5)).unwrap();
    assert!(close(&top_p.apply(Row::Probabilities(&flat)), &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]));
    let smallest = Transform::new(1.0, None, Some(0.0)).unwrap();
    assert_eq!(smallest.apply(Row::Probabilities(&flat)), [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_wide_nucleus_is_found_beyond_the_first_head() {
    let flat = vec![1.0; 1024];
    let p = Transform::new(1.0, None, Some(0.875)).unwrap().apply(Row::Probabilities(&flat));
    assert_eq!(p.iter().filter(|&&p| p > 0.0).count(), 897);
}

#[test]
fn invalid_rows_are_told_apart_and_never_panic() {
    assert!(Row::Logits(&[0.0, f32::NEG_INFINITY]).is_valid());
    for row in [&[f32::NAN, 0.0][..], &[f32::INFINITY, 0.0], &[f32::NEG_INFINITY], &[]] {
        assert!(!Row::Logits(row).is_valid());
        assert_eq!(Transform::IDENTITY.apply(Row::Logits(row)).len(), row.len());
    }
    assert!(Row::Probabilities(&[0.0, 2.0]).is_valid());
    for row in [&[f64::NAN, 1.0][..], &[-0.1, 1.1], &[0.0, 0.0], &[f64::INFINITY, 0.0], &[]] {
        assert!(!Row::Probabilities(row).is_valid());
        assert_eq!(Transform::IDENTITY.apply(Row::Probabilities(row)).len(), row.len());
    }
}
