use super::*;

#[test]
fn the_factor_gives_the_matrix_back() {
    let rows = vec![vec![4.0], vec![2.0, 5.0], vec![0.6, 1.0, 3.0]];
    let factor = cholesky(rows.clone());
    for i in 0..3 {
        for j in 0..=i {
            let product: f64 = (0..=j).map(|k| factor[i][k] * factor[j][k]).sum();
            assert!((product - rows[i][j]).abs() < 1e-12);
        }
    }
    let x = forward(&factor, &[1.0, -2.0, 0.5]);
    let b: Vec<f64> = (0..3).map(|i| (0..=i).map(|k| factor[i][k] * x[k]).sum()).collect();
    b.iter().zip([1.0, -2.0, 0.5]).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
}

#[test]
fn bounds_follow_scores_and_distance() {
    let set = |attention: &[usize], mlp: &[usize]| SkippedSublayers::new(8, attention, mlp).unwrap();
    let tried = [(set(&[1, 2], &[]), 0.9), (set(&[], &[5, 6]), 0.1)];
    let near = [set(&[1, 2], &[]), set(&[], &[5, 6]), set(&[3], &[3])];
    let bounds = upper_bounds(&tried, &near, 2);
    // At a score that is known the bound is near it; far from all, the deviation is the whole.
    assert!(bounds[0] > bounds[1] && bounds[2] > bounds[1], "{bounds:?}");
    assert!((bounds[0] - 1.0).abs() < 0.4 && (bounds[1] + 1.0).abs() < 0.4, "{bounds:?}");
    assert_eq!(upper_bounds(&[], &near, 2), [KAPPA; 3]);
}
