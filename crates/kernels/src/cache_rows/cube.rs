//! Rows of a cache on a GPU.

use super::Placing;
use crate::device;
use crate::tree_attention::PassTable;
use crate::tree_attention::sequences::{Sequences, Share};
use burn::tensor::{Int, Tensor as Burn};
use cubecl::prelude::*;

/// Units that share a head.
const UNITS: usize = 32;

/// Sizes known when the kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Geometry {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    half: usize,
    normed: bool,
}

/// One head of one row of a sequence: a query, a key or a value.
#[cube(launch_unchecked, address_type = "dynamic")]
fn place_head<F: Float>(
    qkv: &Tensor<F>,
    angles: &Tensor<f32>,
    q_norm: &Tensor<f32>,
    k_norm: &Tensor<f32>,
    pass_table: &Tensor<i32>,
    queries: &mut Tensor<F>,
    caches: &mut Sequence<OwnedTensor<F>>,
    shares: &Sequence<Share>,
    layer: usize,
    eps: f32,
    #[comptime] places: usize,
    #[comptime] g: Geometry,
    #[define(F)] _dtype: ElemType,
) {
    let (d, half) = comptime!((g.head_dim, g.half));
    let (head, unit) = (CUBE_POS_X as usize, UNIT_POS as usize);
    let row = shares.index(0usize).first_row + CUBE_POS_Y as usize;
    let (table, own_row, rows, capacity, sequence) = find_row(shares, row, places);
    let from = (row * comptime!(g.heads + 2 * g.kv_heads) + head) * d;
    let is_query = head < comptime!(g.heads);
    let is_value = head >= comptime!(g.heads + g.kv_heads);

    let scale = inverse_rms::<F>(qkv, from, eps, g);
    let slot = usize::cast_from(pass_table[table]) + usize::cast_from(pass_table[table + 1]) + own_row;
    let mut position = usize::cast_from(pass_table[table + 4 + rows + own_row]);
    if position >= angles.shape(0) {
        position = angles.shape(0) - 1;
    }
    let angle = position * 2 * half;
    let plane = if is_query { 0usize } else { 2 * layer * comptime!(g.kv_heads) + head - comptime!(g.heads) };
    // Values follow the keys' heads in the projection, and lie a plane of the cache further.
    let to = (plane * capacity + slot) * d;
    // A step that is run to be recorded may run past the end; what it writes is not kept.
    let uncommitted = own_row < usize::cast_from(pass_table[table + 2]) && slot < capacity;
    let mut dim = unit;
    while dim < d {
        let mut x = f32::cast_from(qkv[from + dim]);
        if !is_value {
            x = normed::<F>(qkv, q_norm, k_norm, from, dim, scale, is_query, g);
            if dim < 2 * half {
                let mut other = dim + half;
                if dim >= half {
                    other = dim - half;
                }
                let y = normed::<F>(qkv, q_norm, k_norm, from, other, scale, is_query, g);
                x = rotated(x, y, angles, angle, dim, half);
            }
        }
        if is_query {
            queries[(row * comptime!(g.heads) + head) * d + dim] = F::cast_from(x);
        } else if uncommitted {
            write_to::<F>(caches, sequence, to + dim, F::cast_from(x), places);
        }
        dim += UNITS;
    }
}

/// The sequence of a row: where its table begins, the row's number in it, its rows, the slots of its cache, its number.
#[cube]
fn find_row(shares: &Sequence<Share>, row: usize, #[comptime] places: usize) -> (usize, usize, usize, usize, usize) {
    let mut table = 0usize;
    let mut own_row = 0usize;
    let mut rows = 0usize;
    let mut capacity = 0usize;
    let mut sequence = 0usize;
    #[unroll]
    for i in 0..places {
        let share = shares.index(i);
        if row >= share.first_row {
            table = share.table;
            own_row = row - share.first_row;
            rows = share.rows;
            capacity = share.capacity;
            sequence = i;
        }
    }
    (table, own_row, rows, capacity, sequence)
}

/// Writes a number of the cache of one sequence.
#[cube]
fn write_to<F: Float>(
    caches: &mut Sequence<OwnedTensor<F>>,
    sequence: usize,
    at: usize,
    value: F,
    #[comptime] places: usize,
) {
    #[unroll]
    for i in 0..places {
        if sequence == i {
            caches.index_mut(i).as_mut_slice()[at] = value;
        }
    }
}

/// `1 / sqrt(mean(x²) + eps)` of the head at `from`; 1 without norms.
#[cube]
fn inverse_rms<F: Float>(qkv: &Tensor<F>, from: usize, eps: f32, #[comptime] g: Geometry) -> f32 {
    let mut scale = f32::new(1.0);
    if comptime!(g.normed) {
        let mut squares = Shared::<[f32]>::new_slice(UNITS);
        let mut sum = f32::new(0.0);
        let mut dim = UNIT_POS as usize;
        while dim < comptime!(g.head_dim) {
            let x = f32::cast_from(qkv[from + dim]);
            sum += x * x;
            dim += UNITS;
        }
        squares[UNIT_POS as usize] = sum;
        sync_cube();
        let mut all = f32::new(0.0);
        for i in 0..UNITS {
            all += squares[i];
        }
        scale = f32::new(1.0) / (all / f32::cast_from(comptime!(g.head_dim as u32)) + eps).sqrt();
    }
    scale
}

