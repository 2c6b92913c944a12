//! Which candidates of a growing tree go on, on a GPU.

use super::GrowingTree;
use crate::collective::window_start;
use crate::device;
use crate::recorded_step::TreeTable;
use crate::tree_attention::PassTable;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;

/// How many of `count` candidates from `first` on come before candidate `first + own`: those of greater value, and the
/// earlier ones on ties.
#[cube]
fn rank(values: &Tensor<f32>, first: usize, count: usize, own: usize) -> usize {
    let value = values[first + own];
    let mut before = 0usize;
    for other in 0..count {
        let theirs = values[first + other];
        if theirs > value || (theirs == value && other < own) {
            before += 1;
        }
    }
    before
}

/// One cube: the frontier of a level, and the table of the pass over it.
///
/// # Shapes
/// `before` is the pass of the level above (not read on the first level); the others as [`GrowingTree`] has them.
#[cube(launch_unchecked)]
fn choose_frontier(
    values: &Tensor<f32>,
    pool: &Tensor<i32>,
    pass_table: &Tensor<i32>,
    before: &Tensor<i32>,
    next: &mut Tensor<i32>,
    frontier: &mut Tensor<i32>,
    slots: &mut Tensor<i32>,
    first: usize,
    count: usize,
    level: usize,
    window: usize,
    #[comptime] width: usize,
    #[comptime] rows: usize,
    #[comptime] words: usize,
    #[comptime] words_before: usize,
) {
    let mut chosen = Shared::<[u32]>::new_slice(width);
    let unit = UNIT_POS as usize;
    let mut c = unit;
    while c < count {
        let place = rank(values, first, count, c);
        if place < width {
            chosen[place] = c as u32;
        }
        c += UNITS;
    }
    sync_cube();
    let section = comptime!(4 + 2 * rows);
    let prefix = pass_table[0];
    let position = prefix + i32::cast_from(level as u32);
    let start = window_start(position, window, prefix);
    if unit == 0 {
        next[0] = prefix;
        next[section] = start;
    }
    let mut i = unit;
    while i < width {
        let c = chosen[i] as usize;
        let slot = c / width;
        frontier[i] = i32::cast_from((first + c) as u32);
        slots[i] = i32::cast_from(slot as u32);
        next[4 + i] = pool[first + c];
        next[4 + rows + i] = position;
        next[section + 1 + i] = start;
        let own = level * width + i;
        for word in 0..words {
            let mut bits = 0u32;
            if word < words_before {
                bits = u32::cast_from(before[section + 1 + rows + slot * words_before + word]);
            }
            next[section + 1 + rows + i * words + word] = i32::cast_from(with_bit(bits, word, own));
        }
        i += UNITS;
    }
}

/// A word of a mask with bit `own` of the whole mask set.
#[cube]
fn with_bit(bits: u32, word: usize, own: usize) -> u32 {
    let mut all = bits;
    if word == own / 32 {
        all = bits | (1u32 << (own % 32) as u32);
    }
    all
}

/// One unit per candidate.
#[cube(launch_unchecked)]
fn keep_best(values: &Tensor<f32>, kept: &mut Tensor<i32>, candidates: usize, count: usize) {
    let own = ABSOLUTE_POS;
    if own < candidates {
        let mut keeps = 0i32;
        if rank(values, 0usize, candidates, own) < count {
            keeps = 1i32;
        }
        kept[own] = keeps;
    }
}

/// Sizes of the tree known when the kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Geometry {
    candidates: usize,
    nodes: usize,
    rows: usize,
    words: usize,
}

/// One cube: the kept candidates become a tree and the table of the pass that verifies it.
///
/// # Shapes
/// `tree [4 · R]`; the others as [`GrowingTree`] has them.
#[cube(launch_unchecked)]
fn write_kept(
    pool: &Tensor<i32>,
    kept: &Tensor<i32>,
    tree: &mut Tensor<i32>,
    pass_table: &mut Tensor<i32>,
    sections: usize,
    section: usize,
    windows: Sequence<usize>,
    #[comptime] g: Geometry,
) {
    let candidates = comptime!(g.candidates);
    let (nodes, rows, words) = (comptime!(g.nodes), comptime!(g.rows), comptime!(g.words));
    let mut numbers = Shared::<[u32]>::new_slice(candidates);
    let mut parents = Shared::<[u32]>::new_slice(nodes);
    let mut leading = Shared::<[u32]>::new_slice(nodes);
    let unit = UNIT_POS as usize;
    number_kept(pool, kept, pass_table, &mut numbers, &mut parents, candidates);
    mark_leading(&parents, &mut leading, nodes);
    let prefix = pass_table[0];
    let mut node = unit;
    while node < nodes {
        let (depth, first) = depth_of(&parents, &leading, node);
        tree[node] = i32::cast_from(parents[node]);
        tree[rows + node] = depth;
        tree[3 * rows + node] = first;
        let position = prefix + depth;
        pass_table[4 + rows + node] = position;
        #[unroll]
        for index in 0..comptime!(windows.len()) {
            let from = sections + index * section;
            let window = windows[index];
            let start = window_start(position, window, prefix);
            pass_table[from + 1 + node] = start;
            if node == 0 {
                pass_table[from] = start;
            }
            for word in 0..words {
                let bits = seen_above(&parents, node, window, word);
                pass_table[from + 1 + rows + node * words + word] = i32::cast_from(bits);
            }
        }
        node += UNITS;
    }
}

