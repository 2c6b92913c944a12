//! Tests of `slack`.

use super::*;

#[test]
fn balance_makes_the_output_distribution_the_stated_one() {
    let (p, q, alpha) = ([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], 0.25);
    let beta = balanced_beta(&p, &q, alpha).unwrap();
    let output = lossy_distribution(&p, &q, alpha, beta);
    let stated = p.iter().zip(&q).map(|(&p, &q)| f64::max(q.min(p / (1.0 - alpha)), p / beta));
    assert!(output.iter().zip(stated).all(|(a, b)| (a - b).abs() < 1e-14));
}

#[test]
fn without_slack_one_balances_and_the_output_is_the_targets() {
    let (p, q) = ([0.1, 0.2, 0.7], [0.6, 0.3, 0.1]);
    assert!((balanced_beta(&p, &q, 0.0).unwrap() - 1.0).abs() < 1e-14);
    assert!(lossy_distribution(&p, &q, 0.0, 1.0).iter().zip(p).all(|(a, b)| (a - b).abs() < 1e-15));
}

#[test]
fn a_draft_that_is_always_accepted_needs_no_balance() {
    // q stays below p/(1-α) everywhere, but lacks a token: p/β never vanishes there.
    assert_eq!(balanced_beta(&[0.1, 0.9], &[0.0, 1.0], 0.5), None);
}
