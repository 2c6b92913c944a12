//! Tree attention on a GPU: the prefix is split between cubes, each with a running softmax; a second pass combines
//! them.

use super::{AttentionSpec, PassTable};
use crate::device;
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units of a cube, eight by eight.
const UNITS: usize = 64;
/// The score of a slot that a row must not see.
const HIDDEN: f32 = -1e30;
/// Anything below is hidden.
const SEEN: f32 = -1e29;

/// What is known when the kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Geometry {
    heads: usize,
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    /// Dimensions with padding to a multiple of eight.
    dims: usize,
    /// Query rows of a tile: those of all heads that share a key/value head.
    tile: usize,
    /// Slots of a tile.
    keys: usize,
    rows: usize,
    words: usize,
    capped: bool,
}

impl Geometry {
    fn new(spec: &AttentionSpec, rows: usize, words: usize) -> Self {
        let (group, dims) = (spec.heads / spec.kv_heads, spec.head_dim.next_multiple_of(8));
        // Shared memory stays below 32 KiB: wide heads have smaller tiles, and a lone row needs no large one.
        let (largest, keys) = if dims > 128 { (16, 8) } else { (32, 16) };
        let tile = (rows * group).next_power_of_two().clamp(8, largest);
        let (heads, kv_heads, head_dim) = (spec.heads, spec.kv_heads, spec.head_dim);
        Self { heads, kv_heads, group, head_dim, dims, tile, keys, rows, words, capped: spec.soft_cap.is_some() }
    }
}

