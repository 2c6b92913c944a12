//! Tests of `launch`.

use super::super::reference;
use super::*;
use burn::tensor::Device;

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn spec() -> Segments {
    let rows: Vec<std::ops::Range<usize>> = vec![0..5, 5..6, 6..17];
    let angles = Segments::angles(11, 8, 100.0);
    Segments { heads: 4, kv_heads: 2, head_dim: 8, angles, rows: rows.into() }
}

fn read(x: Tensor<2>) -> Vec<f32> {
    x.into_data().try_into_vec().unwrap()
}

#[test]
fn fused_and_composed_equal_the_reference_and_each_others_gradients() {
    let (spec, n) = (spec(), 17);
    let [q, k, v, g] = [(32, 1), (16, 2), (16, 3), (32, 4)].map(|(width, seed)| values(n * width, seed));
    let doubles = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let want = reference::segment_attention(&spec, &doubles(&q), &doubles(&k), &doubles(&v));
    let device = Device::flex();
    let tensor = |x: &[f32], width: usize| Tensor::<2>::from_data(TensorData::new(x.to_vec(), [n, width]), &device);
    let mut gradients: Vec<Vec<f32>> = vec![];
    for fused in [true, false] {
        let leaves = [(&q, 32), (&k, 16), (&v, 16)].map(|(x, width)| tensor(x, width).autodiff().require_grad());
        let [q, k, v] = leaves.clone();
        let out = if fused { segment_attention(&spec, q, k, v) } else { composed(&spec, q, k, v) };
        for (a, b) in read(out.clone().inner()).iter().zip(&want) {
            assert!((f64::from(*a) - b).abs() < 1e-5, "{a} {b}");
        }
        let mut grads = (out * tensor(&g, 32).autodiff()).sum().backward();
        gradients.push(leaves.iter().flat_map(|leaf| read(leaf.grad_remove(&mut grads).unwrap())).collect());
    }
    let worst = gradients[0].iter().zip(&gradients[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-5, "{worst}");
}

#[test]
fn one_segment_does_not_feel_another() {
    let (spec, n) = (spec(), 17);
    let [q, mut k, v] = [(32, 1), (16, 2), (16, 3)].map(|(width, seed)| values(n * width, seed));
    let before = kernel::forward(&spec, Operands { q: &q, k: &k, v: &v });
    k[5 * 16..6 * 16].fill(9.0);
    let after = kernel::forward(&spec, Operands { q: &q, k: &k, v: &v });
    assert_eq!(before[..5 * 32], after[..5 * 32]);
    assert_eq!(before[6 * 32..], after[6 * 32..]);
}
