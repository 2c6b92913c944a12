//! Tests of `src`.

use super::*;

#[test]
fn an_even_number_has_its_median_between_the_two_in_the_middle() {
    assert_eq!(median(vec![]), None);
    assert_eq!(median(vec![3.0]), Some(3.0));
    assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
    assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), Some(3.0));
}

#[test]
fn the_interval_is_students() {
    let half = half_width_95(&[1.0, 2.0, 3.0]).unwrap();
    assert!((half - 4.302_653 / 3f64.sqrt()).abs() < 1e-5, "{half}");
    assert_eq!((half_width_95(&[1.0]), half_width_95(&[])), (None, None));
    assert_eq!(half_width_95(&[2.0, 2.0]), Some(0.0));
    assert_eq!(mean(&[1.0, 2.0]), 1.5);
}
