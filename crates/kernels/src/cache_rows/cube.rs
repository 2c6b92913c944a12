//! Rows of a cache on a GPU.

use super::Placing;
use crate::device;
use crate::partial_sums::{PartialSums, summed};
use crate::tree_attention::sequences::{Sequences, Share};
use crate::tree_attention::{AttentionSpec, PassTable};
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
    biased: bool,
    /// Parts of the projection.
    parts: usize,
}

impl Geometry {
    fn new(placing: &Placing<'_>, parts: usize) -> Self {
        let AttentionSpec { heads, kv_heads, head_dim, .. } = *placing.spec;
        let (normed, biased) = (placing.norms.is_some(), placing.bias.is_some());
        Self { heads, kv_heads, head_dim, half: placing.angles.dims()[2], normed, biased, parts }
    }
}

/// One head of one row of a sequence: a query, a key or a value.
#[cube(launch_unchecked, address_type = "dynamic")]
fn place_head<F: Float, G: Float>(
    qkv: &Tensor<G>,
    bias: &Tensor<F>,
    angles: &Tensor<f32>,
    q_norm: &Tensor<f32>,
    k_norm: &Tensor<f32>,
    pass_table: &Tensor<i32>,
    queries: &mut Tensor<F>,
    caches: &mut Sequence<OwnedTensor<F>>,
    shares: &Sequence<Share>,
    layer: usize,
    size: usize,
    eps: f32,
    #[comptime] places: usize,
    #[comptime] g: Geometry,
    #[define(F)] _dtype: ElemType,
    #[define(G)] _sums_dtype: ElemType,
) {
    let (d, half) = comptime!((g.head_dim, g.half));
    let (head, unit) = (CUBE_POS_X as usize, UNIT_POS as usize);
    let row = shares.index(0usize).first_row + CUBE_POS_Y as usize;
    let (table, own_row, rows, capacity, sequence) = find_row(shares, row, places);
    let from = (row * comptime!(g.heads + 2 * g.kv_heads) + head) * d;
    let is_query = head < comptime!(g.heads);
    let is_value = head >= comptime!(g.heads + g.kv_heads);

    let scale = inverse_rms::<F, G>(qkv, bias, from, head * d, size, eps, g);
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
        let mut x = projected::<F, G>(qkv, bias, from + dim, head * d + dim, size, g);
        if !is_value {
            x = normed(x, q_norm, k_norm, dim, scale, is_query, g);
            if dim < 2 * half {
                let mut other = dim + half;
                if dim >= half {
                    other = dim - half;
                }
                let mut y = projected::<F, G>(qkv, bias, from + other, head * d + other, size, g);
                y = normed(y, q_norm, k_norm, other, scale, is_query, g);
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

/// Number `at` of a projection of `size` numbers, its bias added, rounded as a matmul and an addition round it.
#[cube]
fn projected<F: Float, G: Float>(
    qkv: &Tensor<G>,
    bias: &Tensor<F>,
    at: usize,
    column: usize,
    size: usize,
    #[comptime] g: Geometry,
) -> f32 {
    let mut x = summed::<F, G>(qkv, at, size, comptime!(g.parts));
    if comptime!(g.biased) {
        x = f32::cast_from(F::cast_from(x + f32::cast_from(bias[column])));
    }
    x
}

/// `1 / sqrt(mean(x²) + eps)` of the head at `from`, whose bias begins at `column`; 1 without norms.
#[cube]
fn inverse_rms<F: Float, G: Float>(
    qkv: &Tensor<G>,
    bias: &Tensor<F>,
    from: usize,
    column: usize,
    size: usize,
    eps: f32,
    #[comptime] g: Geometry,
) -> f32 {
    let mut scale = f32::new(1.0);
    if comptime!(g.normed) {
        let mut squares = Shared::<[f32]>::new_slice(UNITS);
        let mut sum = f32::new(0.0);
        let mut dim = UNIT_POS as usize;
        while dim < comptime!(g.head_dim) {
            let x = projected::<F, G>(qkv, bias, from + dim, column + dim, size, g);
            sum = fma(x, x, sum);
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

/// Dimension `dim` of a query or key, normed where the model norms them.
#[cube]
fn normed(
    x: f32,
    q_norm: &Tensor<f32>,
    k_norm: &Tensor<f32>,
    dim: usize,
    scale: f32,
    is_query: bool,
    #[comptime] g: Geometry,
) -> f32 {
    let mut x = x;
    if comptime!(g.normed) {
        let mut weight = k_norm[dim];
        if is_query {
            weight = q_norm[dim];
        }
        x = x * scale * weight;
    }
    x
}

/// Dimension `dim` of a rotated head: `x` is that dimension and `y` the other one of its plane. What is fused is named, so
/// that it is the same whatever else is compiled with it.
#[cube]
fn rotated(x: f32, y: f32, angles: &Tensor<f32>, angle: usize, dim: usize, half: usize) -> f32 {
    let place = dim % half;
    let (cos, sin) = (angles[angle + place], angles[angle + half + place]);
    let mut across = y * sin;
    if dim < half {
        across = f32::new(0.0) - across;
    }
    fma(x, cos, across)
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
    qkv: &PartialSums,
    caches: &[&Burn<4>],
    layer: usize,
    tables: &[&PassTable],
) -> Burn<3> {
    let sums = qkv.on_device().expect("a tensor on a GPU");
    let g = Geometry::new(placing, sums.parts);
    let (angles, table) = (device::floats(placing.angles), device::ints(tables[0].table()));
    // Without norms and a bias their places are taken by anything that is there.
    let (q_norm, k_norm, eps) = match placing.norms {
        Some((q, k, eps)) => (device::floats(q), device::floats(k), eps),
        None => (angles.clone(), angles.clone(), 0.0),
    };
    let bias = placing.bias.map_or_else(|| sums.sums.clone(), device::floats);
    let rows = tables.iter().map(|table| table.padded_rows()).sum();
    let queries = device::empty(&sums.sums, [1, rows, g.heads * g.head_dim], sums.dtype);
    for launch in Sequences::launches(caches, tables) {
        // SAFETY: positions are within the table of angles and slots within the caches, which had room for the rows in
        // flight when the tables were made.
        unsafe {
            place_head::launch_unchecked(
                &queries.client,
                CubeCount::Static((g.heads + 2 * g.kv_heads) as u32, launch.rows() as u32, 1),
                CubeDim::new_1d(UNITS as u32),
                device::address(std::iter::once(&sums.sums).chain(&launch.caches)),
                device::arg(&sums.sums),
                device::arg(&bias),
                device::arg(&angles),
                device::arg(&q_norm),
                device::arg(&k_norm),
                device::arg(&table),
                device::arg(&queries),
                launch.cache_args().collect(),
                launch.shares(),
                layer,
                qkv.dims().iter().product(),
                eps,
                launch.places(),
                g,
                device::elem(&queries),
                device::elem(&sums.sums),
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
