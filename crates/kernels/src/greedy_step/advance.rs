//! Plain greedy steps of several sequences on a GPU: each reads its argmax next.

use crate::collective::window_start;
use crate::device;
use crate::tree_attention::PassTable;
use burn::tensor::{Int, Tensor as Burn};
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 64;

/// One unit per sequence; one whose table has no row stays as it is.
///
/// # Shapes
/// `argmax [sequences]`, `tables [sequences · size]`, each of a pass of one row.
#[cube(launch_unchecked)]
fn advance_sequence(
    argmax: &Tensor<i32>,
    tables: &mut Tensor<i32>,
    sequences: usize,
    size: usize,
    sections: usize,
    section: usize,
    windows: Sequence<usize>,
) {
    let sequence = ABSOLUTE_POS as usize;
    if sequence < sequences {
        let table = sequence * size;
        if tables[table + 2] > 0 {
            let position = tables[table] + 1i32;
            tables[table] = position;
            // Scores that are none end the generation; a step that is run before that is reported reads some token.
            tables[table + 4] = max(0i32, argmax[sequence]);
            tables[table + 5] = position;
            #[unroll]
            for index in 0..comptime!(windows.len()) {
                let from = table + sections + index * section;
                let start = window_start(position, windows[index], position);
                tables[from] = start;
                tables[from + 1] = start;
            }
        }
    }
}

/// One unit per entry.
#[cube(launch_unchecked)]
fn copy_table(from: &Tensor<i32>, tables: &mut Tensor<i32>, start: usize, size: usize) {
    let at = ABSOLUTE_POS as usize;
    if at < size {
        tables[start + at] = from[at];
    }
}

/// See [`super::advance`].
pub(super) fn advance(argmax: &Burn<1, Int>, tables: &[PassTable]) {
    let (argmax, joined) = (device::ints(argmax), device::ints(tables[0].table()));
    // Zero stands for no window.
    let mut windows = SequenceArg::<usize>::new();
    tables[0].windows().iter().for_each(|window| windows.push(window.unwrap_or(0)));
    // SAFETY: the tables are laid out one after the other, as `super::advance` asserts.
    unsafe {
        advance_sequence::launch_unchecked(
            &argmax.client,
            CubeCount::Static(tables.len().div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::arg(&argmax),
            device::arg(&joined),
            tables.len(),
            tables[0].len(),
            tables[0].sections(),
            tables[0].section_size(),
            windows,
        );
    }
}

/// See [`super::replace`].
pub(super) fn replace(to: &PassTable, from: &PassTable) {
    let (tables, table) = (device::ints(to.table()), device::ints(from.table()));
    // SAFETY: both have as many entries, as `super::replace` asserts.
    unsafe {
        copy_table::launch_unchecked(
            &tables.client,
            CubeCount::Static(to.len().div_ceil(UNITS) as u32, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::arg(&table),
            device::arg(&tables),
            to.start(),
            to.len(),
        );
    }
}
