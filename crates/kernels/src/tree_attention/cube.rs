//! Tree attention on a GPU: each sequence's slots are split between cubes, each with a running softmax; a second pass
//! combines them.

use super::sequences::{Sequences, Share};
use super::tile::{
    Geometry, HIDDEN, Seen, UNITS, add_values, load, new_tile, raise_largest, read_queries, score_tile, weigh_scores,
    write_sums,
};
use super::{AttentionSpec, PassTable};
use crate::device;
use burn::tensor::{DType, Tensor as Burn};
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// A cube's share: one key/value head, one split of a sequence's slots, one tile of its query rows. Writes the sum of
/// weighted values, not yet divided, with the largest score and the sum of weights.
///
/// # Shapes
/// `q [R, heads, d]`, `caches [2 · layers, kv_heads, capacity, d]`, `sums [splits, R · group, kv_heads, d]`,
/// `weights [splits, R · group, kv_heads, 2]`; `total` is `R · group`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn attend_split<F: Float, N: Size>(
    q: &Tensor<Vector<F, N>>,
    caches: &Sequence<OwnedTensor<Vector<F, N>>>,
    shares: &Sequence<Share>,
    pass_table: &Tensor<i32>,
    sums: &mut Tensor<f32>,
    weights: &mut Tensor<f32>,
    layer: usize,
    total: usize,
    scale: f32,
    cap: f32,
    #[comptime] places: usize,
    #[comptime] g: Geometry,
    #[define(F)] _dtype: ElemType,
) {
    let (kv_head, at_tile) = (CUBE_POS_Y as usize, CUBE_POS_Z as usize);
    let (seen, slots, sequence) = find_tile(shares, at_tile, places);
    let split_start = CUBE_POS_X as usize * slots.split;
    if CUBE_POS_X as usize >= slots.splits {
        terminate!();
    }
    let first_query = (at_tile - slots.first_tile) * comptime!(g.tile);
    let mut tile = new_tile(g);
    read_queries::<F, N>(q, &mut tile, first_query, kv_head, &seen, g);
    let mut sum = zeros(comptime!(g.tile / 8 * (g.dims / 8)));
    let mut weight = zeros(comptime!(g.tile / 8));

    let end = min(min(split_start + slots.split, used_slots(pass_table, seen.table)), slots.capacity);
    let mut start = max(split_start, usize::cast_from(pass_table[seen.table + seen.section]));
    let plane = slots.capacity * comptime!(g.head_dim / g.wide);
    let keys_at = (layer * 2 * comptime!(g.kv_heads) + kv_head) * plane;
    let values_at = ((layer * 2 + 1) * comptime!(g.kv_heads) + kv_head) * plane;
    while start < end {
        sync_cube();
        load_of::<F, N>(caches, &mut tile.slots, sequence, keys_at, start, end, places, g);
        sync_cube();
        score_tile(pass_table, &mut tile, first_query, start, end, &seen, scale, cap, g);
        sync_cube();
        raise_largest(&mut tile, g);
        load_of::<F, N>(caches, &mut tile.slots, sequence, values_at, start, end, places, g);
        sync_cube();
        weigh_scores(&mut tile, g);
        sync_cube();
        add_values(&tile, &mut sum, &mut weight, g);
        start += comptime!(g.keys);
    }
    write_sums(&tile, &sum, &weight, sums, weights, first_query, kv_head, &seen, total, g);
}

/// The slots of a sequence, and how they are split.
#[derive(CubeType, Clone, Copy)]
struct Slots {
    capacity: usize,
    split: usize,
    splits: usize,
    first_tile: usize,
}

