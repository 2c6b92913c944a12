//! Tests of `position_bias`.

use super::*;

/// Distances at which another bucket begins.
fn boundaries(side: PositionBuckets, first: usize) -> Vec<usize> {
    (first..200).filter(|&distance| bucket(side, distance) != bucket(side, distance - 1)).collect()
}

#[test]
fn buckets_begin_where_those_of_trained_models_do() {
    let decoder = PositionBuckets { count: 32, max_distance: 128 };
    assert!((0..16).all(|distance| bucket(decoder, distance) == distance));
    assert_eq!(boundaries(decoder, 16), [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]);
    assert_eq!((farthest(decoder), bucket(decoder, 5000)), (113, 31));
    let encoder = PositionBuckets { count: 16, max_distance: 128 };
    assert!((0..8).all(|distance| bucket(encoder, distance) == distance));
    assert_eq!(boundaries(encoder, 8), [8, 12, 16, 23, 32, 46, 64, 91]);
    assert_eq!((farthest(encoder), bucket(encoder, 91)), (91, 15));
}

/// Every count and distance that a config may have gives buckets that never fall, and that end with the last one.
#[test]
fn buckets_never_fall() {
    for count in [2, 3, 5, 16, 33] {
        for max_distance in [count / 2 + 1, 40, 1000] {
            let side = PositionBuckets { count, max_distance: max_distance.max(count + 1) };
            let all: Vec<usize> = (0..2000).map(|distance| bucket(side, distance)).collect();
            assert!(all.windows(2).all(|pair| pair[0] <= pair[1]), "{side:?}");
            assert_eq!(all.last(), Some(&(count - 1)), "{side:?}");
            let far = farthest(side);
            assert!(all[far..].iter().all(|&bucket| bucket == count - 1), "{side:?}");
        }
    }
}
