//! The kernel against the reference, and trees against plain decoding.

use super::*;
use crate::tree_attention::{AttentionMask, PositionBias, reference};

fn value(i: usize) -> f32 {
    ((i.wrapping_mul(2_654_435_761) >> 7) % 2001) as f32 / 1000.0 - 1.0
}

fn spec(heads: usize, kv_heads: usize, head_dim: usize, window: Option<usize>, cap: Option<f32>) -> AttentionSpec {
    let scale = 1.0 / (head_dim as f32).sqrt();
    AttentionSpec { heads, kv_heads, head_dim, scale, soft_cap: cap, window }
}

/// A cache whose row for the token at (path of) `identity` depends on the identity alone, not on its slot.
fn write(kv: &mut HostKv, spec: &AttentionSpec, slot: usize, identity: usize) {
    let width = spec.kv_heads * spec.head_dim;
    let k: Vec<f32> = (0..width).map(|i| value(identity * 977 + i)).collect();
    let v: Vec<f32> = (0..width).map(|i| value(identity * 1409 + i + 7)).collect();
    kv.write(slot, &k, &v);
}

const PARENTS: [usize; 9] = [0, 0, 0, 1, 1, 2, 3, 6, 5];

pub(crate) fn paths() -> Vec<Vec<usize>> {
    let path = |mut node: usize| {
        let mut path = vec![node];
        while node > 0 {
            node = PARENTS[node];
            path.insert(0, node);
        }
        path
    };
    (0..PARENTS.len()).map(path).collect()
}

pub(crate) fn cases() -> Vec<AttentionSpec> {
    vec![
        spec(4, 4, 16, None, None),
        spec(6, 2, 24, Some(5), None),
        spec(4, 1, 64, None, Some(4.0)),
        spec(2, 2, 80, Some(3), Some(2.0)),
        spec(2, 1, 128, Some(200), None),
        spec(8, 8, 8, None, None),
        spec(4, 2, 13, Some(90), None),
    ]
}

#[test]
fn equals_the_reference() {
    for spec in cases() {
        for prefix in [0, 1, 3, 70, 130] {
            let paths = paths();
            let tree = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
            for mask in [tree, AttentionMask::Causal { rows: 20 }] {
                let rows = mask.rows();
                let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
                (0..prefix + rows).for_each(|slot| write(&mut kv, &spec, slot, slot));
                let q: Vec<f32> = (0..rows * spec.heads * spec.head_dim).map(|i| value(i * 3 + 1)).collect();
                let of_head = |h| (0..prefix + rows).map(|slot| kv.key(h, slot)).collect();
                let keys: Vec<Vec<Vec<f32>>> = (0..spec.kv_heads).map(of_head).collect();
                let want = reference::attend(
                    &spec,
                    &q,
                    &PassRows::new(prefix, &mask),
                    |h, s| &keys[h][s],
                    |h, s| kv.value(h, s),
                );
                let mut first: Option<Vec<f32>> = None;
                for isa in Isa::available() {
                    let mut out = vec![0f32; q.len()];
                    attend(isa, &spec, &q, &kv, &PassRows::new(prefix, &mask), &mut out);
                    for (a, b) in out.iter().zip(&want) {
                        assert!((f64::from(*a) - b).abs() < 3e-6, "{a} against {b}: {spec:?} prefix {prefix}");
                    }
                    assert_eq!(*first.get_or_insert_with(|| out.clone()), out, "{isa:?}");
                }
            }
        }
    }
}

/// A node of a tree and the last row of a plain pass over its path give the same bits, wherever the keys lie.
#[test]
fn a_tree_node_equals_plain_decoding_of_its_path_bit_for_bit() {
    for spec in cases() {
        for prefix in [0, 2, 65] {
            let paths = paths();
            let rows = paths.len();
            let width = spec.heads * spec.head_dim;
            let query = |identity: usize| (0..width).map(move |i| value(identity * 31 + i * 3 + 1));
            let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
            (0..prefix + rows).for_each(|slot| write(&mut kv, &spec, slot, slot));
            let q: Vec<f32> = (0..rows).flat_map(query).collect();
            let mut tree = vec![0f32; q.len()];
            let mask = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
            attend(Isa::detect(), &spec, &q, &kv, &PassRows::new(prefix, &mask), &mut tree);
            for (node, path) in paths.iter().enumerate() {
                let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
                (0..prefix).for_each(|slot| write(&mut kv, &spec, slot, slot));
                for (i, &ancestor) in path.iter().enumerate() {
                    write(&mut kv, &spec, prefix + i, prefix + ancestor);
                }
                let q: Vec<f32> = query(node).collect();
                let mut alone = vec![0f32; width];
                let one = AttentionMask::Causal { rows: 1 };
                attend(Isa::detect(), &spec, &q, &kv, &PassRows::new(prefix + path.len() - 1, &one), &mut alone);
                assert_eq!(alone, tree[node * width..(node + 1) * width], "node {node}, prefix {prefix}, {spec:?}");
            }
        }
    }
}

