//! Tests of `kernel`.

use super::super::reference;
use crate::Isa;

#[test]
fn equals_the_reference_and_leaves_the_rest_of_a_head() {
    let (head_dim, half) = (24, 9);
    let angles: Vec<f64> = (0..half).map(|i| 0.3 * i as f64 - 1.0).collect();
    let cos: Vec<f32> = angles.iter().map(|a| a.cos() as f32).collect();
    let sin: Vec<f32> = angles.iter().map(|a| a.sin() as f32).collect();
    let x: Vec<f32> = (0..2 * head_dim).map(|i| i as f32 * 0.1 - 2.0).collect();
    for isa in Isa::available() {
        let mut y = x.clone();
        super::rotate_heads(isa, &mut y, head_dim, &cos, &sin);
        for h in 0..2 {
            let want = reference::rotate(&x[h * head_dim..(h + 1) * head_dim], &angles);
            for (a, b) in y[h * head_dim..(h + 1) * head_dim].iter().zip(want) {
                assert!((f64::from(*a) - b).abs() < 1e-6);
            }
        }
    }
}