/// A cube's share: one key/value head, one split of the slots, one tile of query rows. Writes the sum of weighted
/// values, not yet divided, with the largest score and the sum of weights.
///
/// # Shapes
/// `q [R, heads, d]`, `cache [2 · layers, kv_heads, capacity, d]`, `sums [splits, R · group, kv_heads, d]`,
/// `weights [splits, R · group, kv_heads, 2]`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn attend_split<F: Float>(
    q: &Tensor<F>,
    cache: &Tensor<F>,
    pass_table: &Tensor<i32>,
    sums: &mut Tensor<f32>,
    weights: &mut Tensor<f32>,
    layer: usize,
    section: usize,
    split: usize,
    scale: f32,
    cap: f32,
    #[comptime] g: Geometry,
    #[define(F)] _dtype: ElemType,
) {
    let d = comptime!(g.head_dim);
    let width = comptime!(g.dims + 1);
    let tile = comptime!(g.tile);
    let keys = comptime!(g.keys);
    let per_row = comptime!(g.tile / 8);
    let per_key = comptime!(g.keys / 8);
    let per_dim = comptime!(g.dims / 8);
    let total = comptime!(g.rows * g.group);

    let unit = UNIT_POS as usize;
    let (ux, uy) = (unit % 8, unit / 8);
    let kv_head = CUBE_POS_Y as usize;
    let first_query = CUBE_POS_Z as usize * tile;

    let mut queries = Shared::<[f32]>::new_slice(comptime!(g.tile * (g.dims + 1)));
    let mut slots = Shared::<[f32]>::new_slice(comptime!(g.keys * (g.dims + 1)));
    let mut scores = Shared::<[f32]>::new_slice(comptime!(g.tile * g.keys));
    let mut largest = Shared::<[f32]>::new_slice(comptime!(g.tile));
    let mut shrink = Shared::<[f32]>::new_slice(comptime!(g.tile));

    let mut i = unit;
    while i < comptime!(g.tile * g.dims) {
        let (query, dim) = (first_query + i / comptime!(g.dims), i % comptime!(g.dims));
        let mut value = f32::new(0.0);
        if query < total && dim < d {
            let row = query / comptime!(g.group);
            let head = kv_head * comptime!(g.group) + query % comptime!(g.group);
            value = f32::cast_from(q[(row * comptime!(g.heads) + head) * d + dim]);
        }
        queries[i / comptime!(g.dims) * width + dim] = value;
        i += UNITS;
    }
    if unit < tile {
        largest[unit] = f32::new(HIDDEN);
    }

    let mut sum = Array::<f32>::new(comptime!(g.tile / 8 * (g.dims / 8)));
    let mut weight = Array::<f32>::new(per_row);
    #[unroll]
    for r in 0..per_row {
        weight[r] = f32::new(0.0);
        #[unroll]
        for c in 0..per_dim {
            sum[r * per_dim + c] = f32::new(0.0);
        }
    }

    let prefix = usize::cast_from(pass_table[0]);
    let seen_end = prefix + usize::cast_from(pass_table[1]) + usize::cast_from(pass_table[2]);
    let least = usize::cast_from(pass_table[section]);
    let split_start = CUBE_POS_X as usize * split;
    let end = clamp_max(clamp_max(split_start + split, seen_end), cache.shape(2));
    let mut start = split_start;
    if least > split_start {
        start = least;
    }
    let capacity = cache.shape(2);
    let keys_at = (layer * 2 * comptime!(g.kv_heads) + kv_head) * capacity * d;
    let values_at = ((layer * 2 + 1) * comptime!(g.kv_heads) + kv_head) * capacity * d;

    while start < end {
        sync_cube();
        load::<F>(cache, &mut slots, keys_at, start, end, g);
        sync_cube();
        #[unroll]
        for r in 0..per_row {
            #[unroll]
            for k in 0..per_key {
                let (query, key) = (uy * per_row + r, ux + 8 * k);
                let mut dot = f32::new(0.0);
                for dim in 0..comptime!(g.dims) {
                    dot += queries[query * width + dim] * slots[key * width + dim];
                }
                let mut score = dot * scale;
                if comptime!(g.capped) {
                    score = cap * (score / cap).tanh();
                }
                let slot = start + key;
                let global = first_query + query;
                let mut visible = global < total && slot < end;
                if visible {
                    let row = global / comptime!(g.group);
                    if slot < prefix {
                        visible = slot >= usize::cast_from(pass_table[section + 1 + row]);
                    } else {
                        let bit = slot - prefix;
                        let words = section + 1 + comptime!(g.rows) + row * comptime!(g.words);
                        let word = u32::cast_from(pass_table[words + bit / 32]);
                        visible = (word >> (bit % 32) as u32) & 1u32 == 1u32;
                    }
                }
                if !visible {
                    score = f32::new(HIDDEN);
                }
                scores[query * keys + key] = score;
            }
        }
        sync_cube();
        if unit < tile {
            let before = largest[unit];
            let mut now = before;
            for k in 0..keys {
                now = max(now, scores[unit * keys + k]);
            }
            shrink[unit] = (before - now).exp();
            largest[unit] = now;
        }
        load::<F>(cache, &mut slots, values_at, start, end, g);
        sync_cube();
        let mut i = unit;
        while i < comptime!(g.tile * g.keys) {
            let score = scores[i];
            let mut share = f32::new(0.0);
            if score > f32::new(SEEN) {
                share = (score - largest[i / keys]).exp();
            }
            scores[i] = share;
            i += UNITS;
        }
        sync_cube();
        #[unroll]
        for r in 0..per_row {
            let shrunk = shrink[uy * per_row + r];
            weight[r] = weight[r] * shrunk;
            #[unroll]
            for c in 0..per_dim {
                sum[r * per_dim + c] = sum[r * per_dim + c] * shrunk;
            }
        }
        for k in 0..keys {
            #[unroll]
            for r in 0..per_row {
                let share = scores[(uy * per_row + r) * keys + k];
                weight[r] = weight[r] + share;
                #[unroll]
                for c in 0..per_dim {
                    sum[r * per_dim + c] = sum[r * per_dim + c] + share * slots[k * width + ux + 8 * c];
                }
            }
        }
        start += keys;
    }

    #[unroll]
    for r in 0..per_row {
        let query = first_query + uy * per_row + r;
        if query < total {
            let at = (CUBE_POS_X as usize * total + query) * comptime!(g.kv_heads) + kv_head;
            #[unroll]
            for c in 0..per_dim {
                let dim = ux + 8 * c;
                if dim < d {
                    sums[at * d + dim] = sum[r * per_dim + c];
                }
            }
            if ux == 0 {
                weights[at * 2] = largest[uy * per_row + r];
                weights[at * 2 + 1] = weight[r];
            }
        }
    }
}

#[cube]
fn clamp_max(value: usize, limit: usize) -> usize {
    if value < limit { value } else { limit }
}

