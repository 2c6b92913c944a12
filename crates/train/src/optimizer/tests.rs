//! Tests of `optimizer`.

use super::*;
use crate::parameters::from_values;
use burn::tensor::Device;

fn parameter(values: &[f32], role: Role) -> Parameter {
    Parameter::new("w", &[values.len()], role, values.to_vec(), &Device::flex())
}

fn read(t: &Tensor<1>) -> Vec<f32> {
    t.clone().into_data().try_into_vec().unwrap()
}

/// AdamW against its formula in double precision.
#[test]
fn adamw_follows_its_formula() {
    let optimizer = Optimizer { weight_decay: 0.1, betas: (0.9, 0.99), ..Optimizer::default() };
    let mut parameters = [parameter(&[0.5, -1.0, 2.0], Role::Matrix)];
    let mut moments = optimizer.start(&parameters);
    let (mut w, mut m, mut v) = ([0.5f64, -1.0, 2.0], [0f64; 3], [0f64; 3]);
    for step in 0..20u64 {
        let g: Vec<f32> = (0..3).map(|i| ((step * 3 + i) as f32 * 0.7).sin()).collect();
        for i in 0..3 {
            let g = f64::from(g[i]);
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.99 * v[i] + 0.01 * g * g;
            let t = step as i32 + 1;
            let direction = m[i] / (1.0 - 0.9f64.powi(t)) / ((v[i] / (1.0 - 0.99f64.powi(t))).sqrt() + 1e-8);
            w[i] -= 0.01 * (direction + 0.1 * w[i]);
        }
        let g = from_values(g, &Device::flex());
        optimizer.apply(&mut parameters, &mut moments, vec![g], 0.01, step);
    }
    read(&parameters[0].value).iter().zip(w).for_each(|(a, b)| assert!((f64::from(*a) - b).abs() < 1e-5));
}

#[test]
fn vectors_are_not_decayed() {
    let optimizer = Optimizer { weight_decay: 0.5, ..Optimizer::default() };
    for (role, decays) in [(Role::Vector, false), (Role::Matrix, true), (Role::Table, true)] {
        let mut parameters = [parameter(&[1.0], role)];
        let mut moments = optimizer.start(&parameters);
        optimizer.apply(&mut parameters, &mut moments, vec![from_values(vec![0.0], &Device::flex())], 0.1, 0);
        assert_eq!(read(&parameters[0].value)[0] < 1.0, decays);
    }
}

#[test]
fn clipping_scales_all_gradients_by_one_factor() {
    let gradients = vec![from_values(vec![3.0, 0.0], &Device::flex()), from_values(vec![4.0], &Device::flex())];
    let norm = global_norm(&gradients);
    assert!((norm - 5.0).abs() < 1e-12);
    let clipped = clip(gradients.clone(), norm, 1.0);
    assert!((global_norm(&clipped) - 1.0).abs() < 1e-5);
    assert!((read(&clipped[0])[0] - 0.6).abs() < 1e-5);
    assert_eq!(read(&clip(gradients, norm, 9.0)[1]), [4.0]);
}
