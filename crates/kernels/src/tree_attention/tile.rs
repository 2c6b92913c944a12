//! A tile of tree attention: some queries against some slots, by the units of one cube.

use super::AttentionSpec;
use cubecl::prelude::*;

/// Units of a cube, eight by eight.
pub(super) const UNITS: usize = 64;
/// The score of a slot that a row must not see.
pub(super) const HIDDEN: f32 = -1e30;
/// Anything below is hidden.
pub(super) const SEEN: f32 = -1e29;

/// Sizes known when the kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Geometry {
    pub heads: usize,
    pub kv_heads: usize,
    pub group: usize,
    pub head_dim: usize,
    /// Dimensions with padding to a multiple of eight.
    pub dims: usize,
    /// Query rows of a tile: those of all heads that share a key/value head.
    pub tile: usize,
    /// Slots of a tile.
    pub keys: usize,
    /// Numbers that a load takes, all of one head.
    pub wide: usize,
    pub capped: bool,
}

impl Geometry {
    /// For sequences of at most `rows` rows.
    pub fn new(spec: &AttentionSpec, rows: usize, wide: usize) -> Self {
        let (group, dims) = (spec.heads / spec.kv_heads, spec.head_dim.next_multiple_of(8));
        // Shared memory stays below 32 KiB: wide heads have smaller tiles, and a lone row needs no large one.
        let (largest, keys) = if dims > 128 { (16, 8) } else { (32, 16) };
        let tile = (rows * group).next_power_of_two().clamp(8, largest);
        let (heads, kv_heads, head_dim) = (spec.heads, spec.kv_heads, spec.head_dim);
        Self { heads, kv_heads, group, head_dim, dims, tile, keys, wide, capped: spec.soft_cap.is_some() }
    }
}

/// The rows of a sequence, and what they see.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Seen {
    /// Where its pass table begins.
    pub table: usize,
    /// Where the section of the window begins in it.
    pub section: usize,
    /// Its first row among those of all sequences.
    pub first_row: usize,
    /// Rows with padding.
    pub rows: usize,
    /// Words of bits of a row.
    pub words: usize,
}

/// The slots of a sequence, and how they are split.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Slots {
    pub capacity: usize,
    pub split: usize,
    pub splits: usize,
    pub first_tile: usize,
    pub chain: usize,
}

/// Slots that hold rows: committed ones, and uncommitted ones of earlier passes and of this one.
#[cube]
pub(super) fn used_slots(pass_table: &Tensor<i32>, table: usize) -> usize {
    usize::cast_from(pass_table[table])
        + usize::cast_from(pass_table[table + 1])
        + usize::cast_from(pass_table[table + 2])
}

/// Memory that the units of a cube share: a tile of queries, one of keys or values, and their scores; for each query
/// the largest score so far, and the factor by which earlier sums shrink as it grows.
#[derive(CubeType)]
pub(super) struct Tile {
    queries: Shared<[f32]>,
    pub slots: Shared<[f32]>,
    scores: Shared<[f32]>,
    largest: Shared<[f32]>,
    shrink: Shared<[f32]>,
}

#[cube]
pub(super) fn new_tile(#[comptime] g: Geometry) -> Tile {
    Tile {
        queries: Shared::new_slice(comptime!(g.tile * (g.dims + 1))),
        slots: Shared::new_slice(comptime!(g.keys * (g.dims + 1))),
        scores: Shared::new_slice(comptime!(g.tile * g.keys)),
        largest: Shared::new_slice(comptime!(g.tile)),
        shrink: Shared::new_slice(comptime!(g.tile)),
    }
}

/// Reads the tile's queries, with zeros beyond the rows and beyond the head.
#[cube]
pub(super) fn read_queries<F: Float, N: Size>(
    q: &Tensor<Vector<F, N>>,
    tile: &mut Tile,
    first_query: usize,
    kv_head: usize,
    seen: &Seen,
    #[comptime] g: Geometry,
) {
    let unit = UNIT_POS as usize;
    let loads = comptime!(g.dims / g.wide);
    let mut i = unit;
    while i < comptime!(g.tile * (g.dims / g.wide)) {
        let (query, chunk) = (first_query + i / loads, i % loads);
        let mut values = Vector::<F, N>::new(F::new(0.0));
        if query < seen.rows * comptime!(g.group) && chunk < comptime!(g.head_dim / g.wide) {
            let row = seen.first_row + query / comptime!(g.group);
            let head = kv_head * comptime!(g.group) + query % comptime!(g.group);
            values = q[(row * comptime!(g.heads) + head) * comptime!(g.head_dim / g.wide) + chunk];
        }
        spread::<F, N>(values, &mut tile.queries, i / loads * comptime!(g.dims + 1) + chunk * comptime!(g.wide), g);
        i += UNITS;
    }
    if unit < comptime!(g.tile) {
        tile.largest[unit] = f32::new(HIDDEN);
    }
}

