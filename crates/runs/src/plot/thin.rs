//! Fewer points for the same picture.

/// Of the points of a line in each column one pixel wide, keeps the first, the lowest, the highest and the last: what
/// the column looks like does not change. Lines that go back to the left stay as they are.
pub(super) fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if !points.is_sorted_by(|a, b| a.0 <= b.0) {
        return points;
    }
    points.chunk_by(|a, b| a.0.floor() == b.0.floor()).flat_map(column).collect()
}

fn column(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 4 {
        return points.to_vec();
    }
    let by_height = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
    let lowest = (0..points.len()).min_by(by_height).unwrap_or(0);
    let highest = (0..points.len()).max_by(by_height).unwrap_or(0);
    let mut kept = vec![0, lowest, highest, points.len() - 1];
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|i| points[i]).collect()
}

#[cfg(test)]
mod tests;
