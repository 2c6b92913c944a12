//! Tests of `noise`.

use super::*;
use crate::dist::normalise;

/// The first numbers of seed 0: recorded texts depend on them, so they may never change.
#[test]
fn noise_is_pinned() {
    let noise = Noise::new(0, 0);
    let numbers = [(0, 0), (0, 1), (1, 0)].map(|(at, token)| noise.exponential(at, token));
    for (number, pinned) in numbers.iter().zip(PINNED) {
        assert!((number - pinned).abs() < 1e-12, "{numbers:?}");
    }
}

const PINNED: [f64; 3] = [0.5640104880055, 0.6050718614357246, 0.2820785256064153];

#[test]
fn sequences_positions_and_tokens_have_noise_of_their_own() {
    let noise = Noise::new(7, 3);
    let all = [
        noise.exponential(5, 2),
        noise.exponential(5, 3),
        noise.exponential(6, 2),
        Noise::new(7, 4).exponential(5, 2),
        Noise::new(8, 3).exponential(5, 2),
        noise.following().exponential(5, 2),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(a.is_finite() && *a > 0.0);
        assert!(all[..i].iter().all(|b| a != b), "{all:?}");
    }
    assert_ne!(hash([1, 2]), hash([2, 1]));
    assert_ne!(hash([0]), hash([0, 0]));
}

#[test]
fn picks_have_the_given_distribution() {
    let weights = [0.5, 0.0, 3.0, 1.5];
    let mut expected = weights;
    assert!(normalise(&mut expected));
    let (noise, n) = (Noise::new(1, 2), 100_000);
    let mut counts = [0_usize; 4];
    (0..n).for_each(|position| counts[noise.pick(position, &weights)] += 1);
    for (count, p) in counts.iter().zip(expected) {
        let (deviation, sigma) = (*count as f64 - n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
        assert!(deviation.abs() <= 4.5 * sigma, "{counts:?}");
    }
    assert_eq!((noise.pick(0, &[0.0, 0.0]), noise.pick(0, &[]), noise.pick(0, &[f64::NAN, 1.0])), (0, 0, 1));
}

/// The greatest `ln p + G` is the greatest `p/E`.
#[test]
fn a_pick_is_the_gumbel_argmax() {
    let weights = [0.2_f64, 0.3, 0.1, 0.4];
    for position in 0..1000 {
        let noise = Noise::new(5, 0);
        let gumbel = |token: usize| weights[token].ln() - noise.exponential(position, token as Token).ln();
        let best = (0..4).max_by(|&a, &b| gumbel(a).total_cmp(&gumbel(b)));
        assert_eq!(Some(noise.pick(position, &weights)), best);
    }
}
