//! Tests of `k_seq`.

use super::*;

#[test]
fn rho_lies_between_one_and_k_and_is_where_the_residual_touches_zero() {
    let (p, q) = ([0.1, 0.2, 0.7], [0.5, 0.3, 0.2]);
    for tries in 2..6 {
        let rho = smallest_rho(&p, &q, tries);
        assert!(rho > 1.0 && rho < tries as f64);
        // The fixed point of SpecTr: 1-(1-β)^k = ρβ.
        let beta = acceptance(&p, &q, rho);
        assert!((1.0 - (1.0 - beta).powi(tries as i32) - rho * beta).abs() < 1e-14);
    }
}

#[test]
fn rho_of_extreme_pairs() {
    assert_eq!(smallest_rho(&[0.5, 0.5], &[0.9, 0.1], 1), 1.0);
    assert_eq!(smallest_rho(&[1.0, 0.0], &[0.0, 1.0], 4), 1.0, "disjoint: nothing is ever accepted");
    assert_eq!(smallest_rho(&[0.5, 0.5], &[0.5, 0.5], 4), 1.0, "equal: the first draft is always accepted");
    assert_eq!(smallest_rho(&[0.9, 0.1, 0.0], &[0.1, 0.0, 0.9], 2), 1.0, "what overlaps is wanted many times over");
}

/// Equal rows whose sums are rounded: still nothing that is drafted is rejected.
#[test]
fn rounding_rejects_no_draft_of_equal_rows() {
    let weights: Vec<f64> = (1..300).map(|i| 1.0 / f64::from(i * i % 97 + 1)).collect();
    let sum: f64 = weights.iter().sum();
    let row: Vec<f64> = weights.iter().map(|weight| weight / sum * (1.0 - 3.0 * f64::EPSILON)).collect();
    assert_eq!(smallest_rho(&row, &row, 10), 1.0);
}