/// A dimension of a query or key, normed where the model norms them.
#[cube]
fn normed<F: Float>(
    qkv: &Tensor<F>,
    q_norm: &Tensor<f32>,
    k_norm: &Tensor<f32>,
    from: usize,
    dim: usize,
    scale: f32,
    is_query: bool,
    #[comptime] g: Geometry,
) -> f32 {
    let mut x = f32::cast_from(qkv[from + dim]);
    if comptime!(g.normed) {
        let mut weight = k_norm[dim];
        if is_query {
            weight = q_norm[dim];
        }
        x = x * scale * weight;
    }
    x
}

/// Dimension `dim` of a rotated head: `x` is that dimension and `y` the other one of its plane.
#[cube]
fn rotated(x: f32, y: f32, angles: &Tensor<f32>, angle: usize, dim: usize, half: usize) -> f32 {
    let place = dim % half;
    let (cos, sin) = (angles[angle + place], angles[angle + half + place]);
    let mut turned = x * cos + y * sin;
    if dim < half {
        turned = x * cos - y * sin;
    }
    turned
}

/// One key/value head of one layer, keys or values: each unit moves some dimensions of the whole path, in its order. A
/// row never goes to a later slot than its own, so none is read after it was written over.
#[cube(launch_unchecked, address_type = "dynamic")]
fn gather_path<F: Float>(
    cache: &mut Tensor<F>,
    path: &Tensor<i32>,
    #[comptime] kv_heads: usize,
    #[define(F)] _dtype: ElemType,
) {
    let (capacity, d) = (cache.shape(2), cache.shape(3));
    let plane = (CUBE_POS_X as usize * kv_heads + CUBE_POS_Y as usize) * capacity;
    let prefix = usize::cast_from(path[0]);
    let length = usize::cast_from(path[1]);
    let mut dim = UNIT_POS as usize;
    while dim < d {
        for i in 0..length {
            let row = usize::cast_from(path[2 + i]);
            if row != i && prefix + row < capacity {
                let value = cache[(plane + prefix + row) * d + dim];
                let to = (plane + prefix + i) * d + dim;
                cache[to] = value;
            }
        }
        dim += CUBE_DIM as usize;
    }
}

/// See [`super::place`].
pub(super) fn place(
    placing: &Placing<'_>,
    qkv: &Burn<3>,
    caches: &[&Burn<4>],
    layer: usize,
    tables: &[&PassTable],
) -> Burn<3> {
    let spec = placing.spec;
    let (heads, kv_heads, head_dim) = (spec.heads, spec.kv_heads, spec.head_dim);
    let half = placing.angles.dims()[2];
    let g = Geometry { heads, kv_heads, head_dim, half, normed: placing.norms.is_some() };
    let qkv = device::floats(qkv);
    let (angles, table) = (device::floats(placing.angles), device::ints(tables[0].table()));
    // Without norms their places are taken by anything that is there.
    let (q_norm, k_norm, eps) = match placing.norms {
        Some((q, k, eps)) => (device::floats(q), device::floats(k), eps),
        None => (angles.clone(), angles.clone(), 0.0),
    };
    let rows = tables.iter().map(|table| table.padded_rows()).sum();
    let queries = device::empty(&qkv, [1, rows, heads * head_dim], qkv.dtype);
    for launch in Sequences::launches(caches, tables) {
        // SAFETY: positions are within the table of angles and slots within the caches, which had room for the rows in
        // flight when the tables were made.
        unsafe {
            place_head::launch_unchecked(
                &qkv.client,
                CubeCount::Static((heads + 2 * kv_heads) as u32, launch.rows() as u32, 1),
                CubeDim::new_1d(UNITS as u32),
                device::address(std::iter::once(&qkv).chain(&launch.caches)),
                device::arg(&qkv),
                device::arg(&angles),
                device::arg(&q_norm),
                device::arg(&k_norm),
                device::arg(&table),
                device::arg(&queries),
                launch.cache_args().collect(),
                launch.shares(),
                layer,
                eps,
                launch.places(),
                g,
                device::elem(&qkv),
            );
        }
    }
    device::float_tensor(queries)
}

/// See [`super::gather`].
pub(super) fn gather(cache: &Burn<4>, path: &Burn<1, Int>) {
    let [planes, kv_heads, _, head_dim] = cache.dims();
    let (cache, path) = (device::in_place(cache), device::ints(path));
    // SAFETY: the rows of a path are uncommitted rows, which lie within the cache.
    unsafe {
        gather_path::launch_unchecked(
            &cache.client,
            CubeCount::Static(planes as u32, kv_heads as u32, 1),
            CubeDim::new_1d(head_dim.next_power_of_two().clamp(32, 128) as u32),
            device::address([&cache]),
            device::arg(&cache),
            device::arg(&path),
            kv_heads,
            device::elem(&cache),
        );
    }
}