/// The sequence that a tile of queries belongs to: the last one that begins at it or before.
#[cube]
fn find_tile(shares: &Sequence<Share>, tile: usize, #[comptime] places: usize) -> (Seen, Slots, usize) {
    let mut table = 0usize;
    let mut section = 0usize;
    let mut first_row = 0usize;
    let mut rows = 0usize;
    let mut words = 0usize;
    let mut capacity = 0usize;
    let mut split = 0usize;
    let mut splits = 0usize;
    let mut first_tile = 0usize;
    let mut sequence = 0usize;
    #[unroll]
    for i in 0..places {
        let share = shares.index(i);
        if tile >= share.first_tile {
            table = share.table;
            section = share.section;
            first_row = share.first_row;
            rows = share.rows;
            words = share.words;
            capacity = share.capacity;
            split = share.split;
            splits = share.splits;
            first_tile = share.first_tile;
            sequence = i;
        }
    }
    (Seen { table, section, first_row, rows, words }, Slots { capacity, split, splits, first_tile }, sequence)
}

#[cube]
fn zeros(#[comptime] size: usize) -> Array<f32> {
    let mut values = Array::<f32>::new(size);
    #[unroll]
    for i in 0..size {
        values[i] = f32::new(0.0);
    }
    values
}

/// Slots that hold rows: committed ones, and uncommitted ones of earlier passes and of this one.
#[cube]
fn used_slots(pass_table: &Tensor<i32>, table: usize) -> usize {
    usize::cast_from(pass_table[table])
        + usize::cast_from(pass_table[table + 1])
        + usize::cast_from(pass_table[table + 2])
}

/// Loads a tile from the cache of one sequence.
#[cube]
fn load_of<F: Float, N: Size>(
    caches: &Sequence<OwnedTensor<Vector<F, N>>>,
    slots: &mut Shared<[f32]>,
    sequence: usize,
    from: usize,
    start: usize,
    end: usize,
    #[comptime] places: usize,
    #[comptime] g: Geometry,
) {
    #[unroll]
    for i in 0..places {
        if sequence == i {
            load::<F, N>(caches.index(i).as_slice(), slots, from, start, end, g);
        }
    }
}

/// Joins the splits of one query row and key/value head; query rows count from the launch's first row on.
///
/// # Shapes
/// As [`attend_split`] writes them; `out [R, heads, d]`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn join_splits<F: Float>(
    sums: &Tensor<f32>,
    weights: &Tensor<f32>,
    shares: &Sequence<Share>,
    out: &mut Tensor<F>,
    total: usize,
    #[comptime] places: usize,
    #[comptime] g: Geometry,
    #[define(F)] _dtype: ElemType,
) {
    let (d, group) = comptime!((g.head_dim, g.group));
    let (query, kv_head) = (shares.index(0usize).first_row * group + CUBE_POS_X as usize, CUBE_POS_Y as usize);
    let row = query / group;
    let mut splits = 0usize;
    #[unroll]
    for i in 0..places {
        let share = shares.index(i);
        if row >= share.first_row {
            splits = share.splits;
        }
    }
    let at = query * comptime!(g.kv_heads) + kv_head;
    let step = total * comptime!(g.kv_heads);
    let mut largest = f32::new(HIDDEN);
    for s in 0..splits {
        largest = max(largest, weights[(s * step + at) * 2]);
    }
    let mut weight = f32::new(0.0);
    for s in 0..splits {
        let of = (s * step + at) * 2;
        weight = fma((weights[of] - largest).exp(), weights[of + 1], weight);
    }
    // A row of padding sees nothing; its result is zero.
    let mut share = f32::new(0.0);
    if weight > f32::new(0.0) {
        share = f32::new(1.0) / weight;
    }
    let head = kv_head * group + query % group;
    let mut dim = UNIT_POS as usize;
    while dim < d {
        let mut sum = f32::new(0.0);
        for s in 0..splits {
            let of = s * step + at;
            // Splits that nothing was seen in have no sum to speak of.
            if weights[of * 2 + 1] > f32::new(0.0) {
                sum = fma((weights[of * 2] - largest).exp(), sums[of * d + dim], sum);
            }
        }
        out[(row * comptime!(g.heads) + head) * d + dim] = F::cast_from(sum * share);
        dim += CUBE_DIM as usize;
    }
}

