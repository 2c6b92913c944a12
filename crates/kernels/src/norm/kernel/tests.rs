//! Tests of `kernel`.

use super::super::reference;
use crate::Isa;

#[test]
fn equals_the_reference_and_itself_on_every_instruction_set() {
    for d in [1, 7, 16, 24, 64, 100] {
        let x: Vec<f32> = (0..3 * d).map(|i| ((i * 31 % 17) as f32 - 8.0) * 0.3).collect();
        let w: Vec<f32> = (0..d).map(|i| 1.0 + i as f32 * 0.01).collect();
        let mut first: Option<Vec<f32>> = None;
        for isa in Isa::available() {
            let mut y = vec![0f32; 3 * d];
            super::rms_norm(isa, &x, &w, 1e-5, &mut y);
            for r in 0..3 {
                let want = reference::rms_norm(&x[r * d..(r + 1) * d], &w, 1e-5);
                for (a, b) in y[r * d..(r + 1) * d].iter().zip(want) {
                    assert!((f64::from(*a) - b).abs() < 1e-5, "{a} against {b}");
                }
            }
            assert_eq!(*first.get_or_insert_with(|| y.clone()), y, "{isa:?}");
        }
    }
}
