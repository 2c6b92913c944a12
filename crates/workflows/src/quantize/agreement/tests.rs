//! Tests of the divergence.

use super::divergence;

#[test]
fn divergence_is_that_of_the_distributions() {
    // ln 1, ln 2, ln 5 and a constant: probabilities 1/8, 2/8, 5/8.
    let p = [1f32, 2.0, 5.0].map(|weight| weight.ln() + 7.0);
    let q = [4f32, 3.0, 1.0].map(f32::ln);
    let expected: f64 =
        [(1.0, 4.0), (2.0, 3.0), (5.0, 1.0)].into_iter().map(|(p, q): (f64, f64)| p / 8.0 * (p / q).ln()).sum();
    let (found, same) = divergence(&p, &q).unwrap();
    assert!((found - expected).abs() < 1e-6 && !same, "{found} {expected}");
    let (found, same) = divergence(&p, &p).unwrap();
    assert!(found == 0.0 && same);
    assert!(divergence(&p, &[f32::NAN, 0.0, 0.0]).is_none());
    assert!(divergence(&[f32::INFINITY, 0.0, 0.0], &q).is_none());
}
