//! Tests of `step_times`.

use super::*;

#[test]
fn medians_that_grow_stay_as_they_are() {
    let samples: [&[f64]; 3] = [&[1.1, 1.2, 9.0], &[1.3], &[2.0, 3.0, 4.0, 5.0]];
    let found = growing(&samples);
    assert_eq!(found.iter().map(|x| x.0).collect::<Vec<_>>(), [1.2, 1.3, 3.0]);
    assert!((found[0].1 - (9.0 / 1.2 - 1.0)).abs() < 1e-12 && found[1].1 == 0.0);
    assert!((found[2].1 - (4.0 / 3.0 - 1.0)).abs() < 1e-12);
    assert!(growing(&[]).is_empty());
}

/// The second size was measured while something else ran: it is told with the two beside it.
#[test]
fn sizes_that_would_take_less_time_with_more_nodes_are_pooled() {
    let samples: [&[f64]; 4] = [&[1.5, 1.6, 1.7], &[3.0, 3.1, 3.2], &[1.8, 1.9, 2.0], &[4.0]];
    let found: Vec<f64> = growing(&samples).iter().map(|x| x.0).collect();
    assert_eq!(found, [1.6, 2.0, 2.0, 4.0]);
    // What is pooled may have to be pooled with what was before.
    let samples: [&[f64]; 3] = [&[2.0], &[3.0], &[1.5]];
    assert_eq!(growing(&samples).iter().map(|x| x.0).collect::<Vec<_>>(), [2.0; 3]);
}

/// Medians of what is pooled minimise the sum of distances: no other growing sequence on a grid is nearer.
#[test]
fn pooling_is_the_nearest_growing_sequence() {
    let mut state = 7u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + ((state >> 33) % 5) as f64
    };
    for _ in 0..200 {
        let samples: Vec<Vec<f64>> = (0..3).map(|_| (0..3).map(|_| draw()).collect()).collect();
        let views: Vec<&[f64]> = samples.iter().map(Vec::as_slice).collect();
        let distance = |levels: &[f64]| -> f64 {
            let of = |(sample, level): (&Vec<f64>, &f64)| sample.iter().map(|x| (x - level).abs()).sum::<f64>();
            samples.iter().zip(levels).map(of).sum()
        };
        let found: Vec<f64> = growing(&views).iter().map(|x| x.0).collect();
        assert!(found.is_sorted());
        for grid in 0..125usize {
            let levels = [grid / 25, grid / 5 % 5, grid % 5].map(|level| 1.0 + level as f64);
            assert!(!levels.is_sorted() || distance(&found) <= distance(&levels) + 1e-9, "{samples:?} {levels:?}");
        }
    }
}

#[test]
fn no_step_is_faster_than_a_plain_one() {
    assert_eq!(growing(&[&[0.7, 0.8], &[0.9]]).iter().map(|x| x.0).collect::<Vec<_>>(), [1.0, 1.0]);
}

#[test]
fn times_are_ratios_times_a_plain_step() {
    let pairs = |ratios: &[f64], share: f64| Pairs { ratios: ratios.to_vec(), drafting: vec![share; ratios.len()] };
    let all = [pairs(&[1.5, 1.5, 3.0], 0.2), pairs(&[], 0.0), pairs(&[2.0], 0.5)];
    let found = times(&[2, 3, 4], &all, 0.01);
    assert_eq!(found.iter().map(|time| time.nodes).collect::<Vec<_>>(), [1, 2, 4]);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(near(found[1].seconds, 0.015) && near(found[1].draft_seconds, 0.003) && near(found[1].spread, 1.0));
    assert!(near(found[2].seconds, 0.02) && near(found[2].draft_seconds, 0.01) && found[2].spread == 0.0);
    assert!(!found[1].believes(1.9) && found[1].believes(2.1));
}
