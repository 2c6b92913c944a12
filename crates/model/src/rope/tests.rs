//! Tests of `rope`.

use super::*;

#[test]
fn linear_scaling_divides_positions() {
    let plain = RopeConfig { theta: 10_000.0, rotary_dim: 8, scaling: RopeScaling::None };
    let linear = RopeConfig { scaling: RopeScaling::Linear { factor: 4.0 }, ..plain };
    let (a, b) = (RopeTable::new(&plain), RopeTable::new(&linear));
    for p in 0..5 {
        for (x, y) in a.at(p).0.iter().zip(b.at(4 * p).0) {
            assert!((x - y).abs() < 1e-6);
        }
    }
    assert_eq!(b.half(), 4);
}

#[test]
fn llama3_scaling_has_three_bands() {
    let scaling = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_length: 64.0 };
    let config = RopeConfig { theta: 500_000.0, rotary_dim: 16, scaling };
    let plain = RopeConfig { scaling: RopeScaling::None, ..config }.frequencies();
    let ratios: Vec<f32> = config.frequencies().iter().zip(&plain).map(|(a, b)| a / b).collect();
    assert_eq!(ratios[0], 1.0);
    assert!(ratios[1] < 1.0 && ratios[1] > 0.125, "{ratios:?}");
    assert!(ratios[2..].iter().all(|&r| (r - 0.125).abs() < 1e-6), "{ratios:?}");
}

/// Positions in any order, across chunks and buckets, have the angles of their definition.
#[test]
fn angles_are_those_of_their_positions() {
    let config = RopeConfig { theta: 10_000.0, rotary_dim: 6, scaling: RopeScaling::None };
    let (table, frequencies) = (RopeTable::new(&config), config.frequencies());
    for position in [5000, 0, 255, 256, 767, 768, 1791, 1792, 200_000] {
        let (cos, sin) = table.at(position);
        for ((cos, sin), frequency) in cos.iter().zip(sin).zip(&frequencies) {
            assert_eq!((*sin, *cos), (position as f32 * frequency).sin_cos(), "{position}");
        }
    }
    let (cos, sin) = table.values(300);
    assert_eq!((cos.len(), &sin[299 * 3..]), (900, table.at(299).1));
}

/// Readers on several threads see one table.
#[test]
fn the_table_is_shared() {
    let config = RopeConfig { theta: 10_000.0, rotary_dim: 4, scaling: RopeScaling::None };
    let rope = Rope::new(&config);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|i| {
                scope.spawn({
                    let rope = &rope;
                    move || rope.table().at(300 + i).0.as_ptr() as usize
                })
            })
            .collect();
        let found: Vec<usize> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        assert_eq!(found, (0..4).map(|i| rope.table().at(300 + i).0.as_ptr() as usize).collect::<Vec<_>>());
    });
}
