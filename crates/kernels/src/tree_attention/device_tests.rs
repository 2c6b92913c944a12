//! Tree attention on a GPU against the reference.

use super::*;
use crate::device::tests::{device, flat, has_bf16, ints_of, rounded, tensor, value, values_of};
use crate::tree_attention::kernel::tests::{cases, paths};
use burn::tensor::{DType, Device, Tensor};

/// A cache of two layers, of which the second one is read.
fn check(spec: &AttentionSpec, prefix: usize, mask: &AttentionMask, slots: usize) {
    check_in(DType::F32, spec, prefix, mask, slots);
}

/// A cache without padding between rows.
fn stored(values: Vec<f32>, shape: [usize; 4], format: DType, device: &Device) -> Tensor<4> {
    flat(values.clone(), [values.len()], device).cast(format).reshape(shape)
}

fn check_in(format: DType, spec: &AttentionSpec, prefix: usize, mask: &AttentionMask, slots: usize) {
    let Some(device) = device() else { return };
    let in_bf16 = format == DType::BF16;
    if in_bf16 && !has_bf16(&device) {
        return;
    }
    let (rows, d, uncommitted) = (mask.rows(), spec.head_dim, mask.uncommitted());
    let capacity = prefix + uncommitted + 3;
    let planes = 4 * spec.kv_heads;
    let cache: Vec<f32> = (0..planes * capacity * d).map(|i| value(i * 5 + 3)).collect();
    let padded = PassTable::padded(rows);
    let q: Vec<f32> = (0..padded * spec.heads * d).map(|i| value(i * 3 + 1)).collect();
    let (cache, q) = if in_bf16 { (rounded(&cache), rounded(&q)) } else { (cache, q) };
    let at = |plane: usize, slot: usize| &cache[(plane * capacity + slot) * d..][..d];
    let (keys, values) = (|h, s| at(2 * spec.kv_heads + h, s), |h, s| at(3 * spec.kv_heads + h, s));
    let want = reference::attend(spec, &q[..rows * spec.heads * d], &PassRows::new(prefix, mask), keys, values);
    let windows = [None, Some(7), spec.window];
    let windows = if spec.window.is_none() { &windows[..2] } else { &windows[..] };
    let pass_table = PassTable::new(&vec![0; rows], mask, prefix, slots.max(prefix + uncommitted), windows, &device);
    let q = tensor(q, [1, padded, spec.heads * d], &device).cast(format);
    let cache = stored(cache, [4, spec.kv_heads, capacity, d], format, &device);
    let got = values_of(attend_cached(spec, &q, &[&cache], 1, &[&pass_table]));
    for (i, (a, b)) in got.iter().zip(&want).enumerate() {
        // Sums are in f32. On tensor cores weights are rounded to bf16, which adds at most 2^-9 of the largest value, 1; a
        // result is rounded once.
        let limit = if in_bf16 { (b.abs() + 1.0) / 512.0 + 1e-4 } else { 5e-6 };
        assert!((f64::from(*a) - b).abs() < limit, "{i}: {a} against {b}: {spec:?} prefix {prefix} of {slots}");
    }
    assert!(got.iter().all(|x| x.is_finite()), "padding yields numbers");
}

#[test]
fn equals_the_reference() {
    let paths = paths();
    for spec in cases() {
        for prefix in [0, 1, 3, 70, 130] {
            check(&spec, prefix, &AttentionMask::from_paths(paths.iter().map(Vec::as_slice)), 0);
            check(&spec, prefix, &AttentionMask::Causal { rows: 20 }, 0);
        }
        check(&spec, 33, &AttentionMask::Causal { rows: 1 }, 300);
    }
}

/// A buffer made for a longer context reads as many splits, of which the last ones are empty.
#[test]
fn splits_beyond_the_context_change_nothing() {
    let paths = paths();
    for spec in [cases()[0], cases()[2], cases()[6]] {
        for slots in [64, 65, 600, 3000] {
            check(&spec, 40, &AttentionMask::from_paths(paths.iter().map(Vec::as_slice)), slots);
        }
    }
}

#[test]
fn later_levels_see_earlier_rows_in_flight() {
    let paths = paths();
    for spec in cases() {
        for format in [DType::F32, DType::BF16] {
            check_in(format, &spec, 13, &AttentionMask::after(3, paths[3..6].iter().map(Vec::as_slice)), 0);
        }
    }
}

