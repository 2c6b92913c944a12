//! A tile of tree attention: some queries against some slots, by the units of one cube.

use super::AttentionSpec;
use cubecl::prelude::*;

/// Units of a cube, eight by eight.
pub(super) const UNITS: usize = 64;
/// The score of a slot that a row must not see.
pub(super) const HIDDEN: f32 = -1e30;
/// Anything below is hidden.
const SEEN: f32 = -1e29;

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
    pub rows: usize,
    pub words: usize,
    pub capped: bool,
}

impl Geometry {
    pub fn new(spec: &AttentionSpec, rows: usize, words: usize) -> Self {
        let (group, dims) = (spec.heads / spec.kv_heads, spec.head_dim.next_multiple_of(8));
        // Shared memory stays below 32 KiB: wide heads have smaller tiles, and a lone row needs no large one.
        let (largest, keys) = if dims > 128 { (16, 8) } else { (32, 16) };
        let tile = (rows * group).next_power_of_two().clamp(8, largest);
        let (heads, kv_heads, head_dim) = (spec.heads, spec.kv_heads, spec.head_dim);
        Self { heads, kv_heads, group, head_dim, dims, tile, keys, rows, words, capped: spec.soft_cap.is_some() }
    }
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
pub(super) fn read_queries<F: Float>(
    q: &Tensor<F>,
    tile: &mut Tile,
    first_query: usize,
    kv_head: usize,
    #[comptime] g: Geometry,
) {
    let unit = UNIT_POS as usize;
    let mut i = unit;
    while i < comptime!(g.tile * g.dims) {
        let (query, dim) = (first_query + i / comptime!(g.dims), i % comptime!(g.dims));
        let mut value = f32::new(0.0);
        if query < comptime!(g.rows * g.group) && dim < comptime!(g.head_dim) {
            let row = query / comptime!(g.group);
            let head = kv_head * comptime!(g.group) + query % comptime!(g.group);
            value = f32::cast_from(q[(row * comptime!(g.heads) + head) * comptime!(g.head_dim) + dim]);
        }
        tile.queries[i / comptime!(g.dims) * comptime!(g.dims + 1) + dim] = value;
        i += UNITS;
    }
    if unit < comptime!(g.tile) {
        tile.largest[unit] = f32::new(HIDDEN);
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
    section: usize,
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
                dot += tile.queries[query * width + dim] * tile.slots[key * width + dim];
            }
            let mut score = dot * scale;
            if comptime!(g.capped) {
                score = cap * (score / cap).tanh();
            }
            let global = first_query + query;
            let mut visible = global < comptime!(g.rows * g.group) && start + key < end;
            if visible {
                visible = is_visible(pass_table, section, global / comptime!(g.group), start + key, g);
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
fn is_visible(pass_table: &Tensor<i32>, section: usize, row: usize, slot: usize, #[comptime] g: Geometry) -> bool {
    let prefix = usize::cast_from(pass_table[0]);
    let mut visible = slot >= usize::cast_from(pass_table[section + 1 + row]);
    if slot >= prefix {
        let bit = slot - prefix;
        let words = section + 1 + comptime!(g.rows) + row * comptime!(g.words);
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
        weight[r] = weight[r] * shrunk;
        #[unroll]
        for c in 0..per_dim {
            sum[r * per_dim + c] = sum[r * per_dim + c] * shrunk;
        }
    }
    for k in 0..comptime!(g.keys) {
        #[unroll]
        for r in 0..per_row {
            let share = tile.scores[(uy * per_row + r) * comptime!(g.keys) + k];
            weight[r] = weight[r] + share;
            #[unroll]
            for c in 0..per_dim {
                let value = tile.slots[k * comptime!(g.dims + 1) + ux + 8 * c];
                sum[r * per_dim + c] = sum[r * per_dim + c] + share * value;
            }
        }
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
    #[comptime] g: Geometry,
) {
    let (per_row, per_dim) = comptime!((g.tile / 8, g.dims / 8));
    let (ux, uy) = (UNIT_POS as usize % 8, UNIT_POS as usize / 8);
    let total = comptime!(g.rows * g.group);
    #[unroll]
    for r in 0..per_row {
        let query = first_query + uy * per_row + r;
        if query < total {
            let at = (CUBE_POS_X as usize * total + query) * comptime!(g.kv_heads) + kv_head;
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

/// Loads a tile of keys or values, with zeros beyond `end` and beyond the head.
#[cube]
pub(super) fn load<F: Float>(
    cache: &Tensor<F>,
    slots: &mut Shared<[f32]>,
    from: usize,
    start: usize,
    end: usize,
    #[comptime] g: Geometry,
) {
    let mut i = UNIT_POS as usize;
    while i < comptime!(g.keys * g.dims) {
        let (key, dim) = (i / comptime!(g.dims), i % comptime!(g.dims));
        let mut value = f32::new(0.0);
        if start + key < end && dim < comptime!(g.head_dim) {
            value = f32::cast_from(cache[from + (start + key) * comptime!(g.head_dim) + dim]);
        }
        slots[key * comptime!(g.dims + 1) + dim] = value;
        i += UNITS;
    }
}
