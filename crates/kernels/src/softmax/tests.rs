//! Tests of `softmax`.

use super::*;

#[test]
fn equals_the_definition() {
    for n in [1, 7, 16, 33, 1000] {
        let row: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.2).collect();
        let (max, sum) = normaliser(&row);
        assert_eq!(max, row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let want: f64 = row.iter().map(|&x| f64::from(x - max).exp()).sum();
        assert!((f64::from(sum) - want).abs() < 1e-5 * want, "{sum} {want}");
    }
    assert!(normaliser(&[1.0, f32::NAN, 2.0]).1.is_nan());
    assert_eq!(normaliser(&[f32::NEG_INFINITY; 3]).0, f32::NEG_INFINITY);
}
