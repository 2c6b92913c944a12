use super::*;
use gorgon_core::accept::random::SeededRandom;
use std::convert::Infallible;

#[test]
fn a_separable_score_has_its_maximum_found() {
    for seed in 0..20_i32 {
        let worth: Vec<f64> = (0..12).map(|i| f64::from((i * 37 + seed * 11) % 23) - 11.0).collect();
        let sum = |skipped: &SkippedSublayers| -> f64 {
            let [attention, mlp] = skipped.lists();
            attention.iter().map(|&layer| worth[layer]).chain(mlp.iter().map(|&layer| worth[6 + layer])).sum()
        };
        let mut random = SeededRandom::new(seed.unsigned_abs().into());
        let found = climb::<Infallible>(6, 1000, &mut random, &mut |skipped| Ok(sum(skipped))).unwrap();
        assert_eq!(found.score, worth.iter().filter(|&&worth| worth > 0.0).sum::<f64>());
        assert_eq!(sum(&found.skipped), found.score);
        assert!(found.evaluations <= 1 + 2 * 12, "{}", found.evaluations);
    }
}

#[test]
fn it_stops_after_so_many_evaluations() {
    let mut taken = 0;
    let mut rising = |_: &SkippedSublayers| -> Result<f64, Infallible> {
        taken += 1;
        Ok(f64::from(taken))
    };
    assert_eq!(climb(4, 10, &mut SeededRandom::new(0), &mut rising).unwrap().evaluations, 10);
    let failing = climb(4, 10, &mut SeededRandom::new(0), &mut |_| Err::<f64, _>("broken"));
    assert_eq!(failing.unwrap_err(), "broken");
}
