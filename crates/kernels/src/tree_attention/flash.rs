//! Tree attention on tensor cores, for caches of 16-bit numbers: `S = Q · Kᵀ` and `O = P · V` by `mma.sync` (m16n8k16),
//! with a running softmax between them (FlashAttention-2). A warp has 16 query rows and a part of the slots.
//!
//! Every load takes 16 bytes and puts its numbers where the tensor cores want them. The order of the inner dimension of
//! `Q · Kᵀ` is free as long as both sides have the same, so a lane reads eight neighbouring dimensions of a query and of
//! a key. The order of columns of `P · V` is free too: column `n` of the tile `j` of 64 dimensions is dimension
//! `8 n + j`, so a lane reads eight neighbouring dimensions of a value.

mod sums;

use super::tile::{Geometry, HIDDEN, SEEN, Seen, Slots, used_slots};
use crate::skinny_matmul::is_multiplied;
use burn_cubecl::tensor::CubeTensor;
use cubecl::cmma::MmaDefinition;
use cubecl::prelude::*;

pub(super) use sums::{LANES, PLANES, QUERIES, Sums, new_sums, write_cube, write_warp};

/// Slots of an iteration; splits are multiples of it.
pub(super) const KEYS: usize = 16;
/// Numbers of a load.
pub(super) const WIDE: usize = 8;

/// True for 16-bit queries on tensor cores with heads of 64 or 128 numbers. Sums of wider heads do not fit into
/// registers.
pub(super) fn is_supported(q: &CubeTensor, head_dim: usize) -> bool {
    matches!(head_dim, 64 | 128) && is_multiplied(q)
}

/// Slots of a warp and of a split: enough splits to occupy a large device, few enough that joining them is cheap. Those
/// of a sequence depend on nothing but its own slots.
pub(super) fn split(slots: usize) -> (usize, usize) {
    let of_warp = slots.div_ceil(32 * PLANES).next_multiple_of(KEYS).max(2 * KEYS);
    (of_warp, of_warp * PLANES)
}

/// A warp's part, from the split's first slot to its last.
///
/// # Shapes
/// `q [R, heads, d / 8]` and `cache [2 · layers, kv_heads, capacity, d / 8]`, in loads of eight numbers.
#[cube]
pub(super) fn attend_warp<F: Float>(
    q: &Tensor<Vector<F, Const<8>>>,
    cache: &[Vector<F, Const<8>>],
    pass_table: &Tensor<i32>,
    sums: &mut Sums,
    seen: &Seen,
    slots: &Slots,
    first_query: usize,
    split: usize,
    kv_head: usize,
    layer: usize,
    scale: f32,
    cap: f32,
    #[comptime] g: Geometry,
) {
    let wide = comptime!(g.head_dim / 64);
    let rows = read_rows::<F>(q, pass_table, seen, first_query, kv_head, g);
    let span = span_of(pass_table, seen, slots, first_query, split, g);
    let plane = slots.capacity * comptime!(g.head_dim / WIDE);
    let keys_at = (layer * 2 * comptime!(g.kv_heads) + kv_head) * plane;
    let values_at = ((layer * 2 + 1) * comptime!(g.kv_heads) + kv_head) * plane;
    let mut keys = Array::<Vector<F, Const<8>>>::new(comptime!(g.head_dim / 16));
    let mut values = Array::<Vector<F, Const<8>>>::new(comptime!(4 * wide));
    let mut start = span.start;
    while start < span.end {
        // All loads are under way before the first product.
        load_slots::<F>(cache, &mut keys, &mut values, keys_at, values_at, start, span.end, g);
        let mut scores = score_keys::<F>(&rows.queries, &keys, comptime!(g.head_dim / 32));
        let factor = scale_scores(&mut scores, scale, cap, g);
        if start + KEYS > min(span.end, span.seen_by_all) || start < max(rows.firsts[0], rows.firsts[1]) {
            hide(&mut scores, pass_table, seen, slots, &rows, &span, start);
        }
        let shrink = weigh(&mut scores, &mut sums.largest, &mut sums.weight, factor);
        add::<F>(&scores, &values, &shrink, &mut sums.values, wide);
        start += KEYS;
    }
    #[unroll]
    for half in 0..2usize {
        let mut all = sums.weight[half];
        all += plane_shuffle_xor(all, 1u32);
        all += plane_shuffle_xor(all, 2u32);
        sums.weight[half] = all;
    }
}

