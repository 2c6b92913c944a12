//! Tests of `src`.

use super::*;

#[test]
fn the_interval_is_students() {
    let half = half_width_95(&[1.0, 2.0, 3.0]).unwrap();
    assert!((half - 4.302_653 / 3f64.sqrt()).abs() < 1e-5, "{half}");
    assert_eq!((half_width_95(&[1.0]), half_width_95(&[])), (None, None));
    assert_eq!(half_width_95(&[2.0, 2.0]), Some(0.0));
    assert_eq!(mean(&[1.0, 2.0]), 1.5);
}
