//! The accepted path of a recorded step on a GPU.

use super::{Outcome, TreeTable};
use crate::collective::window_start;
use crate::device;
use crate::tree_attention::PassTable;
use burn::tensor::{Int, Tensor as Burn};
use cubecl::prelude::*;

/// One cube, a unit per node.
///
/// # Shapes
/// `tree [4 · R]`; the others as [`super::accept`] says.
#[cube(launch_unchecked)]
fn accept_path(
    argmax: &Tensor<i32>,
    tree: &Tensor<i32>,
    pass_table: &mut Tensor<i32>,
    outcome: &mut Tensor<i32>,
    nodes: usize,
    sections: usize,
    section: usize,
    windows: Sequence<usize>,
    #[comptime] rows: usize,
    #[comptime] longest: usize,
) {
    let unit = UNIT_POS as usize;
    let mut parents = Shared::<[u32]>::new_slice(rows);
    let mut depths = Shared::<[u32]>::new_slice(rows);
    let mut path = Shared::<[u32]>::new_slice(longest);
    let mut chosen = Shared::<[u32]>::new_slice(2usize);
    mark_accepted(argmax, tree, pass_table, nodes, &mut parents, &mut depths, rows);
    if unit == 0 {
        choose_path(&parents, &depths, &mut path, &mut chosen, rows);
    }
    sync_cube();
    let length = chosen[0] as usize;
    let bonus = argmax[chosen[1] as usize];
    let before = pass_table[0];
    write_path(&path, length, bonus, pass_table, outcome, longest);
    sync_cube();
    let prefix = before + i32::cast_from(length as u32);
    if unit == 0 {
        outcome[0] = before;
        outcome[1] = i32::cast_from(length as u32);
        outcome[2 + longest] = i32::cast_from(chosen[1]);
        pass_table[0] = prefix;
        // Scores that are none end the generation; a step that is run before that is reported reads some token.
        pass_table[4] = max(0i32, bonus);
    }
    if unit < rows {
        let position = prefix + tree[rows + unit];
        pass_table[4 + rows + unit] = position;
        #[unroll]
        for index in 0..comptime!(windows.len()) {
            let from = sections + index * section;
            let start = window_start(position, windows[index], prefix);
            pass_table[from + 1 + unit] = start;
            // The root is first in every path, so it sees farthest back.
            if unit == 0 {
                pass_table[from] = start;
            }
        }
    }
}

/// Which nodes guessed right (`right`), and for those with a path that is right throughout its depth plus one
/// (`depths`), zero for others.
#[cube]
fn mark_accepted(
    argmax: &Tensor<i32>,
    tree: &Tensor<i32>,
    pass_table: &mut Tensor<i32>,
    nodes: usize,
    parents: &mut Shared<[u32]>,
    depths: &mut Shared<[u32]>,
    #[comptime] rows: usize,
) {
    let unit = UNIT_POS as usize;
    let mut right = Shared::<[u32]>::new_slice(rows);
    if unit < rows {
        let parent = usize::cast_from(tree[unit]);
        parents[unit] = parent as u32;
        right[unit] = 0u32;
        if unit < nodes && (unit == 0 || pass_table[4 + unit] == argmax[parent]) {
            right[unit] = 1u32;
        }
    }
    sync_cube();
    if unit < rows {
        let mut node = unit;
        let mut accepted = right[unit];
        while node > 0 {
            node = parents[node] as usize;
            accepted *= right[node];
        }
        depths[unit] = accepted * (1u32 + u32::cast_from(tree[rows + unit]));
    }
    sync_cube();
}

/// The accepted nodes, and the tokens after each of them; the last is `bonus`.
#[cube]
fn write_path(
    path: &Shared<[u32]>,
    length: usize,
    bonus: i32,
    pass_table: &mut Tensor<i32>,
    outcome: &mut Tensor<i32>,
    #[comptime] longest: usize,
) {
    let unit = UNIT_POS as usize;
    if unit < length {
        outcome[2 + unit] = i32::cast_from(path[unit]);
        let mut token = bonus;
        if unit + 1 < length {
            token = pass_table[4 + path[unit + 1] as usize];
        }
        outcome[3 + longest + unit] = token;
    }
}

/// The longest accepted path, from the root on: its length and last node into `chosen`.
#[cube]
fn choose_path(
    parents: &Shared<[u32]>,
    depths: &Shared<[u32]>,
    path: &mut Shared<[u32]>,
    chosen: &mut Shared<[u32]>,
    #[comptime] rows: usize,
) {
    let mut best = 0usize;
    for node in 0..rows {
        if depths[node] > depths[best] {
            best = node;
        }
    }
    let length = depths[best] as usize;
    chosen[0] = length as u32;
    chosen[1] = best as u32;
    let mut node = best;
    for i in 0..length {
        path[length - 1 - i] = node as u32;
        node = parents[node] as usize;
    }
}

/// See [`super::accept`].
pub(super) fn accept(argmax: &Burn<1, Int>, tree: &TreeTable, pass_table: &PassTable, outcome: &Outcome) {
    let (argmax, shape) = (device::ints(argmax), device::ints(&tree.table));
    let (table, out) = (device::ints(pass_table.table()), device::ints(&outcome.table));
    // Zero stands for no window.
    let mut windows = SequenceArg::<usize>::new();
    pass_table.windows().iter().for_each(|window| windows.push(window.unwrap_or(0)));
    // SAFETY: tables are laid out as the geometry says, and units beyond it do nothing.
    unsafe {
        accept_path::launch_unchecked(
            &argmax.client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(tree.padded.max(tree.longest).next_multiple_of(32) as u32),
            device::arg(&argmax),
            device::arg(&shape),
            device::arg(&table),
            device::arg(&out),
            tree.nodes,
            pass_table.sections(),
            pass_table.section_size(),
            windows,
            tree.padded,
            tree.longest,
        );
    }
}