/// Slots of a split: enough splits to occupy a large device, few enough that joining them is cheap. Those of a sequence
/// depend on nothing but its own slots.
fn split(slots: usize) -> usize {
    slots.div_ceil(32).next_multiple_of(16).max(64)
}

/// Numbers of a load: 16 bytes of a head, or fewer where heads are no multiple of it.
fn wide(q: &CubeTensor, head_dim: usize) -> usize {
    let fits = |wide: &usize| head_dim.is_multiple_of(*wide) && wide * q.dtype.size() <= 16;
    q.client.io_optimized_vector_sizes(q.dtype.size()).filter(fits).max().unwrap_or(1)
}

/// See [`super::attend_cached`].
pub(super) fn attend(
    spec: &AttentionSpec,
    q: &CubeTensor,
    caches: &[&Burn<4>],
    layer: usize,
    tables: &[&PassTable],
) -> CubeTensor {
    let rows = tables.iter().map(|table| table.padded_rows()).sum::<usize>();
    let most = tables.iter().map(|table| table.padded_rows()).max().unwrap_or(1);
    let g = Geometry::new(spec, most, wide(q, spec.head_dim));
    let out = device::empty(q, [rows, g.heads, g.head_dim], q.dtype);
    let mut left = tables;
    for mut launch in Sequences::launches(caches, tables) {
        let own;
        (own, left) = left.split_at(launch.parts.len());
        let mut first_tile = 0;
        for (part, table) in launch.parts.iter_mut().zip(own) {
            part.section = table.section(spec.window);
            part.split = split(table.slots());
            part.splits = table.slots().div_ceil(part.split).max(1);
            part.first_tile = first_tile;
            first_tile += (part.rows * g.group).div_ceil(g.tile);
        }
        attend_launch(spec, q, &launch, layer, (tables[0], first_tile), &out, g);
    }
    out
}

/// One launch over the splits of some sequences, and one that joins them.
fn attend_launch(
    spec: &AttentionSpec,
    q: &CubeTensor,
    launch: &Sequences,
    layer: usize,
    (tables, tiles): (&PassTable, usize),
    out: &CubeTensor,
    g: Geometry,
) {
    let total = out.meta.shape()[0] * g.group;
    let splits = launch.parts.iter().map(|part| part.splits).max().unwrap_or(1);
    let [sums, weights] = [g.head_dim, 2].map(|d| device::empty(q, [splits, total, g.kv_heads, d], DType::F32));
    let address = device::address([q, &sums, out].into_iter().chain(&launch.caches));
    // SAFETY: every index is within the shapes above, which are the launch's own; slots read end at the rows in flight
    // of a sequence's table, which its cache had room for when the table was made. A join reads the splits that were
    // written.
    unsafe {
        attend_split::launch_unchecked(
            &q.client,
            CubeCount::Static(splits as u32, g.kv_heads as u32, tiles as u32),
            CubeDim::new_1d(UNITS as u32),
            address,
            g.wide,
            device::arg(q),
            launch.cache_args().collect(),
            launch.shares(),
            device::arg(&device::ints(tables.table())),
            device::arg(&sums),
            device::arg(&weights),
            layer,
            total,
            spec.scale,
            spec.soft_cap.unwrap_or(1.0),
            launch.places(),
            g,
            device::elem(q),
        );
        join_splits::launch_unchecked(
            &q.client,
            CubeCount::Static((launch.rows() * g.group) as u32, g.kv_heads as u32, 1),
            CubeDim::new_1d(32),
            address,
            device::arg(&sums),
            device::arg(&weights),
            launch.shares(),
            device::arg(out),
            total,
            launch.places(),
            g,
            device::elem(q),
        );
    }
}
