//! Growing trees on a GPU against the definitions.

use super::reference::tests::{SIZES, logits};
use super::*;
use crate::device::tests::{device, ints_of, tensor};
use crate::recorded_step::TreeTable;

/// The host's numbering: node, then its parent.
fn padded_paths(parents: &[usize]) -> Vec<Vec<usize>> {
    let mut paths: Vec<Vec<usize>> = vec![vec![0]];
    for (node, &parent) in parents.iter().enumerate().skip(1) {
        paths.push([&paths[parent][..], &[node]].concat());
    }
    paths
}

/// Grows a tree level by level on the device; the tokens of a frontier are read from the table of its pass.
fn grow(growing: &GrowingTree, pass_table: &PassTable, (vocab, salt): (usize, usize), device: &Device) {
    let growth = growing.growth();
    let mut paths: Vec<Vec<i32>> = vec![vec![]];
    for level in 0..=growth.depth {
        let mut rows: Vec<f32> = paths.iter().flat_map(|path| logits(path, vocab, salt)).collect();
        let padded = if level == 0 { 1 } else { PassTable::padded(growth.top_k) };
        rows.resize(padded * vocab, 5.0);
        expand(growing, level, &tensor(rows, [1, padded, vocab], device), None);
        if level < growth.depth {
            descend(growing, level, pass_table);
            let tokens = ints_of(growing.pass(level).tokens());
            let slots = ints_of(growing.slots());
            let row = |i: usize| [&paths[slots[i] as usize][..], &[tokens[i]]].concat();
            paths = (0..growth.top_k).map(row).collect();
        }
    }
}

/// Trees, tables and all are what the host would have made.
#[test]
fn trees_are_grown_as_defined() {
    let Some(device) = device() else { return };
    let windows = [None, Some(3), Some(40)];
    for (nodes, depth, top_k) in SIZES {
        let candidates = Growth { top_k, depth, nodes: 2 }.candidates();
        let growth = Growth { top_k, depth, nodes: nodes.min(candidates + 1) };
        for (salt, vocab, prefix) in [(0, 40, 0), (1, 300, 5), (2, 5000, 61), (3, 40, 2), (3, 2100, 9), (8, 40, 3)] {
            let growing = GrowingTree::new(growth, Some(20), 128, &device);
            let tree = TreeTable::with_room(growth.nodes, growth.longest(), &device);
            let star: Vec<[usize; 1]> = (0..growth.nodes).map(|node| [node]).collect();
            let alone = AttentionMask::from_paths(star.iter().map(|path| &path[..]));
            let mut tokens = vec![0; growth.nodes];
            tokens[0] = 9;
            let pass_table = PassTable::new(&tokens, &alone, prefix, 128, &windows, &device);
            grow(&growing, &pass_table, (vocab, salt), &device);
            finish(&growing, &tree, &pass_table);
            let (tokens, parents) = reference::grow(growth, 9, &|path| logits(path, vocab, salt));
            let ids: Vec<u32> = tokens.iter().map(|&token| token as u32).collect();
            let paths = padded_paths(&parents);
            let visible = AttentionMask::from_paths(paths.iter().map(Vec::as_slice));
            let want = PassTable::new(&ids, &visible, prefix, 128, &windows, &device);
            let case = format!("{growth:?} {salt} {vocab}");
            assert_eq!(ints_of(pass_table.table().clone()), ints_of(want.table().clone()), "{case}");
            let want = TreeTable::new(&parents, &vec![0; growth.nodes], &device);
            assert_eq!(ints_of(tree.table().clone()), ints_of(want.table().clone()), "{case}");
        }
    }
}

/// Columns may stand for other tokens, by which ties go in the end.
#[test]
fn columns_are_named() {
    let Some(device) = device() else { return };
    let growth = Growth { top_k: 4, depth: 0, nodes: 5 };
    let growing = GrowingTree::new(growth, None, 128, &device);
    let tree = TreeTable::with_room(5, 2, &device);
    let alone = AttentionMask::from_paths([&[0][..], &[1], &[2], &[3], &[4]]);
    let pass_table = PassTable::new(&[9; 5], &alone, 3, 128, &[None], &device);
    let names = Tensor::from_data(TensorData::new(vec![70, 10, 60, 20, 50, 30], [6]), &device);
    expand(&growing, 0, &tensor(vec![1.0, 2.0, 1.0, 0.5, 2.0, 1.0], [1, 1, 6], &device), Some(&names));
    finish(&growing, &tree, &pass_table);
    // Of equals the first columns are taken, and then sorted by their tokens.
    assert_eq!(ints_of(pass_table.tokens())[..5], [9, 10, 50, 60, 70]);
}

/// The tables of passes over a frontier are those that the host makes for a level of a tree.
#[test]
fn passes_see_their_ancestors() {
    let Some(device) = device() else { return };
    let growth = Growth { top_k: 12, depth: 4, nodes: 20 };
    for window in [None, Some(6)] {
        let growing = GrowingTree::new(growth, window, 128, &device);
        let pass_table = PassTable::new(&[7], &AttentionMask::Causal { rows: 1 }, 10, 128, &[None], &device);
        let mut paths: Vec<Vec<i32>> = vec![vec![]];
        let mut rows: Vec<Vec<usize>> = vec![vec![]];
        for level in 0..growth.depth {
            let padded = if level == 0 { 1 } else { 16 };
            let mut values: Vec<f32> = paths.iter().flat_map(|path| logits(path, 40, 0)).collect();
            values.resize(padded * 40, 0.0);
            expand(&growing, level, &tensor(values, [1, padded, 40], &device), None);
            descend(&growing, level, &pass_table);
            let (tokens, slots) = (ints_of(growing.pass(level).tokens()), ints_of(growing.slots()));
            paths = (0..12).map(|i| [&paths[slots[i] as usize][..], &[tokens[i]]].concat()).collect();
            rows = (0..12).map(|i| [&rows[slots[i] as usize][..], &[level * 12 + i]].concat()).collect();
            let visible = AttentionMask::after(level * 12, rows.iter().map(Vec::as_slice));
            let ids: Vec<u32> = tokens[..12].iter().map(|&token| token as u32).collect();
            let want = PassTable::new(&ids, &visible, 10, 128, &[window], &device);
            let pass = growing.pass(level);
            assert_eq!(real(pass), real(&want), "level {level}");
        }
    }
}

/// A table's entries without positions and starts of padding.
fn real(pass_table: &PassTable) -> Vec<i32> {
    let (all, padded) = (ints_of(pass_table.table().clone()), pass_table.padded_rows());
    let section = pass_table.sections();
    let parts = [
        0..4 + pass_table.rows(),
        4 + padded..4 + padded + pass_table.rows(),
        section..section + 1 + pass_table.rows(),
    ];
    let mut real: Vec<i32> = parts.into_iter().flat_map(|part| all[part].to_vec()).collect();
    real.extend(&all[section + 1 + padded..]);
    real
}
