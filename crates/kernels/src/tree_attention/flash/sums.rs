//! The sums of a warp, and how they are written.

use crate::tree_attention::tile::{Geometry, HIDDEN, Seen};
use cubecl::prelude::*;

/// Query rows of a warp.
pub(in crate::tree_attention) const QUERIES: usize = 16;
/// Warps of a cube: neighbouring parts of a split, or neighbouring tiles of a long chain, which is not split.
pub(in crate::tree_attention) const PLANES: usize = 4;
/// Lanes of a warp.
pub(in crate::tree_attention) const LANES: usize = 32;

/// A warp's sums of 16 query rows, as far as it has come.
#[derive(CubeType)]
pub(in crate::tree_attention) struct Sums {
    /// Sums of weighted values: of tile `j` of eight dimensions two rows, `r` and `r + 8`, with two columns each.
    pub(super) values: Array<Vector<f32, Const<2>>>,
    /// The largest scores of both rows.
    pub(super) largest: Array<f32>,
    /// The lane's sums of weights.
    pub(super) weight: Array<f32>,
}

#[cube]
pub(in crate::tree_attention) fn new_sums(#[comptime] g: Geometry) -> Sums {
    let size = comptime!(g.head_dim / 4);
    let mut values = Array::<Vector<f32, Const<2>>>::new(size);
    #[unroll]
    for i in 0..size {
        values[i] = Vector::new(f32::new(0.0));
    }
    let mut largest = Array::<f32>::new(2usize);
    let mut weight = Array::<f32>::new(2usize);
    #[unroll]
    for half in 0..2usize {
        largest[half] = f32::new(HIDDEN);
        weight[half] = f32::new(0.0);
    }
    Sums { values, largest, weight }
}

/// Writes a warp's sums, not yet divided, with the largest score and the sum of weights.
///
/// # Shapes
/// `sums [splits, R · group, kv_heads, d / 4]` in vectors of four, `weights [splits, R · group, kv_heads, 2]`.
#[cube]
pub(in crate::tree_attention) fn write_warp(
    own: &Sums,
    sums: &mut Tensor<Vector<f32, Const<4>>>,
    weights: &mut Tensor<f32>,
    seen: &Seen,
    first_query: usize,
    kv_head: usize,
    split: usize,
    total: usize,
    #[comptime] g: Geometry,
) {
    let (r, t) = (UNIT_POS_X as usize / 4, UNIT_POS_X as usize % 4);
    #[unroll]
    for half in 0..2usize {
        let query = first_query + r + 8 * half;
        if query < seen.rows * comptime!(g.group) {
            let at = (split * total + seen.first_row * comptime!(g.group) + query) * comptime!(g.kv_heads) + kv_head;
            #[unroll]
            for i in 0..comptime!(g.head_dim / 16) {
                sums[at * comptime!(g.head_dim / 4) + place_of_four(t, i)] = four_values(own, half, i);
            }
            if t == 0 {
                weights[at * 2] = own.largest[half];
                weights[at * 2 + 1] = own.weight[half];
            }
        }
    }
}

/// The `i`-th four neighbouring values of a lane's row: columns `2 t` and `2 t + 1` of eight tiles are 16 dimensions.
#[cube]
fn four_values(own: &Sums, #[comptime] half: usize, #[comptime] i: usize) -> Vector<f32, Const<4>> {
    let mut four = Vector::<f32, Const<4>>::empty();
    #[unroll]
    for k in 0..4usize {
        four.insert(k, own.values[comptime!((i / 4 * 8 + i % 2 * 4 + k) * 2 + half)].extract(comptime!(i / 2 % 2)));
    }
    four
}

/// Where these values lie in a row, in fours.
#[cube]
fn place_of_four(t: usize, #[comptime] i: usize) -> usize {
    4 * t + comptime!(i / 4 * 16 + i / 2 % 2 * 2 + i % 2)
}

/// Adds up the sums of a cube's warps, which have neighbouring splits of the same rows, and writes them as
/// [`write_warp`] does.
#[cube]
pub(in crate::tree_attention) fn write_cube(
    own: &Sums,
    sums: &mut Tensor<Vector<f32, Const<4>>>,
    weights: &mut Tensor<f32>,
    seen: &Seen,
    first_query: usize,
    kv_head: usize,
    split: usize,
    total: usize,
    #[comptime] g: Geometry,
) {
    // A row is one load longer, so that rows begin in different banks.
    let width = comptime!(g.head_dim / 4 + 1);
    let mut values = Shared::<[Vector<f32, Const<4>>]>::new_aligned_slice(comptime!(PLANES * QUERIES * width), 16usize);
    let mut largest = Shared::<[f32]>::new_slice(comptime!(PLANES * QUERIES));
    let mut weight = Shared::<[f32]>::new_slice(comptime!(PLANES * QUERIES));
    let (r, t) = (UNIT_POS_X as usize / 4, UNIT_POS_X as usize % 4);
    #[unroll]
    for half in 0..2usize {
        let row = UNIT_POS_Y as usize * QUERIES + r + 8 * half;
        #[unroll]
        for i in 0..comptime!(g.head_dim / 16) {
            values[row * width + place_of_four(t, i)] = four_values(own, half, i);
        }
        if t == 0 {
            largest[row] = own.largest[half];
            weight[row] = own.weight[half];
        }
    }
    sync_cube();
    let query = first_query + UNIT_POS as usize / JOINERS;
    if query < seen.rows * comptime!(g.group) {
        let at = (split * total + seen.first_row * comptime!(g.group) + query) * comptime!(g.kv_heads) + kv_head;
        join_warps(&values, &largest, &weight, sums, weights, at, g);
    }
}

/// Units that write one row.
const JOINERS: usize = LANES * PLANES / QUERIES;

/// Adds up what the warps have of a row, which becomes row `at` of the sums.
#[cube]
fn join_warps(
    values: &Shared<[Vector<f32, Const<4>>]>,
    largest: &Shared<[f32]>,
    weight: &Shared<[f32]>,
    sums: &mut Tensor<Vector<f32, Const<4>>>,
    weights: &mut Tensor<f32>,
    at: usize,
    #[comptime] g: Geometry,
) {
    let (fours, width) = comptime!((g.head_dim / 4, g.head_dim / 4 + 1));
    let (row, unit) = (UNIT_POS as usize / JOINERS, UNIT_POS as usize % JOINERS);
    let mut most = largest[row];
    #[unroll]
    for plane in 1..PLANES {
        most = max(most, largest[plane * QUERIES + row]);
    }
    let mut factors = Array::<f32>::new(PLANES);
    let mut all = f32::new(0.0);
    #[unroll]
    for plane in 0..PLANES {
        factors[plane] = (largest[plane * QUERIES + row] - most).exp();
        all = fma(factors[plane], weight[plane * QUERIES + row], all);
    }
    #[unroll]
    for i in 0..comptime!(fours / JOINERS) {
        let place = unit + i * JOINERS;
        let mut sum = Vector::<f32, Const<4>>::new(f32::new(0.0));
        #[unroll]
        for plane in 0..PLANES {
            sum = fma(Vector::new(factors[plane]), values[(plane * QUERIES + row) * width + place], sum);
        }
        sums[at * fours + place] = sum;
    }
    if unit == 0 {
        weights[at * 2] = most;
        weights[at * 2 + 1] = all;
    }
}
