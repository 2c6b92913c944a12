//! Tests of `moe`.

use super::*;

#[test]
fn routes_go_to_the_likeliest_and_sum_to_one() {
    let scores = [0.5f32, 2.0, -1.0, 1.0];
    let chosen = route(&scores, 2);
    assert_eq!(chosen.iter().map(|&(e, _)| e).collect::<Vec<_>>(), [1, 3]);
    let (a, b) = (2f32.exp(), 1f32.exp());
    assert!((chosen[0].1 - a / (a + b)).abs() < 1e-6 && (chosen[1].1 - b / (a + b)).abs() < 1e-6);
    assert_eq!(route(&[1.0, 1.0, 1.0], 2).iter().map(|&(e, _)| e).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(route(&[f32::NAN, 1.0], 2).len(), 2);
}
