//! The definition, in double precision.

use crate::segment_attention::Segments;

/// Attention of step `later.len()`: `q [rows, heads · d]`, keys and values of step 0 and of each later step
/// `[rows, kv_heads · d]`, all before the rotary embedding.
pub fn unrolled_attention(
    spec: &Segments,
    q: &[f64],
    first: (&[f64], &[f64]),
    later: &[(Vec<f64>, Vec<f64>)],
) -> Vec<f64> {
    let (d, group) = (spec.head_dim, spec.heads / spec.kv_heads);
    let (q_width, kv_width) = (spec.heads * d, spec.kv_heads * d);
    let mut out = vec![0f64; q.len()];
    for rows in spec.rows.iter() {
        for head in 0..spec.heads {
            let column = head / group * d;
            for row in rows.clone() {
                let t = row - rows.start;
                let query = rotated(spec, &q[row * q_width + head * d..][..d], t + later.len());
                let score = |keys: &[f64], row: usize, position: usize| {
                    let key = rotated(spec, &keys[row * kv_width + column..][..d], position);
                    query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() * f64::from(spec.scale())
                };
                // Scores with the values that they weigh.
                let mut seen: Vec<(f64, &[f64])> = vec![];
                for s in 0..=t {
                    let value = &first.1[(rows.start + s) * kv_width + column..][..d];
                    seen.push((score(first.0, rows.start + s, s), value));
                }
                for (j, (keys, values)) in later.iter().enumerate() {
                    seen.push((score(keys, row, t + j + 1), &values[row * kv_width + column..][..d]));
                }
                let max = seen.iter().map(|(s, _)| *s).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = seen.iter().map(|(s, _)| (s - max).exp()).sum();
                for (s, value) in seen {
                    for c in 0..d {
                        out[row * q_width + head * d + c] += (s - max).exp() / sum * value[c];
                    }
                }
            }
        }
    }
    out
}

/// A head's vector at a position.
fn rotated(spec: &Segments, x: &[f64], position: usize) -> Vec<f64> {
    let (half, at) = (x.len() / 2, position * x.len() / 2);
    let mut out = x.to_vec();
    for i in 0..half {
        let (c, s) = (f64::from(spec.angles.0[at + i]), f64::from(spec.angles.1[at + i]));
        out[i] = x[i] * c - x[i + half] * s;
        out[i + half] = x[i + half] * c + x[i] * s;
    }
    out
}
