//! A greedy step's decisions on a GPU.

use super::greatest::{LEAST, UNITS, next_greatest};
use super::{Guide, Outcome, Trail, TreeTable};
use crate::device;
use crate::tree_attention::PassTable;
use burn::tensor::{DType, Int, Tensor as Burn};
use cubecl::prelude::*;

/// One row's greatest entries, one after the other: each round finds the greatest of those that come after the last one
/// in the order of value and index, so nothing has to be marked.
#[cube(launch_unchecked, address_type = "dynamic")]
fn greatest<F: Float>(
    logits: &Tensor<F>,
    out: &mut Tensor<i32>,
    vocab: usize,
    width: usize,
    #[comptime] checked: bool,
    #[define(F)] _dtype: ElemType,
) {
    let mut values = Shared::<[f32]>::new_slice(UNITS);
    let mut places = Shared::<[u32]>::new_slice(UNITS);
    let mut damaged = Shared::<[u32]>::new_slice(UNITS);
    let row = CUBE_POS as usize;
    let none = vocab as u32;
    let mut last_value = f32::new(0.0);
    let mut last_place = none;
    for round in 0..width {
        let base = row * vocab;
        next_greatest::<F>(
            logits,
            base,
            0usize,
            vocab,
            none,
            last_value,
            last_place,
            &mut values,
            &mut places,
            &mut damaged,
        );
        last_value = values[0];
        last_place = places[0];
        if UNIT_POS == 0 {
            let mut found = i32::cast_from(last_place);
            if comptime!(checked) {
                if damaged[0] == 1u32 || last_value <= f32::new(LEAST) {
                    found = -1i32;
                }
            }
            out[row * width + round] = found;
        }
    }
}

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
    let mut right = Shared::<[u32]>::new_slice(rows);
    let mut depths = Shared::<[u32]>::new_slice(rows);
    let mut path = Shared::<[u32]>::new_slice(longest);
    let mut chosen = Shared::<[u32]>::new_slice(2usize);
    if unit < rows {
        let parent = usize::cast_from(tree[unit]);
        parents[unit] = parent as u32;
        right[unit] = 0u32;
        if unit < nodes && (unit == 0 || pass_table[4 + unit] == argmax[parent]) {
            right[unit] = 1u32;
        }
    }
    sync_cube();
    // The depth of a node whose whole path is right, plus one; zero for others.
    if unit < rows {
        let mut node = unit;
        let mut sound = right[unit];
        while node > 0 {
            node = parents[node] as usize;
            sound *= right[node];
        }
        depths[unit] = sound * (1u32 + u32::cast_from(tree[rows + unit]));
    }
    sync_cube();
    if unit == 0 {
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
    sync_cube();
    let length = chosen[0] as usize;
    let last = chosen[1] as usize;
    let bonus = argmax[last];
    let before = pass_table[0];
    if unit < length {
        outcome[2 + unit] = i32::cast_from(path[unit]);
        let mut token = bonus;
        if unit + 1 < length {
            token = pass_table[4 + path[unit + 1] as usize];
        }
        outcome[3 + longest + unit] = token;
    }
    sync_cube();
    let prefix = before + i32::cast_from(length as u32);
    if unit == 0 {
        outcome[0] = before;
        outcome[1] = i32::cast_from(length as u32);
        outcome[2 + longest] = i32::cast_from(last as u32);
        pass_table[0] = prefix;
        // Scores that are none end the generation; a step that is run before that is told reads some token.
        pass_table[4] = max(0i32, bonus);
    }
    if unit < rows {
        let position = prefix + tree[rows + unit];
        pass_table[4 + rows + unit] = position;
        #[unroll]
        for index in 0..comptime!(windows.len()) {
            let from = sections + index * section;
            let mut start = 0i32;
            let window = i32::cast_from(windows[index]);
            if window > 0i32 {
                start = min(max(0i32, position + 1i32 - window), prefix);
            }
            pass_table[from + 1 + unit] = start;
            // The root is first in every path, so it sees farthest back.
            if unit == 0 {
                pass_table[from] = start;
            }
        }
    }
}

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
        let mut start = 0i32;
        if window > 0 {
            start = min(max(0i32, position + 1i32 - i32::cast_from(window as u32)), prefix);
        }
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

fn select_greatest(logits: &Burn<3>, width: usize, checked: bool) -> burn_cubecl::tensor::CubeTensor {
    let [batch, rows, vocab] = logits.dims();
    let logits = device::floats(logits);
    let out = device::empty(&logits, [batch * rows, width], DType::I32);
    // SAFETY: a cube stays within its row of the logits and of the result.
    unsafe {
        greatest::launch_unchecked(
            &logits.client,
            CubeCount::Static((batch * rows) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([&logits]),
            device::arg(&logits),
            device::arg(&out),
            vocab,
            width,
            checked,
            device::elem(&logits),
        );
    }
    out
}

/// See [`super::argmax_rows`].
pub(super) fn argmax_rows(logits: &Burn<3>) -> Burn<1, Int> {
    device::int_tensor::<2>(select_greatest(logits, 1, true)).flatten(0, 1)
}

/// See [`super::top_rows`].
pub(super) fn top_rows(logits: &Burn<3>, width: usize) -> Burn<2, Int> {
    device::int_tensor(select_greatest(logits, width, false))
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
