//! Tests of `moe`.

use super::*;

fn routed(logits: &[f32], k: usize) -> Vec<(u32, f32)> {
    let mut routes = PooledVec::new();
    route(logits, k, &mut routes);
    routes.into_vec()
}

#[test]
fn routes_go_to_the_greatest_logits_and_sum_to_one() {
    let chosen = routed(&[0.5, 2.0, -1.0, 1.0], 2);
    assert_eq!(chosen.iter().map(|&(e, _)| e).collect::<Vec<_>>(), [1, 3]);
    let (a, b) = (2f32.exp(), 1f32.exp());
    assert!((chosen[0].1 - a / (a + b)).abs() < 1e-6 && (chosen[1].1 - b / (a + b)).abs() < 1e-6);
    assert_eq!(routed(&[1.0, 1.0, 1.0], 2).iter().map(|&(e, _)| e).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(routed(&[f32::NAN, 1.0], 2).len(), 2);
}
