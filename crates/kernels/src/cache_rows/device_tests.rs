//! Writing and moving rows on a GPU against the definitions.

use super::{Placing, gather, place, reference};
use crate::device::tests::{device, flat, has_bf16, ints_of, rounded, tensor, value, values_of};
use crate::partial_sums::PartialSums;
use crate::partial_sums::device_tests::{formats, parts};
use crate::tree_attention::{AttentionMask, AttentionSpec, PassTable};
use burn::tensor::{DType, Int, Tensor, TensorData};

fn spec(heads: usize, kv_heads: usize, head_dim: usize) -> AttentionSpec {
    AttentionSpec { heads, kv_heads, head_dim, scale: 1.0, soft_cap: None, window: None }
}

fn values(size: usize, salt: usize) -> Vec<f32> {
    (0..size).map(|i| value(i * 7 + salt)).collect()
}

#[test]
fn rows_are_placed_as_defined() {
    placed(DType::F32, 2e-6);
}

/// Norms and rotations are in f32, and what is kept is rounded once.
#[test]
fn rows_are_placed_as_defined_in_bf16() {
    placed(DType::BF16, 1.0 / 128.0);
}

fn placed(format: DType, limit: f32) {
    let Some(device) = device() else { return };
    let in_bf16 = format == DType::BF16;
    if in_bf16 && !has_bf16(&device) {
        return;
    }
    let stored = |values: Vec<f32>| if in_bf16 { rounded(&values) } else { values };
    for (spec, half, normed) in [(spec(4, 2, 16), 8, false), (spec(3, 1, 40), 10, true), (spec(2, 2, 128), 64, true)] {
        let (d, prefix, capacity, layer, rows) = (spec.head_dim, 5, 12, 1, 3);
        let padded = PassTable::padded(rows);
        let width = (spec.heads + 2 * spec.kv_heads) * d;
        let (qkv, angles) = (stored(values(padded * width, 1)), values(capacity * 2 * half, 2));
        let (q_norm, k_norm) = (values(d, 3), values(d, 4));
        let before = stored(values(4 * spec.kv_heads * capacity * d, 5));
        let mask = AttentionMask::from_paths([&[0][..], &[0, 1], &[0, 2]]);
        let pass_table = PassTable::new(&[1, 2, 3], &mask, prefix, capacity, &[None], &device);
        let cache = flat(before.clone(), [before.len()], &device).cast(format);
        let cache = cache.reshape([4, spec.kv_heads, capacity, d]);
        let (qn, kn) = (tensor(q_norm.clone(), [d], &device), tensor(k_norm.clone(), [d], &device));
        let table = tensor(angles.clone(), [capacity, 2, half], &device);
        let norms = normed.then_some((&qn, &kn, 1e-5));
        let placing = Placing { spec: &spec, bias: None, norms, angles: &table };
        let rows = tensor(qkv.clone(), [1, padded, width], &device).cast(format);
        let queries = values_of(place(&placing, &PartialSums::whole(rows.clone()), &[&cache], layer, &[&pass_table]));
        check_company(&placing, &rows, [&before[..], &values_of(cache.clone()), &queries], &pass_table);
        let mut want = before;
        for (row, position) in [5, 6, 6].into_iter().enumerate() {
            let (cos, sin) = angles[position * 2 * half..][..2 * half].split_at(half);
            let norms = normed.then_some((&q_norm[..], &k_norm[..], 1e-5));
            let (q, k, v) = reference::split_row(&spec, &qkv[row * width..][..width], norms, cos, sin);
            close(&queries[row * spec.heads * d..][..spec.heads * d], &q, limit);
            for (which, part) in [k, v].iter().enumerate() {
                for (head, part) in part.chunks_exact(d).enumerate() {
                    let plane = (2 * layer + which) * spec.kv_heads + head;
                    want[(plane * capacity + prefix + row) * d..][..d].copy_from_slice(part);
                }
            }
        }
        close(&values_of(cache), &want, limit);
    }
}

