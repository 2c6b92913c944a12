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
        let found = search::<Infallible>(6, 1000, &mut random, &mut |skipped| Ok(sum(skipped))).unwrap();
        assert_eq!(found.score, worth.iter().filter(|&&worth| worth > 0.0).sum::<f64>());
        assert_eq!(sum(&found.skipped), found.score);
        assert!(found.evaluations <= 6 * (1 + 3 * 12) + 12, "{}", found.evaluations);
    }
}

#[test]
fn it_stops_after_so_many_evaluations() {
    let mut taken = 0;
    let mut rising = |_: &SkippedSublayers| -> Result<f64, Infallible> {
        taken += 1;
        Ok(f64::from(taken))
    };
    assert_eq!(search(4, 10, &mut SeededRandom::new(0), &mut rising).unwrap().evaluations, 10);
    let failing = search(4, 10, &mut SeededRandom::new(0), &mut |_| Err::<f64, _>("broken"));
    assert_eq!(failing.unwrap_err(), "broken");
}

/// A score with two tops: leaving out nothing is the lower one, and no single sub-layer leads away from it.
#[test]
fn a_top_that_is_not_the_first_is_found() {
    let planted = SkippedSublayers::none(4).toggled(1).toggled(2).toggled(6);
    for seed in 0..10 {
        let mut score = |skipped: &SkippedSublayers| -> Result<f64, Infallible> {
            let differing = |other: &SkippedSublayers| {
                let [[a, m], [b, n]] = [skipped.lists(), other.lists()];
                let apart = |a: &[usize], b: &[usize]| {
                    a.iter().filter(|x| !b.contains(x)).count() + b.iter().filter(|x| !a.contains(x)).count()
                };
                (apart(&a, &b) + apart(&m, &n)) as f64
            };
            Ok((1.0 - differing(&SkippedSublayers::none(4))).max(3.0 - differing(&planted)))
        };
        let found = search(4, 1000, &mut SeededRandom::new(seed), &mut score).unwrap();
        assert_eq!((found.skipped, found.score), (planted.clone(), 3.0), "seed {seed}");
    }
}

/// The best of many noisy scores is not believed: its set has to be the best again.
#[test]
fn a_lucky_score_does_not_win() {
    let lucky = SkippedSublayers::none(3).toggled(0);
    let (mut taken, mut seen) = (0, 0);
    let mut score = |skipped: &SkippedSublayers| -> Result<f64, Infallible> {
        taken += 1;
        let [attention, mlp] = skipped.lists();
        if *skipped == lucky {
            seen += 1;
            return Ok(if seen == 1 { 100.0 } else { -1.0 });
        }
        Ok((attention.len() + mlp.len()) as f64)
    };
    let found = search(3, 1000, &mut SeededRandom::new(1), &mut score).unwrap();
    assert!(found.score < 100.0 && found.skipped != lucky, "{found:?}");
    assert_eq!(found.evaluations, taken);
}