/// Loads a tile of keys or values, with zeros beyond `end` and beyond the head.
#[cube]
fn load<F: Float>(
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

/// Joins the splits of one query row and key/value head.
///
/// # Shapes
/// As [`attend_split`] writes them; `out [R, heads, d]`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn join_splits<F: Float>(
    sums: &Tensor<f32>,
    weights: &Tensor<f32>,
    out: &mut Tensor<F>,
    splits: usize,
    #[comptime] g: Geometry,
    #[define(F)] _dtype: ElemType,
) {
    let d = comptime!(g.head_dim);
    let total = comptime!(g.rows * g.group);
    let (query, kv_head) = (CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let at = query * comptime!(g.kv_heads) + kv_head;
    let step = comptime!(g.rows * g.group * g.kv_heads);
    let mut largest = f32::new(HIDDEN);
    for s in 0..splits {
        largest = max(largest, weights[(s * step + at) * 2]);
    }
    let mut weight = f32::new(0.0);
    for s in 0..splits {
        let of = (s * step + at) * 2;
        weight += (weights[of] - largest).exp() * weights[of + 1];
    }
    // A row of padding sees nothing; its result is zero.
    let mut share = f32::new(0.0);
    if weight > f32::new(0.0) {
        share = f32::new(1.0) / weight;
    }
    let row = query / comptime!(g.group);
    let head = kv_head * comptime!(g.group) + query % comptime!(g.group);
    let mut dim = UNIT_POS as usize;
    if query < total {
        while dim < d {
            let mut sum = f32::new(0.0);
            for s in 0..splits {
                let of = s * step + at;
                // Splits that nothing was seen in have no sum to speak of.
                if weights[of * 2 + 1] > f32::new(0.0) {
                    sum += (weights[of * 2] - largest).exp() * sums[of * d + dim];
                }
            }
            out[(row * comptime!(g.heads) + head) * d + dim] = F::cast_from(sum * share);
            dim += CUBE_DIM as usize;
        }
    }
}

/// Slots of a split: enough splits to occupy a large device, few enough that joining them is cheap.
fn split(slots: usize) -> usize {
    slots.div_ceil(32).next_multiple_of(16).max(64)
}

/// Joins what [`attend_split`] found in each split.
fn join(q: &CubeTensor, sums: &CubeTensor, weights: &CubeTensor, splits: usize, g: Geometry) -> CubeTensor {
    let out = device::empty(q, [g.rows, g.heads, g.head_dim], q.dtype);
    // SAFETY: every index is within the shapes, which are the launch's own.
    unsafe {
        join_splits::launch_unchecked(
            &q.client,
            CubeCount::Static((g.rows * g.group) as u32, g.kv_heads as u32, 1),
            CubeDim::new_1d(32),
            device::address([q, sums]),
            device::arg(sums),
            device::arg(weights),
            device::arg(&out),
            splits,
            g,
            device::elem(q),
        );
    }
    out
}

/// See [`super::attend_cached`].
pub(super) fn attend(
    spec: &AttentionSpec,
    q: &CubeTensor,
    cache: &CubeTensor,
    layer: usize,
    pass_table: &PassTable,
) -> CubeTensor {
    let rows = pass_table.padded_rows();
    let g = Geometry::new(spec, rows, pass_table.words());
    let total = rows * g.group;
    let split = split(pass_table.slots());
    let splits = pass_table.slots().div_ceil(split).max(1);
    let sums = device::empty(q, [splits, total, g.kv_heads, g.head_dim], DType::F32);
    let weights = device::empty(q, [splits, total, g.kv_heads, 2], DType::F32);
    let table = device::ints(pass_table.table());
    let tiles = total.div_ceil(g.tile);
    // SAFETY: every index is within the shapes above, which are the launch's own; slots read end at the table's rows in
    // flight, which the cache had room for when the table was made.
    unsafe {
        attend_split::launch_unchecked(
            &q.client,
            CubeCount::Static(splits as u32, g.kv_heads as u32, tiles as u32),
            CubeDim::new_1d(UNITS as u32),
            device::address([q, cache, &sums]),
            device::arg(q),
            device::arg(cache),
            device::arg(&table),
            device::arg(&sums),
            device::arg(&weights),
            layer,
            pass_table.section(spec.window),
            split,
            spec.scale,
            spec.soft_cap.unwrap_or(1.0),
            g,
            device::elem(q),
        );
    }
    join(q, &sums, &weights, splits, g)
}