/// A lane's two rows, `r` and `r + 8` of the tile.
#[derive(CubeType)]
struct Rows<F: Float> {
    /// Eight dimensions of each 32, first those of row `r`.
    queries: Array<Vector<F, Const<8>>>,
    /// Their rows in the pass.
    rows: Array<usize>,
    /// The first slots in their windows.
    firsts: Array<usize>,
}

/// Reads a lane's rows. Those beyond the last one read that one, and are not written.
#[cube]
fn read_rows<F: Float>(
    q: &Tensor<Vector<F, Const<8>>>,
    pass_table: &Tensor<i32>,
    seen: &Seen,
    first_query: usize,
    kv_head: usize,
    #[comptime] g: Geometry,
) -> Rows<F> {
    let (r, t) = (UNIT_POS_X as usize / 4, UNIT_POS_X as usize % 4);
    let blocks = comptime!(g.head_dim / 32);
    let mut queries = Array::<Vector<F, Const<8>>>::new(comptime!(2 * blocks));
    let mut rows = Array::<usize>::new(2usize);
    let mut firsts = Array::<usize>::new(2usize);
    #[unroll]
    for half in 0..2usize {
        let query = min(first_query + r + 8 * half, seen.rows * comptime!(g.group) - 1);
        let row = query / comptime!(g.group);
        let head = kv_head * comptime!(g.group) + query % comptime!(g.group);
        rows[half] = row;
        firsts[half] = usize::cast_from(pass_table[seen.table + seen.section + 1 + row]);
        let at = ((seen.first_row + row) * comptime!(g.heads) + head) * comptime!(g.head_dim / WIDE) + t;
        #[unroll]
        for block in 0..blocks {
            queries[comptime!(half * blocks + block)] = q[at + comptime!(4 * block)];
        }
    }
    Rows::<F> { queries, rows, firsts }
}

/// The slots of a warp.
#[derive(CubeType)]
struct Span {
    start: usize,
    end: usize,
    /// Committed slots.
    prefix: usize,
    /// All rows of the tile see the slots in front of this one, but for those in front of their windows.
    seen_by_all: usize,
}

#[cube]
fn span_of(
    pass_table: &Tensor<i32>,
    seen: &Seen,
    slots: &Slots,
    first_query: usize,
    split: usize,
    #[comptime] g: Geometry,
) -> Span {
    let prefix = usize::cast_from(pass_table[seen.table]);
    let mut end = min(min((split + 1) * slots.split, used_slots(pass_table, seen.table)), slots.capacity);
    let mut seen_by_all = prefix;
    if slots.chain == 1 {
        // No row of the tile sees more than its last one, nor less than its first one.
        let last = min(first_query + comptime!(QUERIES - 1), seen.rows * comptime!(g.group) - 1);
        end = min(end, prefix + last / comptime!(g.group) + 1);
        seen_by_all += first_query / comptime!(g.group) + 1;
    }
    // Parts begin at multiples of 16, so that a row's sums do not depend on what other rows see.
    let least = usize::cast_from(pass_table[seen.table + seen.section]);
    let start = max(split * slots.split, least / KEYS * KEYS);
    Span { start, end, prefix, seen_by_all }
}

/// Loads a lane's shares of 16 keys and values. Slots beyond the last one read that one, and are hidden.
#[cube]
fn load_slots<F: Float>(
    cache: &[Vector<F, Const<8>>],
    keys: &mut Array<Vector<F, Const<8>>>,
    values: &mut Array<Vector<F, Const<8>>>,
    keys_at: usize,
    values_at: usize,
    start: usize,
    end: usize,
    #[comptime] g: Geometry,
) {
    let (r, t) = (UNIT_POS_X as usize / 4, UNIT_POS_X as usize % 4);
    let (chunks, blocks, wide) = comptime!((g.head_dim / WIDE, g.head_dim / 32, g.head_dim / 64));
    #[unroll]
    for c in 0..2usize {
        let at = keys_at + min(start + 8 * c + r, end - 1) * chunks + t;
        #[unroll]
        for block in 0..blocks {
            keys[comptime!(c * blocks + block)] = cache[at + comptime!(4 * block)];
        }
    }
    #[unroll]
    for k in 0..4usize {
        let at = values_at + min(start + 2 * t + comptime!(k % 2 + k / 2 * 8), end - 1) * chunks + r;
        #[unroll]
        for w in 0..wide {
            values[comptime!(k * wide + w)] = cache[at + comptime!(8 * w)];
        }
    }
}

