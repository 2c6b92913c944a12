//! The second pass of attention on a GPU: it joins splits.

use super::sequences::Share;
use super::tile::{Geometry, HIDDEN};
use cubecl::prelude::*;

/// Joins the splits of one query row and key/value head; query rows count from the launch's first row on.
///
/// # Shapes
/// As [`attend_split`] writes them; `out [R, heads, d]`.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn join_splits<F: Float>(
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
    let splits = splits_of(shares, row, places);
    let at = query * comptime!(g.kv_heads) + kv_head;
    let step = total * comptime!(g.kv_heads);
    let largest = largest_of(weights, splits, at, step);
    let head = kv_head * group + query % group;
    let mut dim = UNIT_POS as usize;
    while dim < d {
        let mut weight = f32::new(0.0);
        let mut sum = f32::new(0.0);
        let mut s = 0usize;
        while s < splits {
            #[unroll]
            for i in 0..TOGETHER {
                let of = min(s + i, splits - 1) * step + at;
                let mut factor = (weights[of * 2] - largest).exp();
                if s + i >= splits {
                    factor = f32::new(0.0);
                }
                weight = fma(factor, weights[of * 2 + 1], weight);
                sum = fma(factor, sums[of * d + dim], sum);
            }
            s += TOGETHER;
        }
        // A row of padding sees nothing; its result is zero.
        let mut share = f32::new(0.0);
        if weight > f32::new(0.0) {
            share = f32::new(1.0) / weight;
        }
        out[(row * comptime!(g.heads) + head) * d + dim] = F::cast_from(sum * share);
        dim += CUBE_DIM as usize;
    }
}

/// The splits of a row's sequence.
#[cube]
fn splits_of(shares: &Sequence<Share>, row: usize, #[comptime] places: usize) -> usize {
    let mut splits = 0usize;
    #[unroll]
    for i in 0..places {
        let share = shares.index(i);
        if row >= share.first_row {
            splits = share.splits;
        }
    }
    splits
}

/// The largest score of all splits. Several are read at a time, so that their loads are under way together; those beyond
/// the last one repeat it.
#[cube]
fn largest_of(weights: &Tensor<f32>, splits: usize, at: usize, step: usize) -> f32 {
    let mut largest = f32::new(HIDDEN);
    let mut s = 0usize;
    while s < splits {
        #[unroll]
        for i in 0..TOGETHER {
            largest = max(largest, weights[(min(s + i, splits - 1) * step + at) * 2]);
        }
        s += TOGETHER;
    }
    largest
}

/// Splits that a join reads at a time.
const TOGETHER: usize = 4;
/// Units of a join's cube, for neighbouring dimensions.
pub(super) const JOINERS: usize = 128;
