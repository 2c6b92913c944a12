//! Tests of `muon`.

use super::*;
use crate::parameters::from_values;
use burn::tensor::Device;

#[test]
fn singular_values_come_near_one() {
    for [rows, columns] in [[12, 30], [30, 12], [16, 16]] {
        let mut random = gorgon_core::accept::random::SeededRandom::new(rows as u64);
        let values: Vec<f32> = (0..rows * columns).map(|_| random.uniform() as f32 - 0.5).collect();
        let x = orthogonal(from_values(values, &Device::flex()).reshape([rows, columns]));
        let x = if rows > columns { x.transpose() } else { x };
        let n = rows.min(columns);
        let gram: Vec<f32> = x.clone().matmul(x.transpose()).into_data().try_into_vec().unwrap();
        // The iteration leaves singular values between 0.7 and 1.2: the trace says their mean square.
        let trace: f32 = (0..n).map(|i| gram[i * n + i]).sum::<f32>() / n as f32;
        assert!((0.5..1.45).contains(&trace), "{rows}x{columns}: {trace}");
    }
}
