//! Tests of `lanes`.

use super::*;

#[test]
fn exp_is_close_to_the_double_precision_one() {
    let mut worst = 0f64;
    for i in -870_000..880_000 {
        let x = i as f32 * 1e-4;
        let want = f64::from(x).exp();
        worst = worst.max((f64::from(exp(x)) - want).abs() / want);
    }
    assert!(worst < 2.5e-7, "relative error {worst:e}");
    assert_eq!(exp(-1e30), 0.0);
    assert_eq!(exp(1e30), f32::INFINITY);
    assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    assert_eq!(exp(0.0), 1.0);
    assert!(exp(f32::NAN).is_nan());
}

#[test]
fn tanh_is_close_to_the_double_precision_one() {
    for i in -200_000..200_000 {
        let x = i as f32 * 1e-4;
        let error = (f64::from(tanh(x)) - f64::from(x).tanh()).abs();
        assert!(error < 3e-7, "tanh({x}) is off by {error:e}");
    }
    assert!(tanh(f32::NAN).is_nan());
}

#[test]
fn sums_do_not_depend_on_what_follows() {
    let values: Vec<f32> = (0..77).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.013).collect();
    for n in 0..values.len() {
        let mut padded = values[..n].to_vec();
        padded.resize(n + 40, 9.0);
        assert_eq!(sum(&values[..n]).to_bits(), sum(&padded[..n]).to_bits());
        assert_eq!(dot(&values[..n], &values[..n]).to_bits(), dot(&padded[..n], &values[..n]).to_bits());
    }
}
