//! The definition, in double precision.

use super::Segments;

/// Attention of `q [rows, heads · d]`, `k` and `v` `[rows, kv_heads · d]`, before the rotary embedding.
pub fn segment_attention(spec: &Segments, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
    let (d, group) = (spec.head_dim, spec.heads / spec.kv_heads);
    let (q_width, kv_width) = (spec.heads * d, spec.kv_heads * d);
    let rotated = |x: &[f64], position: usize| {
        let (half, at) = (d / 2, position * d / 2);
        let mut out = x.to_vec();
        for i in 0..half {
            let (c, s) = (f64::from(spec.angles.0[at + i]), f64::from(spec.angles.1[at + i]));
            out[i] = x[i] * c - x[i + half] * s;
            out[i + half] = x[i + half] * c + x[i] * s;
        }
        out
    };
    let mut out = vec![0f64; q.len()];
    for rows in spec.rows.iter() {
        for head in 0..spec.heads {
            for i in rows.clone() {
                let query = rotated(&q[i * q_width + head * d..][..d], i - rows.start);
                let score = |j: usize| {
                    let key = rotated(&k[j * kv_width + head / group * d..][..d], j - rows.start);
                    query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() * f64::from(spec.scale())
                };
                let scores: Vec<f64> = (rows.start..=i).map(score).collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
                for (j, s) in (rows.start..=i).zip(&scores) {
                    for c in 0..d {
                        out[i * q_width + head * d + c] +=
                            (s - max).exp() / sum * v[j * kv_width + head / group * d + c];
                    }
                }
            }
        }
    }
    out
}