/// Hides scores with slots that their rows do not see.
#[cube]
fn hide<F: Float>(
    scores: &mut Array<f32>,
    pass_table: &Tensor<i32>,
    seen: &Seen,
    slots: &Slots,
    rows: &Rows<F>,
    span: &Span,
    start: usize,
) {
    let t = UNIT_POS_X % 4;
    let mut bits = Array::<u32>::new(2usize);
    #[unroll]
    for half in 0..2usize {
        bits[half] = seen_slots(pass_table, seen, slots, rows.rows[half], rows.firsts[half], span, start);
    }
    #[unroll]
    for i in 0..8usize {
        let slot = comptime!((i / 4 * 8 + i % 2) as u32) + 2 * t;
        if (bits[comptime!(i / 2 % 2)] >> slot) & 1u32 == 0u32 {
            scores[i] = f32::new(HIDDEN);
        }
    }
}

/// Which of the 16 slots from `start` on a row sees, as bits.
#[cube]
fn seen_slots(
    pass_table: &Tensor<i32>,
    seen: &Seen,
    slots: &Slots,
    row: usize,
    first: usize,
    span: &Span,
    start: usize,
) -> u32 {
    let prefix = span.prefix;
    let mut bits = 0xFFFFu32;
    let mut last = span.end;
    if slots.chain == 1 {
        last = min(last, prefix + row + 1);
    } else if start + KEYS > prefix {
        let words = seen.table + seen.section + 1 + seen.rows + row * seen.words;
        if start < prefix {
            let offset = (prefix - start) as u32;
            bits = ((1u32 << offset) - 1u32) | (u32::cast_from(pass_table[words]) << offset);
        } else {
            let (word, offset) = ((start - prefix) / 32, ((start - prefix) % 32) as u32);
            bits = u32::cast_from(pass_table[words + word]) >> offset;
            if offset > 16u32 && word + 1 < seen.words {
                bits |= u32::cast_from(pass_table[words + word + 1]) << (32u32 - offset);
            }
        }
    }
    // Hide slots in front of the window and slots after the last one.
    if first > start {
        let hidden = (1u32 << min(first - start, KEYS) as u32) - 1u32;
        bits &= !hidden;
    }
    if last < start + KEYS {
        let left = max(last, start) - start;
        bits &= (1u32 << left as u32) - 1u32;
    }
    bits
}

/// Scores of 16 rows with 16 slots: element `4 c + 2 half + k` of a lane is row `r + 8 half` with slot `8 c + 2 t + k`.
#[cube]
fn score_keys<F: Float>(
    queries: &Array<Vector<F, Const<8>>>,
    keys: &Array<Vector<F, Const<8>>>,
    #[comptime] blocks: usize,
) -> Array<f32> {
    let mut scores = Array::<f32>::new(8usize);
    #[unroll]
    for c in 0..2usize {
        let mut sums = Array::<Vector<f32, Const<2>>>::new(2usize);
        sums[0usize] = Vector::new(f32::new(0.0));
        sums[1usize] = Vector::new(f32::new(0.0));
        #[unroll]
        for i in 0..comptime!(2 * blocks) {
            let (block, from) = comptime!((i / 2, i % 2 * 4));
            let mut a = Array::<Vector<F, Const<2>>>::new(4usize);
            let mut b = Array::<Vector<F, Const<2>>>::new(2usize);
            #[unroll]
            for pair in 0..2usize {
                let at = comptime!(from + 2 * pair);
                a[comptime!(2 * pair)] = pair_of::<F>(queries[block], at);
                a[comptime!(2 * pair + 1)] = pair_of::<F>(queries[comptime!(blocks + block)], at);
                b[pair] = pair_of::<F>(keys[comptime!(c * blocks + block)], at);
            }
            sums = MmaDefinition::<F, F, f32>::new(16usize, 8usize, 16usize).execute(&a, &b, &sums);
        }
        #[unroll]
        for i in 0..4usize {
            scores[comptime!(4 * c + i)] = sums[comptime!(i / 2)].extract(comptime!(i % 2));
        }
    }
    scores
}

