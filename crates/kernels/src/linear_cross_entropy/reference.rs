//! The definition, in double precision.

/// Result of the reference: losses per row, `∂L/∂h [rows, d]` and `∂L/∂W [V, d]`.
pub type Reference = (Vec<f64>, Vec<f64>, Vec<f64>);

/// Losses and gradients of rows `h [rows, d]` under `w [V, d]`.
pub fn linear_cross_entropy(h: &[f32], w: &[f32], d: usize, labels: &[u32], scales: &[f32]) -> Reference {
    let vocab = w.len() / d;
    let (mut losses, mut d_hidden, mut d_weight) = (vec![], vec![0f64; h.len()], vec![0f64; w.len()]);
    for (i, row) in h.chunks_exact(d).enumerate() {
        let dot = |v: usize| row.iter().zip(&w[v * d..]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let logits: Vec<f64> = (0..vocab).map(dot).collect();
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_sum = max + logits.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
        losses.push(log_sum - logits[labels[i] as usize]);
        for v in 0..vocab {
            let hit = f64::from(u8::from(v == labels[i] as usize));
            let g = f64::from(scales[i]) * ((logits[v] - log_sum).exp() - hit);
            for j in 0..d {
                d_hidden[i * d + j] += g * f64::from(w[v * d + j]);
                d_weight[v * d + j] += g * f64::from(row[j]);
            }
        }
    }
    (losses, d_hidden, d_weight)
}

/// Losses of rows `h [rows, d]` against the distributions of `t [rows, d]`, both under `w [V, d]`, and `∂L/∂h` of their
/// sum times `scale`.
pub fn soft_cross_entropy(h: &[f32], t: &[f32], w: &[f32], d: usize, scale: f64) -> (Vec<f64>, Vec<f64>) {
    let vocab = w.len() / d;
    let log_softmax = |row: &[f32]| -> Vec<f64> {
        let dot = |v: usize| row.iter().zip(&w[v * d..]).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let logits: Vec<f64> = (0..vocab).map(dot).collect();
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_sum = max + logits.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
        logits.iter().map(|x| x - log_sum).collect()
    };
    let (mut losses, mut d_hidden) = (vec![], vec![0f64; h.len()]);
    for (i, (h, t)) in h.chunks_exact(d).zip(t.chunks_exact(d)).enumerate() {
        let (log_q, log_p) = (log_softmax(h), log_softmax(t));
        losses.push(-log_p.iter().zip(&log_q).map(|(p, q)| p.exp() * q).sum::<f64>());
        for v in 0..vocab {
            let g = scale * (log_q[v].exp() - log_p[v].exp());
            (0..d).for_each(|j| d_hidden[i * d + j] += g * f64::from(w[v * d + j]));
        }
    }
    (losses, d_hidden)
}
