//! Tests of `rope`.

use super::*;

#[test]
fn linear_scaling_divides_positions() {
    let plain = RopeConfig { theta: 10_000.0, rotary_dim: 8, scaling: RopeScaling::None };
    let linear = RopeConfig { scaling: RopeScaling::Linear { factor: 4.0 }, ..plain };
    let (a, b) = (RopeTable::new(&plain, 5), RopeTable::new(&linear, 17));
    for p in 0..5 {
        for (x, y) in a.at(p).0.iter().zip(b.at(4 * p).0) {
            assert!((x - y).abs() < 1e-6);
        }
    }
    assert_eq!((b.half(), b.positions()), (4, 17));
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
