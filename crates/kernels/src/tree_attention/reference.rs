//! The definition of tree attention.

use super::{AttentionSpec, PassRows, PositionBias};

/// Attention in double precision, one row and one head at a time.
///
/// # Shapes
/// `q [rows, heads · head_dim]`; `key(kv_head, slot)` and `value(kv_head, slot)` give `head_dim` values; uncommitted
/// rows lie in the slots after the prefix. Result as `q`.
pub fn attend<'a>(
    spec: &AttentionSpec,
    q: &[f32],
    pass: &PassRows<'_>,
    key: impl Fn(usize, usize) -> &'a [f32],
    value: impl Fn(usize, usize) -> &'a [f32],
) -> Vec<f64> {
    attend_biased((spec, None), q, pass, key, value)
}

/// [`attend`] with a term of the scores by distance.
///
/// # Shapes
/// As of [`attend`].
pub fn attend_biased<'a>(
    (spec, bias): (&AttentionSpec, Option<&PositionBias>),
    q: &[f32],
    pass: &PassRows<'_>,
    key: impl Fn(usize, usize) -> &'a [f32],
    value: impl Fn(usize, usize) -> &'a [f32],
) -> Vec<f64> {
    let (d, group) = (spec.head_dim, spec.heads / spec.kv_heads);
    let mut out = vec![0f64; q.len()];
    let PassRows { prefix, mask, positions } = *pass;
    for row in 0..mask.rows() {
        let position = |index: usize| prefix + positions.map_or(index, |positions| positions[mask.nth(row, index)]);
        let mine = pass.position(row);
        let near = |position: usize| spec.window.is_none_or(|window| position + window > mine);
        // The slots that are seen, with their positions.
        let mut slots: Vec<(usize, usize)> = (0..prefix).filter(|&slot| near(slot)).map(|slot| (slot, slot)).collect();
        let uncommitted = (0..mask.count(row)).filter(|&i| near(position(i)));
        slots.extend(uncommitted.map(|i| (prefix + mask.nth(row, i), position(i))));
        for head in 0..spec.heads {
            let at = (row * spec.heads + head) * d;
            let score = |(slot, position): &(usize, usize)| {
                let k = key(head / group, *slot);
                let term = bias.map_or(0.0, |bias| bias.at(head, mine, *position));
                let s: f64 = (0..d).map(|i| f64::from(q[at + i]) * f64::from(k[i])).sum::<f64>();
                let s = s * f64::from(spec.scale) + f64::from(term);
                spec.soft_cap.map_or(s, |cap| f64::from(cap) * (s / f64::from(cap)).tanh())
            };
            let scores: Vec<f64> = slots.iter().map(score).collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            for ((slot, _), s) in slots.iter().zip(&scores) {
                for i in 0..d {
                    out[at + i] += (s - max).exp() / total * f64::from(value(head / group, *slot)[i]);
                }
            }
        }
    }
    out
}