/// Two neighbouring numbers of eight.
#[cube]
fn pair_of<F: Float>(eight: Vector<F, Const<8>>, #[comptime] at: usize) -> Vector<F, Const<2>> {
    let mut pair = Vector::<F, Const<2>>::empty();
    pair.insert(0usize, eight.extract(at));
    pair.insert(1usize, eight.extract(comptime!(at + 1)));
    pair
}

/// Applies the soft cap, if there is one. Returns the factor that scores are still to be multiplied with.
#[cube]
fn scale_scores(scores: &mut Array<f32>, scale: f32, cap: f32, #[comptime] g: Geometry) -> f32 {
    if comptime!(g.capped) {
        #[unroll]
        for i in 0..8usize {
            scores[i] = (scores[i] * scale / cap).tanh();
        }
        cap
    } else {
        scale
    }
}

/// Scores become `exp(factor · score − largest)`, and 0 where nothing is seen; `largest` and the lane's sums of weights
/// go on. Returns by how much the sums so far shrink.
#[cube]
fn weigh(scores: &mut Array<f32>, largest: &mut Array<f32>, weight: &mut Array<f32>, factor: f32) -> Array<f32> {
    let mut shrink = Array::<f32>::new(2usize);
    #[unroll]
    for half in 0..2usize {
        let mut now = f32::new(HIDDEN);
        #[unroll]
        for i in 0..4usize {
            now = max(now, scores[comptime!(i / 2 * 4 + 2 * half + i % 2)]);
        }
        now = max(now, plane_shuffle_xor(now, 1u32));
        now = max(now, plane_shuffle_xor(now, 2u32));
        // Scores are multiplied once more below, fused by name: a compiler that chose what to fuse could choose otherwise
        // for another number of sequences.
        now = max(largest[half], now * factor);
        shrink[half] = (largest[half] - now).exp();
        largest[half] = now;
        let mut shares = f32::new(0.0);
        #[unroll]
        for i in 0..4usize {
            let at = comptime!(i / 2 * 4 + 2 * half + i % 2);
            let score = scores[at];
            let mut share = f32::new(0.0);
            if score > f32::new(SEEN) {
                share = fma(score, factor, -now).exp();
            }
            scores[at] = share;
            shares += share;
        }
        weight[half] = fma(weight[half], shrink[half], shares);
    }
    shrink
}

/// Adds 16 slots' weighted values.
#[cube]
fn add<F: Float>(
    shares: &Array<f32>,
    values: &Array<Vector<F, Const<8>>>,
    shrink: &Array<f32>,
    sum: &mut Array<Vector<f32, Const<2>>>,
    #[comptime] wide: usize,
) {
    let mut a = Array::<Vector<F, Const<2>>>::new(4usize);
    #[unroll]
    for i in 0..4usize {
        let mut pair = Vector::<F, Const<2>>::empty();
        pair.insert(0usize, F::cast_from(shares[comptime!(2 * i)]));
        pair.insert(1usize, F::cast_from(shares[comptime!(2 * i + 1)]));
        a[i] = pair;
    }
    #[unroll]
    for tile in 0..comptime!(8 * wide) {
        let (w, j) = comptime!((tile / 8, tile % 8));
        let mut b = Array::<Vector<F, Const<2>>>::new(2usize);
        #[unroll]
        for i in 0..2usize {
            let mut pair = Vector::<F, Const<2>>::empty();
            pair.insert(0usize, values[comptime!(2 * i * wide + w)].extract(j));
            pair.insert(1usize, values[comptime!((2 * i + 1) * wide + w)].extract(j));
            b[i] = pair;
        }
        let mut c = Array::<Vector<f32, Const<2>>>::new(2usize);
        c[0usize] = sum[comptime!(2 * tile)] * Vector::new(shrink[0usize]);
        c[1usize] = sum[comptime!(2 * tile + 1)] * Vector::new(shrink[1usize]);
        let d = MmaDefinition::<F, F, f32>::new(16usize, 8usize, 16usize).execute(&a, &b, &c);
        sum[comptime!(2 * tile)] = d[0usize];
        sum[comptime!(2 * tile + 1)] = d[1usize];
    }
}
