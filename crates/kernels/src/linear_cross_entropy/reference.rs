//! The definition, in double precision.

/// What the reference yields: losses per row, `∂L/∂h [rows, d]` and `∂L/∂W [V, d]`.
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
