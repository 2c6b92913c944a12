//! The definition, in double precision.

use super::Blocks;

/// Attention of `q [slots, heads · d]` over context keys and values `[rows, kv_heads · d]` and the slots' own
/// `[slots, kv_heads · d]`, all before the rotary embedding.
pub fn block_attention(spec: &Blocks, q: &[f64], context: (&[f64], &[f64]), own: (&[f64], &[f64])) -> Vec<f64> {
    let s = &spec.context;
    let (d, group) = (s.head_dim, s.heads / s.kv_heads);
    let (q_width, kv_width) = (s.heads * d, s.kv_heads * d);
    let mut out = vec![0f64; q.len()];
    for (rows, anchors, first) in spec.sequences() {
        for (block, &anchor) in anchors.iter().enumerate() {
            for (slot, head) in (0..spec.slots).flat_map(|slot| (0..s.heads).map(move |head| (slot, head))) {
                let (of_block, column) = (first + block * spec.slots, head / group * d);
                let at = (of_block + slot) * q_width + head * d;
                let query = rotated(spec, &q[at..][..d], anchor + slot);
                // Scores with the values that they weigh.
                let seen = spec.seen(anchor, slot).map(|position| {
                    let (from, row) = match position < anchor {
                        true => (context, rows.start + position),
                        false => (own, of_block + position - anchor),
                    };
                    let key = rotated(spec, &from.0[row * kv_width + column..][..d], position);
                    let score = query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() * f64::from(s.scale());
                    (score, &from.1[row * kv_width + column..][..d])
                });
                let seen: Vec<(f64, &[f64])> = seen.collect();
                let max = seen.iter().map(|(s, _)| *s).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = seen.iter().map(|(s, _)| (s - max).exp()).sum();
                for (s, value) in seen {
                    (0..d).for_each(|c| out[at + c] += (s - max).exp() / sum * value[c]);
                }
            }
        }
    }
    out
}

/// A head's vector at a position.
fn rotated(spec: &Blocks, x: &[f64], position: usize) -> Vec<f64> {
    let (half, at) = (x.len() / 2, position * x.len() / 2);
    let (cos, sin) = &*spec.context.angles;
    let mut out = x.to_vec();
    for i in 0..half {
        let (c, s) = (f64::from(cos[at + i]), f64::from(sin[at + i]));
        out[i] = x[i] * c - x[i + half] * s;
        out[i + half] = x[i + half] * c + x[i] * s;
    }
    out
}