/// A tree computed level by level gives the bits of the tree computed at once.
#[test]
fn levels_of_a_tree_equal_the_whole_tree_bit_for_bit() {
    for spec in cases() {
        let (prefix, paths) = (3, paths());
        let (rows, width) = (paths.len(), spec.heads * spec.head_dim);
        let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
        (0..prefix + rows).for_each(|slot| write(&mut kv, &spec, slot, slot));
        let q: Vec<f32> = (0..rows * width).map(|i| value(i * 5 + 2)).collect();
        let mut whole = vec![0f32; q.len()];
        let mask = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
        attend(Isa::detect(), &spec, &q, &kv, &PassRows::new(prefix, &mask), &mut whole);
        for (first, end) in [(0, 1), (1, 3), (3, 6), (6, 9)] {
            let level = AttentionMask::after(first, paths[first..end].iter().map(Vec::as_slice));
            assert_eq!((level.rows(), level.first(), level.uncommitted()), (end - first, first, end));
            let mut out = vec![0f32; (end - first) * width];
            attend(Isa::detect(), &spec, &q[first * width..end * width], &kv, &PassRows::new(prefix, &level), &mut out);
            assert_eq!(out, whole[first * width..end * width], "{spec:?} {first}");
        }
    }
}

/// Rotary angles and windows follow given positions: rows may stand at any distance from the committed ones.
#[test]
fn given_positions_move_the_window() {
    let positions = [0, 1, 1, 3, 9, 9, 12, 40, 41];
    for spec in cases() {
        for prefix in [0, 3, 70] {
            let (paths, rows) = (paths(), positions.len());
            let mask = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
            let pass = PassRows { positions: Some(&positions), ..PassRows::new(prefix, &mask) };
            let mut kv = HostKv::new(spec.kv_heads, prefix + rows, spec.head_dim);
            (0..prefix + rows).for_each(|slot| write(&mut kv, &spec, slot, slot));
            let q: Vec<f32> = (0..rows * spec.heads * spec.head_dim).map(|i| value(i * 3 + 1)).collect();
            let of_head = |h| (0..prefix + rows).map(|slot| kv.key(h, slot)).collect();
            let keys: Vec<Vec<Vec<f32>>> = (0..spec.kv_heads).map(of_head).collect();
            let want = reference::attend(&spec, &q, &pass, |h, s| &keys[h][s], |h, s| kv.value(h, s));
            let mut out = vec![0f32; q.len()];
            attend(Isa::detect(), &spec, &q, &kv, &pass, &mut out);
            for (a, b) in out.iter().zip(&want) {
                assert!((f64::from(*a) - b).abs() < 3e-6, "{a} against {b}: {spec:?} prefix {prefix}");
            }
        }
    }
}

/// Terms by distance, beyond the farthest that has one of its own, of causal rows, trees and rows that all see each
/// other.
#[test]
fn terms_by_distance_are_those_of_the_reference() {
    let spec = AttentionSpec { scale: 1.0, ..spec(4, 2, 16, None, None) };
    let terms = || (0..14 * 4).map(|i| value(i * 31)).collect();
    let causal = PositionBias::new(terms(), 4, (9, 0), |distance| distance as usize);
    let both = PositionBias::new(terms(), 4, (9, 5), |distance| (distance + 5) as usize);
    let paths = paths();
    let tree = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
    let masks = [(tree, &causal), (AttentionMask::Causal { rows: 20 }, &causal)];
    for (mask, bias) in masks.into_iter().chain([7, 21].map(|rows| (AttentionMask::Committed { rows }, &both))) {
        for prefix in [21, 40] {
            let (rows, slots) = (mask.rows(), prefix + mask.uncommitted());
            let mut kv = HostKv::new(spec.kv_heads, slots, spec.head_dim);
            (0..slots).for_each(|slot| write(&mut kv, &spec, slot, slot));
            let q: Vec<f32> = (0..rows * spec.heads * spec.head_dim).map(|i| value(i * 3 + 1)).collect();
            let of_head = |h| (0..slots).map(|slot| kv.key(h, slot)).collect();
            let keys: Vec<Vec<Vec<f32>>> = (0..spec.kv_heads).map(of_head).collect();
            let (pass, key) = (PassRows::new(prefix, &mask), |h: usize, s: usize| &keys[h][s][..]);
            let want = reference::attend_biased((&spec, Some(bias)), &q, &pass, key, |h, s| kv.value(h, s));
            for isa in Isa::available() {
                let mut out = vec![0f32; q.len()];
                attend_biased(isa, (&spec, Some(bias)), &q, &kv, &pass, &mut out);
                for (a, b) in out.iter().zip(&want) {
                    assert!((f64::from(*a) - b).abs() < 3e-6, "{a} against {b}: {mask:?} prefix {prefix}");
                }
            }
        }
    }
}

#[test]
fn nodes_of_a_tree_see_their_paths() {
    let paths: [&[usize]; 6] = [&[0], &[0, 1], &[0, 2], &[0, 1, 3], &[0, 1, 4], &[0, 1, 4, 5]];
    assert_eq!(AttentionMask::in_tree(&[0, 0, 0, 1, 1, 4]), AttentionMask::from_paths(paths));
    assert_eq!(AttentionMask::in_tree(&[0]), AttentionMask::from_paths([&[0][..]]));
}