/// More rows than bits in a word, wide groups, and heads wider than a tile is made for.
#[test]
fn wide_trees_and_wide_heads() {
    let scale = 0.1;
    for (heads, kv_heads, head_dim) in [(8, 2, 64), (2, 1, 256)] {
        let spec = AttentionSpec { heads, kv_heads, head_dim, scale, soft_cap: None, window: None };
        let paths: Vec<Vec<usize>> = (0..70).map(|node| if node == 0 { vec![0] } else { vec![0, node] }).collect();
        for format in [DType::F32, DType::BF16] {
            check_in(format, &spec, 50, &AttentionMask::from_paths(paths.iter().map(Vec::as_slice)), 0);
        }
    }
}

#[test]
fn equals_the_reference_in_bf16() {
    let paths = paths();
    for spec in cases() {
        for prefix in [0, 70] {
            check_in(DType::BF16, &spec, prefix, &AttentionMask::from_paths(paths.iter().map(Vec::as_slice)), 0);
        }
        check_in(DType::BF16, &spec, 33, &AttentionMask::Causal { rows: 1 }, 300);
    }
}

/// Prompts: one split, and tiles that end where their rows do.
#[test]
fn long_chains_equal_the_reference() {
    let scale = 0.1;
    for (heads, kv_heads, head_dim, window) in [(4, 2, 128, None), (2, 2, 64, None), (2, 1, 64, Some(40))] {
        let spec = AttentionSpec { heads, kv_heads, head_dim, scale, soft_cap: None, window };
        for (prefix, rows) in [(0, 129), (0, 200), (70, 150)] {
            for format in [DType::F32, DType::BF16] {
                check_in(format, &spec, prefix, &AttentionMask::Causal { rows }, 512);
            }
        }
    }
}

/// Ten sequences of other lengths, masks and capacities: each has the bits that it has alone.
fn check_company(format: DType, spec: &AttentionSpec) {
    let Some(device) = device() else { return };
    if format == DType::BF16 && !has_bf16(&device) {
        return;
    }
    let (paths, d, windows) = (paths(), spec.head_dim, [spec.window]);
    let (mut caches, mut tables, mut queries) = (vec![], vec![], vec![]);
    for i in 0..10usize {
        let mask = match i % 3 {
            0 => AttentionMask::Causal { rows: 1 },
            1 => AttentionMask::from_paths(paths.iter().map(Vec::as_slice)),
            _ => AttentionMask::Causal { rows: 9 },
        };
        let (prefix, rows) = ([3, 0, 130, 70][i % 4] + i, mask.rows());
        let capacity = prefix + rows + i % 5;
        let cache = (0..4 * spec.kv_heads * capacity * d).map(|k| value(k * 5 + 3 + i)).collect();
        caches.push(stored(cache, [4, spec.kv_heads, capacity, d], format, &device));
        tables.push(PassTable::new(&vec![i as u32; rows], &mask, prefix, 64 * (i + 3), &windows, &device));
        let padded = PassTable::padded(rows);
        let q = (0..padded * spec.heads * d).map(|k| value(k * 3 + 1 + i)).collect();
        queries.push(tensor(q, [1, padded, spec.heads * d], &device).cast(format));
    }
    let one = |i: usize| values_of(attend_cached(spec, &queries[i], &[&caches[i]], 1, &[&tables[i]]));
    let alone: Vec<Vec<f32>> = (0..10).map(one).collect();
    for count in [2, 3, 10] {
        let joined = PassTable::joined(&tables[..count].iter().collect::<Vec<_>>());
        let tokens: Vec<i32> = ints_of(joined[1].tokens());
        assert_eq!(tokens[..joined[1].rows()], vec![1; joined[1].rows()]);
        let q = Tensor::cat(queries[..count].to_vec(), 1);
        let caches: Vec<_> = caches[..count].iter().collect();
        let all = values_of(attend_cached(spec, &q, &caches, 1, &joined.iter().collect::<Vec<_>>()));
        let alone = alone[..count].concat();
        let other = all.iter().zip(&alone).position(|(a, b)| a.to_bits() != b.to_bits());
        let values = other.map(|i| (all[i], alone[i]));
        assert!(all.len() == alone.len() && other.is_none(), "{count} of {spec:?}: {other:?}, {values:?}");
    }
}

#[test]
fn sequences_do_not_depend_on_their_company() {
    for spec in [cases()[0], cases()[2], cases()[6]] {
        check_company(DType::F32, &spec);
    }
    for spec in [cases()[0], cases()[2], cases()[4]] {
        check_company(DType::BF16, &spec);
    }
}