/// Rows of three sequences, each with a cache of its own, in one launch: what one of them gets alone.
fn check_company(placing: &Placing<'_>, qkv: &Tensor<3>, [before, after, queries]: [&[f32]; 3], table: &PassTable) {
    let (spec, device) = (placing.spec, qkv.device());
    let capacity = before.len() / (4 * spec.kv_heads * spec.head_dim);
    let cache = |_| {
        let flat: Tensor<1> = flat(before.to_vec(), [before.len()], &device).cast(qkv.dtype());
        flat.reshape([4, spec.kv_heads, capacity, spec.head_dim])
    };
    let caches: Vec<Tensor<4>> = (0..3).map(cache).collect();
    let joined = PassTable::joined(&[table; 3]);
    let qkv = PartialSums::whole(Tensor::cat(vec![qkv.clone(); 3], 1));
    let all =
        values_of(place(placing, &qkv, &caches.iter().collect::<Vec<_>>(), 1, &joined.iter().collect::<Vec<_>>()));
    assert_eq!(all, queries.repeat(3));
    caches.into_iter().for_each(|cache| assert_eq!(values_of(cache), after));
}

/// Parts and a bias are added up as in launches of their own, bit for bit.
#[test]
fn parts_and_a_bias_are_placed_as_their_sum() {
    let Some(device) = device() else { return };
    for (dtype, round) in formats(&device) {
        for (spec, normed, biased) in
            [(spec(3, 1, 40), true, true), (spec(2, 2, 16), false, true), (spec(2, 1, 64), true, false)]
        {
            let (d, half, capacity) = (spec.head_dim, 8, 12);
            let (padded, width) = (PassTable::padded(3), (spec.heads + 2 * spec.kv_heads) * d);
            let mask = AttentionMask::from_paths([&[0][..], &[0, 1], &[0, 2]]);
            let pass_table = PassTable::new(&[1, 2, 3], &mask, 5, capacity, &[None], &device);
            let weights = tensor(values(d, 3), [d], &device);
            let bias_values: Vec<f32> = values(width, 6).into_iter().map(round).collect();
            let bias: Tensor<1> = tensor(bias_values, [width], &device).cast(dtype);
            let angles = tensor(values(capacity * 2 * half, 2), [capacity, 2, half], &device);
            let norms = normed.then_some((&weights, &weights, 1e-5));
            let placed = |bias: Option<&Tensor<1>>, qkv: &PartialSums| {
                let size = 4 * spec.kv_heads * capacity * d;
                let cache: Tensor<1> = flat(vec![0.0; size], [size], &device).cast(dtype);
                let cache = cache.reshape([4, spec.kv_heads, capacity, d]);
                let placing = Placing { spec: &spec, bias, norms, angles: &angles };
                let queries = place(&placing, qkv, &[&cache], 1, &[&pass_table]);
                [values_of(queries), values_of(cache)]
            };
            let sums = parts(&values(3 * padded * width, 1), [1, padded, width], dtype, &device);
            let whole = sums.clone().sum();
            let whole = if biased { whole + bias.clone().unsqueeze() } else { whole };
            let want = placed(None, &PartialSums::whole(whole));
            assert!(want[1].iter().any(|x| *x != 0.0));
            assert_eq!(placed(biased.then_some(&bias), &sums), want, "{dtype:?}, {spec:?}");
        }
    }
}

#[test]
fn paths_are_gathered_in_every_layer_at_once() {
    let Some(device) = device() else { return };
    for (planes, heads, d, prefix, path) in
        [(6, 2, 24, 3, vec![0, 2, 5, 6]), (2, 1, 200, 0, vec![1]), (4, 3, 8, 2, vec![])]
    {
        let capacity = 11;
        let mut want = values(planes * heads * capacity * d, 9);
        let cache = flat(want.clone(), [planes, heads, capacity, d], &device);
        let mut ids = vec![prefix as i32, path.len() as i32];
        ids.extend(path.iter().map(|&row| row as i32));
        ids.resize(8, 7);
        gather(&cache, &Tensor::<1, Int>::from_data(TensorData::new(ids.clone(), [8]), &device));
        want.chunks_exact_mut(capacity * d).for_each(|plane| reference::gather(plane, d, prefix, &path));
        assert_eq!(values_of(cache), want);
        assert_eq!(ints_of(Tensor::<1, Int>::from_data(TensorData::new(ids.clone(), [8]), &device)), ids);
    }
}

fn close(got: &[f32], want: &[f32], limit: f32) {
    assert_eq!(got.len(), want.len());
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= limit * b.abs().max(1.0), "{i}: {a} against {b}");
    }
}