/// Numbers of one load, to shared memory from `at` on.
#[cube]
fn spread<F: Float, N: Size>(values: Vector<F, N>, to: &mut Shared<[f32]>, at: usize, #[comptime] g: Geometry) {
    #[unroll]
    for k in 0..comptime!(g.wide) {
        to[at + k] = f32::cast_from(values.extract(k));
    }
}

/// Scores of the tile's queries with the keys from slot `start` on; each unit has some of both.
#[cube]
pub(super) fn score_tile(
    pass_table: &Tensor<i32>,
    tile: &mut Tile,
    first_query: usize,
    start: usize,
    end: usize,
    seen: &Seen,
    scale: f32,
    cap: f32,
    #[comptime] g: Geometry,
) {
    let width = comptime!(g.dims + 1);
    let (ux, uy) = (UNIT_POS as usize % 8, UNIT_POS as usize / 8);
    #[unroll]
    for r in 0..comptime!(g.tile / 8) {
        #[unroll]
        for k in 0..comptime!(g.keys / 8) {
            let (query, key) = (uy * comptime!(g.tile / 8) + r, ux + 8 * k);
            let mut dot = f32::new(0.0);
            for dim in 0..comptime!(g.dims) {
                dot = fma(tile.queries[query * width + dim], tile.slots[key * width + dim], dot);
            }
            let mut score = dot * scale;
            if comptime!(g.capped) {
                score = cap * (score / cap).tanh();
            }
            let global = first_query + query;
            let mut visible = global < seen.rows * comptime!(g.group) && start + key < end;
            if visible {
                visible = is_visible(pass_table, seen, global / comptime!(g.group), start + key);
            }
            if !visible {
                score = f32::new(HIDDEN);
            }
            tile.scores[query * comptime!(g.keys) + key] = score;
        }
    }
}

/// Whether a row sees a slot: of the prefix those from its first on, behind it those of its bits.
#[cube]
fn is_visible(pass_table: &Tensor<i32>, seen: &Seen, row: usize, slot: usize) -> bool {
    let prefix = usize::cast_from(pass_table[seen.table]);
    let section = seen.table + seen.section;
    let mut visible = slot >= usize::cast_from(pass_table[section + 1 + row]);
    if slot >= prefix {
        let bit = slot - prefix;
        let words = section + 1 + seen.rows + row * seen.words;
        let word = u32::cast_from(pass_table[words + bit / 32]);
        visible = (word >> (bit % 32) as u32) & 1u32 == 1u32;
    }
    visible
}

/// Each query's largest score so far, and by how much earlier sums shrink.
#[cube]
pub(super) fn raise_largest(tile: &mut Tile, #[comptime] g: Geometry) {
    let unit = UNIT_POS as usize;
    if unit < comptime!(g.tile) {
        let before = tile.largest[unit];
        let mut now = before;
        for k in 0..comptime!(g.keys) {
            now = max(now, tile.scores[unit * comptime!(g.keys) + k]);
        }
        tile.shrink[unit] = (before - now).exp();
        tile.largest[unit] = now;
    }
}

/// Scores become `exp(score − largest)`, and 0 where nothing is seen.
#[cube]
pub(super) fn weigh_scores(tile: &mut Tile, #[comptime] g: Geometry) {
    let mut i = UNIT_POS as usize;
    while i < comptime!(g.tile * g.keys) {
        let score = tile.scores[i];
        let mut share = f32::new(0.0);
        if score > f32::new(SEEN) {
            share = (score - tile.largest[i / comptime!(g.keys)]).exp();
        }
        tile.scores[i] = share;
        i += UNITS;
    }
}

