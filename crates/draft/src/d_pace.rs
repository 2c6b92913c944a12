//! D-PACE: weights of drafted places by how many more tokens are accepted if they are right (arXiv 2605.18810).

/// `w_k = m_k Σ_{j ≥ k} m_j Π_{i ≤ j} s_i` with `s_i = (1 - α) exp(-CE_i) + α`, or `s_i = 1` where there is no label
/// (`m_i = 0`). Up to `α`, it is the slope of the expected number of accepted drafts against `-CE_k`.
///
/// `losses` are the cross-entropies of the drafted places in their order, `None` for a place without a label.
pub(crate) fn weights(alpha: f64, losses: &[Option<f32>]) -> Vec<f32> {
    let mut reached = 1.0;
    let mut weights: Vec<f64> = vec![];
    for loss in losses {
        if let Some(loss) = loss {
            reached *= (1.0 - alpha) * f64::from(-loss).exp() + alpha;
        }
        weights.push(if loss.is_some() { reached } else { 0.0 });
    }
    // Sums from the end.
    (1..weights.len()).rev().for_each(|k| weights[k - 1] += weights[k]);
    weights.iter().zip(losses).map(|(&weight, loss)| if loss.is_some() { weight as f32 } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests;