/// Numbers the kept candidates from 1 on, and notes parents and tokens by number. The root is its own parent.
#[cube]
fn number_kept(
    pool: &Tensor<i32>,
    kept: &Tensor<i32>,
    pass_table: &mut Tensor<i32>,
    numbers: &mut Shared<[u32]>,
    parents: &mut Shared<[u32]>,
    #[comptime] candidates: usize,
) {
    let unit = UNIT_POS as usize;
    let mut c = unit;
    while c < candidates {
        let mut number = 1u32;
        for other in 0..c {
            number += u32::cast_from(kept[other]);
        }
        numbers[c] = number;
        c += UNITS;
    }
    if unit == 0 {
        parents[0] = 0u32;
    }
    sync_cube();
    let mut c = unit;
    while c < candidates {
        if kept[c] == 1i32 {
            let above = usize::cast_from(pool[candidates + c]);
            let mut parent = 0u32;
            // Values never grow along a path, so the parent of a kept candidate is kept.
            if above > 0 {
                parent = numbers[above - 1];
            }
            let node = numbers[c] as usize;
            parents[node] = parent;
            pass_table[4 + node] = pool[c];
        }
        c += UNITS;
    }
    sync_cube();
}

/// Marks the first child of each node.
#[cube]
fn mark_leading(parents: &Shared<[u32]>, leading: &mut Shared<[u32]>, #[comptime] nodes: usize) {
    let mut node = UNIT_POS as usize;
    while node < nodes {
        let mut leads = 1u32;
        for other in 1..nodes {
            if other < node && parents[other] == parents[node] {
                leads = 0u32;
            }
        }
        leading[node] = leads;
        node += UNITS;
    }
    sync_cube();
}

/// A node's depth, and 1 if it and all above it are first children, else 0; the root is none.
#[cube]
fn depth_of(parents: &Shared<[u32]>, leading: &Shared<[u32]>, node: usize) -> (i32, i32) {
    let mut depth = 0i32;
    let mut first = 1i32;
    let mut at = node;
    while at > 0 {
        depth += 1i32;
        first *= i32::cast_from(leading[at]);
        at = parents[at] as usize;
    }
    if node == 0 {
        first = 0i32;
    }
    (depth, first)
}

/// A word of the mask of the nodes that `node` sees: itself and those above it, up to the root or as far as the window
/// goes.
#[cube]
fn seen_above(parents: &Shared<[u32]>, node: usize, window: usize, word: usize) -> u32 {
    let mut bits = 0u32;
    let mut at = node;
    let mut seen = 0usize;
    let mut more = true;
    while more {
        bits = with_bit(bits, word, at);
        seen += 1;
        more = at > 0 && seen != window;
        at = parents[at] as usize;
    }
    bits
}

/// See [`super::descend`].
pub(super) fn descend(growing: &GrowingTree, level: usize, pass_table: &PassTable) {
    let growth = growing.growth;
    let (next, main) = (&growing.passes[level], device::ints(pass_table.table()));
    let above = level.checked_sub(1).map(|above| &growing.passes[above]);
    let before = above.map_or(main.clone(), |above| device::ints(above.table()));
    let (values, pool) = (device::floats(&growing.values), device::ints(&growing.pool));
    let (frontier, slots) = (device::ints(&growing.frontier), device::ints(&growing.slots));
    let first = growth.first(level);
    // SAFETY: passes are laid out as the geometry says, and a level has at least as many candidates as are chosen of
    // it.
    unsafe {
        choose_frontier::launch_unchecked(
            &values.client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::arg(&values),
            device::arg(&pool),
            device::arg(&main),
            device::arg(&before),
            device::arg(&device::ints(next.table())),
            device::arg(&frontier),
            device::arg(&slots),
            first,
            growth.first(level + 1) - first,
            level,
            next.windows()[0].unwrap_or(0),
            growth.top_k,
            next.padded_rows(),
            next.words(),
            above.map_or(0, PassTable::words),
        );
    }
}

/// See [`super::finish`].
pub(super) fn finish(growing: &GrowingTree, tree: &TreeTable, pass_table: &PassTable) {
    let growth = growing.growth;
    let candidates = growth.candidates();
    let (values, pool, kept) =
        (device::floats(&growing.values), device::ints(&growing.pool), device::ints(&growing.kept));
    let (shape, table) = (device::ints(tree.table()), device::ints(pass_table.table()));
    // Zero stands for no window.
    let mut windows = SequenceArg::<usize>::new();
    pass_table.windows().iter().for_each(|window| windows.push(window.unwrap_or(0)));
    let g = Geometry { candidates, nodes: growth.nodes, rows: pass_table.padded_rows(), words: pass_table.words() };
    // SAFETY: tree and table have room for the nodes that are kept, of which there are exactly so many.
    unsafe {
        keep_best::launch_unchecked(
            &values.client,
            CubeCount::Static(candidates.div_ceil(64) as u32, 1, 1),
            CubeDim::new_1d(64),
            device::arg(&values),
            device::arg(&kept),
            candidates,
            growth.nodes - 1,
        );
        write_kept::launch_unchecked(
            &values.client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(UNITS as u32),
            device::arg(&pool),
            device::arg(&kept),
            device::arg(&shape),
            device::arg(&table),
            pass_table.sections(),
            pass_table.section_size(),
            windows,
            g,
        );
    }
}
