//! Tree attention on a GPU: the prefix is split between cubes, each with a running softmax; a second pass combines
//! them.

use super::tile::{
    Geometry, HIDDEN, UNITS, add_values, load, new_tile, raise_largest, read_queries, score_tile, weigh_scores,
    write_sums,
};
use super::{AttentionSpec, PassTable};
use crate::device;
use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

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
    let kv_head = CUBE_POS_Y as usize;
    let first_query = CUBE_POS_Z as usize * comptime!(g.tile);
    let mut tile = new_tile(g);
    read_queries::<F>(q, &mut tile, first_query, kv_head, g);
    let mut sum = Array::<f32>::new(comptime!(g.tile / 8 * (g.dims / 8)));
    let mut weight = Array::<f32>::new(comptime!(g.tile / 8));
    #[unroll]
    for i in 0..comptime!(g.tile / 8 * (g.dims / 8)) {
        sum[i] = f32::new(0.0);
    }
    #[unroll]
    for r in 0..comptime!(g.tile / 8) {
        weight[r] = f32::new(0.0);
    }

    let seen_end = usize::cast_from(pass_table[0]) + usize::cast_from(pass_table[1]) + usize::cast_from(pass_table[2]);
    let split_start = CUBE_POS_X as usize * split;
    let capacity = cache.shape(2);
    let end = clamp_max(clamp_max(split_start + split, seen_end), capacity);
    let mut start = max(split_start, usize::cast_from(pass_table[section]));
    let plane = capacity * comptime!(g.head_dim);
    let keys_at = (layer * 2 * comptime!(g.kv_heads) + kv_head) * plane;
    let values_at = ((layer * 2 + 1) * comptime!(g.kv_heads) + kv_head) * plane;
    while start < end {
        sync_cube();
        load::<F>(cache, &mut tile.slots, keys_at, start, end, g);
        sync_cube();
        score_tile(pass_table, &mut tile, first_query, start, end, section, scale, cap, g);
        sync_cube();
        raise_largest(&mut tile, g);
        load::<F>(cache, &mut tile.slots, values_at, start, end, g);
        sync_cube();
        weigh_scores(&mut tile, g);
        sync_cube();
        add_values(&tile, &mut sum, &mut weight, g);
        start += comptime!(g.keys);
    }
    write_sums(&tile, &sum, &weight, sums, weights, first_query, kv_head, g);
}

#[cube]
fn clamp_max(value: usize, limit: usize) -> usize {
    if value < limit { value } else { limit }
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
