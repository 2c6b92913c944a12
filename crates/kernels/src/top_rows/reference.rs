//! The definition: a stable sort, and a softmax in double precision.

/// The `count` greatest entries of a row with their probabilities.
pub fn top_row(row: &[f32], count: usize) -> Vec<(u32, f64)> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).unwrap_or(std::cmp::Ordering::Equal));
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |i: usize| f64::from(row[i] - max).exp();
    let sum: f64 = (0..row.len()).map(weight).sum();
    order.into_iter().take(count).map(|i| (i as u32, weight(i) / sum)).collect()
}
