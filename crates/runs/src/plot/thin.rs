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
mod tests {
    use super::*;

    #[test]
    fn a_column_keeps_its_ends_and_extremes() {
        let points =
            vec![(0.0, 5.0), (1.0, 3.0), (1.1, 9.0), (1.2, 4.0), (1.3, 0.5), (1.4, 2.0), (1.5, 3.5), (2.0, 1.0)];
        assert_eq!(thin(points), [(0.0, 5.0), (1.0, 3.0), (1.1, 9.0), (1.3, 0.5), (1.5, 3.5), (2.0, 1.0)]);
        let back = vec![(3.0, 1.0), (2.0, 2.0), (2.1, 2.0)];
        assert_eq!(thin(back.clone()), back);
        assert!(thin(vec![]).is_empty());
    }

    #[test]
    fn long_lines_get_short() {
        let long: Vec<_> = (0..1_000_000).map(|i| (f64::from(i) / 1e4, f64::from(i % 97))).collect();
        assert!(thin(long).len() <= 400);
    }
}
