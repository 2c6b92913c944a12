//! Tests of `thin`.

use super::*;

#[test]
fn a_column_keeps_its_ends_and_extremes() {
    let points = vec![(0.0, 5.0), (1.0, 3.0), (1.1, 9.0), (1.2, 4.0), (1.3, 0.5), (1.4, 2.0), (1.5, 3.5), (2.0, 1.0)];
    assert_eq!(thin(points), [(0.0, 5.0), (1.0, 3.0), (1.1, 9.0), (1.3, 0.5), (1.5, 3.5), (2.0, 1.0)]);
    let back = vec![(3.0, 1.0), (2.0, 2.0), (2.1, 2.0)];
    assert_eq!(thin(back.clone()), back);
    assert!(thin(vec![]).is_empty());
}

#[test]
fn long_lines_get_short() {
    let long: Vec<_> = (0..1_000_000).map(|i| (f64::from(i) / 1e4, f64::from(i % 97))).collect();
    assert!(thin(long).len() <= 400);
}
