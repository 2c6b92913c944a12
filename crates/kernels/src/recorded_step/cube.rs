//! A recorded step's decisions on a GPU.

use super::segments::select_greatest;
use super::{Guide, Outcome, Trail, TreeTable};
use crate::collective::window_start;
use crate::device;
use crate::tree_attention::PassTable;
use burn::tensor::{Int, Tensor as Burn};
use cubecl::prelude::*;

/// One unit per node.
#[cube(launch_unchecked)]
fn fill_tokens(
    guesses: &Tensor<i32>,
    tree: &Tensor<i32>,
    pass_table: &mut Tensor<i32>,
    nodes: usize,
    width: usize,
    #[comptime] rows: usize,
) {
    let node = ABSOLUTE_POS;
    if node > 0 && node < nodes {
        let head = usize::cast_from(tree[rows + node]) - 1;
        pass_table[4 + node] = guesses[head * width + usize::cast_from(tree[2 * rows + node])];
    }
}

/// One unit per node.
#[cube(launch_unchecked)]
fn guide_tokens(
    guide: &Tensor<i32>,
    tree: &Tensor<i32>,
    pass_table: &mut Tensor<i32>,
    nodes: usize,
    positions: usize,
    depths: usize,
    vocab: i32,
    #[comptime] rows: usize,
) {
    let node = ABSOLUTE_POS;
    if node > 0 && node < nodes {
        let depth = usize::cast_from(tree[rows + node]);
        let root = usize::cast_from(pass_table[0]);
        if root + depth < positions {
            let truth = guide[root + depth];
            let mut token = pass_table[4 + node];
            if token == truth {
                token = (token + 1i32) % vocab;
            }
            if tree[3 * rows + node] == 1i32 {
                token = guide[positions + root * depths + depth - 1];
            }
            pass_table[4 + node] = token;
        }
    }
}

/// One cube, a unit per row.
///
/// # Shapes
/// As [`super::follow`] says; `rows [R + 1]`.
#[cube(launch_unchecked)]
fn follow_path(
    outcome: &Tensor<i32>,
    pass: &mut Tensor<i32>,
    trail: &mut Tensor<i32>,
    window: usize,
    #[comptime] rows: usize,
    #[comptime] longest: usize,
) {
    let unit = UNIT_POS as usize;
    let (prefix, length) = (outcome[0], outcome[1]);
    let section = comptime!(4 + 2 * rows);
    if unit < rows {
        let mut node = 0i32;
        let mut token = 0i32;
        if unit < usize::cast_from(length) {
            node = outcome[2 + unit];
            // What is below zero ends the generation, but is looked up before that.
            token = max(0i32, outcome[3 + longest + unit]);
        }
        let position = prefix + i32::cast_from(unit as u32);
        let start = window_start(position, window, prefix);
        trail[unit] = node;
        pass[4 + unit] = token;
        pass[4 + rows + unit] = position;
        pass[section + 1 + unit] = start;
        if unit == 0 {
            pass[0] = prefix;
            pass[2] = length;
            pass[section] = start;
            trail[rows] = length - 1i32;
        }
    }
}

/// One unit per entry.
#[cube(launch_unchecked)]
fn copy_entries(from: &Tensor<i32>, to: &mut Tensor<i32>, size: usize) {
    if ABSOLUTE_POS < size {
        to[ABSOLUTE_POS] = from[ABSOLUTE_POS];
    }
}

/// See [`super::argmax_rows`].
pub(super) fn argmax_rows(logits: &Burn<3>) -> Burn<1, Int> {
    device::int_tensor::<2>(select_greatest(logits, 1, true)).flatten(0, 1)
}

/// See [`super::top_rows`].
pub(super) fn top_rows(logits: &Burn<3>, width: usize) -> Burn<2, Int> {
    device::int_tensor(select_greatest(logits, width, false))
}

/// See [`super::fill`].
pub(super) fn fill(guesses: &Burn<2, Int>, tree: &TreeTable, pass_table: &PassTable) {
    let width = guesses.dims()[1];
    let (guesses, shape, table) = (device::ints(guesses), device::ints(&tree.table), device::ints(pass_table.table()));
    // SAFETY: there is a head for every depth and a guess for every rank.
    unsafe {
        fill_tokens::launch_unchecked(
            &guesses.client,
            CubeCount::Static(tree.padded.div_ceil(64) as u32, 1, 1),
            CubeDim::new_1d(64),
            device::arg(&guesses),
            device::arg(&shape),
            device::arg(&table),
            tree.nodes,
            width,
            tree.padded,
        );
    }
}

/// See [`super::guide`].
pub(super) fn guide(guide: &Guide, tree: &TreeTable, pass_table: &PassTable) {
    let (said, shape, table) =
        (device::ints(&guide.table), device::ints(&tree.table), device::ints(pass_table.table()));
    // SAFETY: the guide has this tree's depths, as `super::guide` asserts, and positions beyond its own are left alone.
    unsafe {
        guide_tokens::launch_unchecked(
            &said.client,
            CubeCount::Static(tree.padded.div_ceil(64) as u32, 1, 1),
            CubeDim::new_1d(64),
            device::arg(&said),
            device::arg(&shape),
            device::arg(&table),
            tree.nodes,
            guide.positions,
            tree.longest - 1,
            guide.vocab,
            tree.padded,
        );
    }
}

/// See [`super::follow`].
pub(super) fn follow(outcome: &Outcome, trail: &Trail) {
    let (from, pass, rows) =
        (device::ints(&outcome.table), device::ints(trail.pass.table()), device::ints(&trail.rows));
    let padded = trail.pass.padded_rows();
    // SAFETY: the pass has a row for each token that an outcome can hold, as `super::follow` asserts.
    unsafe {
        follow_path::launch_unchecked(
            &from.client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(padded.next_multiple_of(32) as u32),
            device::arg(&from),
            device::arg(&pass),
            device::arg(&rows),
            trail.pass.windows()[0].unwrap_or(0),
            padded,
            outcome.longest,
        );
    }
}

/// See [`super::overwrite`].
pub(super) fn overwrite(to: &Burn<1, Int>, from: &Burn<1, Int>) {
    let size = to.dims()[0].min(from.dims()[0]);
    let (to, from) = (device::ints(to), device::ints(from));
    // SAFETY: both tables have that many entries.
    unsafe {
        copy_entries::launch_unchecked(
            &to.client,
            CubeCount::Static(size.div_ceil(64) as u32, 1, 1),
            CubeDim::new_1d(64),
            device::arg(&from),
            device::arg(&to),
            size,
        );
    }
}
