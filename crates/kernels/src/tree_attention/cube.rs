//! Tree attention on a GPU: each sequence's slots are split between cubes, or warps where there are tensor cores, each
//! with a running softmax; a second pass combines them.

use super::flash::{self, Sums, attend_warp, new_sums, write_cube, write_warp};
use super::sequences::Share;
use super::tile::{
    Geometry, Seen, Slots, add_values, load, new_tile, raise_largest, read_queries, score_tile, used_slots,
    weigh_scores, write_sums,
};
use cubecl::prelude::*;

/// A cube's share: one key/value head, one split of a sequence's slots, one tile of its query rows. Writes the sum of
/// weighted values, not yet divided, with the largest score and the sum of weights.
///
/// # Shapes
/// `q [R, heads, d]`, `caches [2 · layers, kv_heads, capacity, d]`, `sums [splits, R · group, kv_heads, d]`,
/// `weights [splits, R · group, kv_heads, 2]`; `total` is `R · group`.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn attend_split<F: Float, N: Size>(
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

/// A cube's share, on tensor cores: one key/value head, and either one split of a sequence's slots and 16 of its query
/// rows, or all slots and 16 query rows of each warp.
///
/// # Shapes
/// Shapes as in [`attend_split`]; `q` and `caches` are loaded eight numbers at a time, `sums` are vectors of four.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn attend_tiles<F: Float>(
    q: &Tensor<Vector<F, Const<8>>>,
    caches: &Sequence<OwnedTensor<Vector<F, Const<8>>>>,
    shares: &Sequence<Share>,
    pass_table: &Tensor<i32>,
    sums: &mut Tensor<Vector<f32, Const<4>>>,
    weights: &mut Tensor<f32>,
    layer: usize,
    tiles: usize,
    splits: usize,
    total: usize,
    scale: f32,
    cap: f32,
    #[comptime] places: usize,
    #[comptime] whole: bool,
    #[comptime] g: Geometry,
    #[define(F)] _dtype: ElemType,
) {
    let kv_head = CUBE_POS_Y as usize;
    let mut at = CUBE_POS_X as usize;
    if comptime!(whole) {
        at = at * flash::PLANES + UNIT_POS_Y as usize;
    }
    if at >= tiles * splits {
        terminate!();
    }
    // The last rows of a long chain see most, so their tiles come first.
    let (at_tile, split) = (tiles - 1 - at / splits, at % splits);
    let (seen, slots, sequence) = find_tile(shares, at_tile, places);
    if split >= slots.splits {
        terminate!();
    }
    let mut part = split;
    if comptime!(!whole) {
        part = split * flash::PLANES + UNIT_POS_Y as usize;
    }
    let first_query = (at_tile - slots.first_tile) * comptime!(g.tile);
    let mut own = new_sums(g);
    attend_part::<F>(
        q,
        caches,
        pass_table,
        &mut own,
        &seen,
        &slots,
        sequence,
        first_query,
        part,
        layer,
        scale,
        cap,
        places,
        g,
    );
    if comptime!(whole) {
        write_warp(&own, sums, weights, &seen, first_query, kv_head, split, total, g);
    } else {
        write_cube(&own, sums, weights, &seen, first_query, kv_head, split, total, g);
    }
}

/// A warp's part of the slots of one sequence.
#[cube]
fn attend_part<F: Float>(
    q: &Tensor<Vector<F, Const<8>>>,
    caches: &Sequence<OwnedTensor<Vector<F, Const<8>>>>,
    pass_table: &Tensor<i32>,
    own: &mut Sums,
    seen: &Seen,
    slots: &Slots,
    sequence: usize,
    first_query: usize,
    part: usize,
    layer: usize,
    scale: f32,
    cap: f32,
    #[comptime] places: usize,
    #[comptime] g: Geometry,
) {
    let kv_head = CUBE_POS_Y as usize;
    #[unroll]
    for i in 0..places {
        if sequence == i {
            let cache = caches.index(i).as_slice();
            attend_warp::<F>(q, cache, pass_table, own, seen, slots, first_query, part, kv_head, layer, scale, cap, g);
        }
    }
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
    let mut chain = 0usize;
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
            chain = share.chain;
            sequence = i;
        }
    }
    let slots = Slots { capacity, split, splits, first_tile, chain };
    (Seen { table, section, first_row, rows, words }, slots, sequence)
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
