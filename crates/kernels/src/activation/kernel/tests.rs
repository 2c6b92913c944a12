//! Tests of `kernel`.

use super::super::{Activation, reference};
use crate::Isa;

#[test]
fn equals_the_reference_whatever_the_position_in_the_row() {
    let d = 37;
    for activation in [Activation::Silu, Activation::GeluTanh] {
        let x: Vec<f32> = (0..2 * d).map(|i| (i as f32 - 35.0) * 0.21).collect();
        for isa in Isa::available() {
            let mut y = vec![0f32; d];
            super::gate_rows(isa, activation, &x, d, &mut y);
            for i in 0..d {
                let want = reference::gate(activation, f64::from(x[i]), f64::from(x[d + i]));
                assert!((f64::from(y[i]) - want).abs() < 2e-6 * (1.0 + want.abs()), "{} against {want}", y[i]);
                let mut alone = [0f32];
                super::gate_rows(isa, activation, &[x[i], x[d + i]], 1, &mut alone);
                assert_eq!(alone[0].to_bits(), y[i].to_bits(), "{isa:?} column {i}");
            }
        }
    }
}

#[test]
fn a_soft_cap_bounds_and_keeps_small_values() {
    let mut x = [-1e9, -0.01, 0.0, 0.01, 3.0, 1e9];
    super::soft_cap_rows(Isa::detect(), &mut x, 6.0);
    assert_eq!((x[0], x[5]), (-6.0, 6.0));
    assert!((x[1] + 0.01).abs() < 1e-7 && x[2] == 0.0);
    assert!((f64::from(x[4]) - 6.0 * 0.5f64.tanh()).abs() < 1e-6);
}
