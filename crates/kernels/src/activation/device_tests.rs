//! The gate on a GPU against the definition, and against the same work in several launches.

use super::{Activation, gate, reference};
use crate::device::tests::{device, value, values_of};
use crate::partial_sums::PartialSums;
use crate::partial_sums::device_tests::{formats, parts};
use burn::tensor::DType;

/// One launch has the bits of two, is near the definition, and a row has the bits that it has alone.
#[test]
fn a_gate_adds_up_the_parts_of_its_input() {
    let Some(device) = device() else { return };
    for (dtype, round) in formats(&device) {
        for kind in [Activation::Silu, Activation::GeluTanh] {
            for (rows, d, count) in [(3, 40, 2), (2, 300, 5)] {
                let size = rows * 2 * d;
                let sums: Vec<f32> = (0..count * size).map(|i| value(i * 7 + 1)).collect();
                let all = values_of(gate(kind, parts(&sums, [1, rows, 2 * d], dtype, &device)));
                let whole = parts(&sums, [1, rows, 2 * d], dtype, &device).sum();
                let inner = values_of(whole.clone());
                assert_eq!(all, values_of(gate(kind, PartialSums::whole(whole))), "{dtype:?}");
                let alone: Vec<f32> = sums.chunks_exact(size).flat_map(|part| part[..2 * d].to_vec()).collect();
                assert_eq!(values_of(gate(kind, parts(&alone, [1, 1, 2 * d], dtype, &device))), all[..d]);
                let limit = if dtype == DType::F32 { 1e-5 } else { 1.0 / 128.0 };
                for (i, got) in all.iter().enumerate() {
                    let at = i / d * 2 * d + i % d;
                    let want = reference::gate(kind, f64::from(inner[at]), f64::from(inner[at + d]));
                    assert!((f64::from(round(*got)) - want).abs() <= limit * want.abs().max(1.0), "{got}, not {want}");
                }
            }
        }
    }
}
