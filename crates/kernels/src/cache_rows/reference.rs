//! The definitions of writing and of moving rows.

use crate::tree_attention::AttentionSpec;

/// One row's heads, normalised and rotated: queries, keys, values.
///
/// # Shapes
/// `qkv [(heads + 2 · kv_heads) · head_dim]`; `norms` `[head_dim]` each; `cos`, `sin` `[r / 2]`.
pub fn split_row(
    spec: &AttentionSpec,
    qkv: &[f32],
    norms: Option<(&[f32], &[f32], f32)>,
    cos: &[f32],
    sin: &[f32],
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let d = spec.head_dim;
    let (q, kv) = qkv.split_at(spec.heads * d);
    let (k, v) = kv.split_at(spec.kv_heads * d);
    let turned = |heads: &[f32], weights: Option<&[f32]>| -> Vec<f32> {
        heads.chunks_exact(d).flat_map(|head| turn(head, weights, norms.map_or(0.0, |n| n.2), cos, sin)).collect()
    };
    (turned(q, norms.map(|n| n.0)), turned(k, norms.map(|n| n.1)), v.to_vec())
}

fn turn(head: &[f32], weights: Option<&[f32]>, eps: f32, cos: &[f32], sin: &[f32]) -> Vec<f32> {
    let mut x: Vec<f64> = head.iter().map(|&x| f64::from(x)).collect();
    if let Some(weights) = weights {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (mean + f64::from(eps)).sqrt();
        x.iter_mut().zip(weights).for_each(|(x, &w)| *x *= scale * f64::from(w));
    }
    let half = cos.len();
    for i in 0..half {
        let (a, b, cos, sin) = (x[i], x[i + half], f64::from(cos[i]), f64::from(sin[i]));
        (x[i], x[i + half]) = (a * cos - b * sin, b * cos + a * sin);
    }
    x.into_iter().map(|x| x as f32).collect()
}

/// Moves rows `path` after `prefix` together, in one plane of slots.
///
/// # Shapes
/// `slots [capacity, d]`.
pub fn gather(slots: &mut [f32], d: usize, prefix: usize, path: &[usize]) {
    for (i, &row) in path.iter().enumerate() {
        slots.copy_within((prefix + row) * d..(prefix + row + 1) * d, (prefix + i) * d);
    }
}
