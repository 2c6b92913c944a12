//! The definition, in double precision.

use super::Divergence;

/// `D(p, q)` of two distributions.
pub fn divergence(kind: Divergence, p: &[f64], q: &[f64]) -> f64 {
    // `x ln(x/y)`, 0 where x is.
    let relative = |x: f64, y: f64| if x > 0.0 { x * (x / y).ln() } else { 0.0 };
    let term = |(&p, &q): (&f64, &f64)| match kind {
        Divergence::ForwardKl => relative(p, q),
        Divergence::ReverseKl => relative(q, p),
        Divergence::JensenShannon(beta) => {
            let beta = f64::from(beta);
            let m = beta * p + (1.0 - beta) * q;
            beta * relative(p, m) + (1.0 - beta) * relative(q, m)
        }
        Divergence::TotalVariation => 0.5 * (p - q).abs(),
    };
    p.iter().zip(q).map(term).sum()
}

/// `softmax(w h)`.
pub fn distribution(h: &[f64], w: &[f64]) -> Vec<f64> {
    let logits: Vec<f64> = w.chunks_exact(h.len()).map(|w| w.iter().zip(h).map(|(a, b)| a * b).sum()).collect();
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|x| (x - most).exp()).sum();
    logits.iter().map(|x| (x - most).exp() / sum).collect()
}