/// Adds the tile's weighted values to the unit's sums.
#[cube]
pub(super) fn add_values(tile: &Tile, sum: &mut Array<f32>, weight: &mut Array<f32>, #[comptime] g: Geometry) {
    let (per_row, per_dim) = comptime!((g.tile / 8, g.dims / 8));
    let (ux, uy) = (UNIT_POS as usize % 8, UNIT_POS as usize / 8);
    #[unroll]
    for r in 0..per_row {
        let shrunk = tile.shrink[uy * per_row + r];
        #[unroll]
        for c in 0..per_dim {
            sum[r * per_dim + c] = sum[r * per_dim + c] * shrunk;
        }
    }
    // Fused by name: a compiler that chose what to fuse could choose otherwise for another number of sequences.
    let mut shares = Array::<f32>::new(per_row);
    #[unroll]
    for r in 0..per_row {
        shares[r] = f32::new(0.0);
    }
    for k in 0..comptime!(g.keys) {
        #[unroll]
        for r in 0..per_row {
            let share = tile.scores[(uy * per_row + r) * comptime!(g.keys) + k];
            shares[r] = shares[r] + share;
            #[unroll]
            for c in 0..per_dim {
                let value = tile.slots[k * comptime!(g.dims + 1) + ux + 8 * c];
                sum[r * per_dim + c] = fma(share, value, sum[r * per_dim + c]);
            }
        }
    }
    #[unroll]
    for r in 0..per_row {
        weight[r] = fma(weight[r], tile.shrink[uy * per_row + r], shares[r]);
    }
}

/// Writes the unit's sums, and for each query the largest score and the sum of weights.
#[cube]
pub(super) fn write_sums(
    tile: &Tile,
    sum: &Array<f32>,
    weight: &Array<f32>,
    sums: &mut Tensor<f32>,
    weights: &mut Tensor<f32>,
    first_query: usize,
    kv_head: usize,
    seen: &Seen,
    total: usize,
    #[comptime] g: Geometry,
) {
    let (per_row, per_dim) = comptime!((g.tile / 8, g.dims / 8));
    let (ux, uy) = (UNIT_POS as usize % 8, UNIT_POS as usize / 8);
    let group = comptime!(g.group);
    #[unroll]
    for r in 0..per_row {
        let query = first_query + uy * per_row + r;
        if query < seen.rows * group {
            let at = (CUBE_POS_X as usize * total + seen.first_row * group + query) * comptime!(g.kv_heads) + kv_head;
            #[unroll]
            for c in 0..per_dim {
                let dim = ux + 8 * c;
                if dim < comptime!(g.head_dim) {
                    sums[at * comptime!(g.head_dim) + dim] = sum[r * per_dim + c];
                }
            }
            if ux == 0 {
                weights[at * 2] = tile.largest[uy * per_row + r];
                weights[at * 2 + 1] = weight[r];
            }
        }
    }
}

/// Loads a tile of keys or values, with zeros beyond `end` and beyond the head. All loads of a unit are under way before
/// the first is used.
#[cube]
pub(super) fn load<F: Float, N: Size>(
    cache: &[Vector<F, N>],
    slots: &mut Shared<[f32]>,
    from: usize,
    start: usize,
    end: usize,
    #[comptime] g: Geometry,
) {
    let loads = comptime!(g.dims / g.wide);
    let of_unit = comptime!((g.keys * (g.dims / g.wide)).div_ceil(UNITS));
    let mut held = Array::<Vector<F, N>>::new(of_unit);
    #[unroll]
    for j in 0..of_unit {
        let i = UNIT_POS as usize + j * UNITS;
        let (key, chunk) = (i / loads, i % loads);
        held[j] = Vector::<F, N>::new(F::new(0.0));
        if key < comptime!(g.keys) && start + key < end && chunk < comptime!(g.head_dim / g.wide) {
            held[j] = cache[from + (start + key) * comptime!(g.head_dim / g.wide) + chunk];
        }
    }
    #[unroll]
    for j in 0..of_unit {
        let i = UNIT_POS as usize + j * UNITS;
        let (key, chunk) = (i / loads, i % loads);
        if key < comptime!(g.keys) {
            spread::<F, N>(held[j], slots, key * comptime!(g.dims + 1) + chunk * comptime!(g.wide), g);
        }
    }
}
