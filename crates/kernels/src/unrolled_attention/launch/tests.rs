//! Tests of `launch`.

use super::super::reference;
use super::*;
use burn::tensor::Device;

const N: usize = 17;

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn spec(steps: usize) -> Segments {
    let rows: Vec<std::ops::Range<usize>> = vec![0..5, 5..6, 6..17];
    let angles = Segments::angles(11 + steps, 8, 100.0);
    Segments { heads: 4, kv_heads: 2, head_dim: 8, angles, rows: rows.into() }
}

fn read(x: Tensor<2>) -> Vec<f32> {
    x.into_data().try_into_vec().unwrap()
}

/// Query, then key and value of every step.
fn inputs(steps: usize) -> Vec<Vec<f32>> {
    (0..3 + 2 * steps).map(|i| values(N * if i == 0 { 32 } else { 16 }, i + 1)).collect()
}

fn run(spec: &Segments, inputs: &[Tensor<2>], fused: bool) -> Tensor<2> {
    let pair = |at: usize| (inputs[at].clone(), inputs[at + 1].clone());
    let later: Vec<_> = (3..inputs.len()).step_by(2).map(pair).collect();
    match fused {
        true => unrolled_attention(spec, inputs[0].clone(), pair(1), &later),
        false => composed(spec, inputs[0].clone(), pair(1), &later),
    }
}

#[test]
fn fused_and_composed_equal_the_reference_and_each_others_gradients() {
    for steps in 0..4 {
        let (spec, inputs) = (spec(steps), inputs(steps));
        let doubles: Vec<Vec<f64>> = inputs.iter().map(|x| x.iter().map(|&x| f64::from(x)).collect()).collect();
        let later: Vec<_> = doubles[3..].chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        let want = reference::unrolled_attention(&spec, &doubles[0], (&doubles[1], &doubles[2]), &later);
        let tensor = |x: &Vec<f32>| {
            Tensor::<2>::from_data(TensorData::new(x.clone(), [N, x.len() / N]), &Device::flex()).autodiff()
        };
        let mut gradients: Vec<Vec<f32>> = vec![];
        for fused in [true, false] {
            let leaves: Vec<Tensor<2>> = inputs.iter().map(|x| tensor(x).require_grad()).collect();
            let out = run(&spec, &leaves, fused);
            for (a, b) in read(out.clone().inner()).iter().zip(&want) {
                assert!((f64::from(*a) - b).abs() < 1e-5, "step {steps}: {a} {b}");
            }
            let mut grads = (out * tensor(&values(N * 32, 40))).sum().backward();
            gradients.push(leaves.iter().flat_map(|leaf| read(leaf.grad_remove(&mut grads).unwrap())).collect());
        }
        let worst = gradients[0].iter().zip(&gradients[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-5, "step {steps}: {worst}");
    }
}

/// Of later steps a row sees itself alone, of step 0 only what came before it in its own segment.
#[test]
fn rows_see_what_they_should() {
    let (spec, inputs) = (spec(2), inputs(2));
    let forward = |inputs: &[Vec<f32>]| {
        let tensor = |x: &Vec<f32>| {
            Tensor::<2>::from_data(TensorData::new(x.clone(), [N, x.len() / N]), &Device::flex()).autodiff()
        };
        let out = run(&spec, &inputs.iter().map(tensor).collect::<Vec<_>>(), true);
        read(out.inner()).chunks(32).map(<[f32]>::to_vec).collect::<Vec<_>>()
    };
    let before = forward(&inputs);
    for (input, row, felt) in [(1, 8, 8..17), (3, 8, 8..9), (4, 2, 2..3), (6, 16, 16..17), (2, 5, 5..6)] {
        let mut changed = inputs.clone();
        changed[input][row * 16..(row + 1) * 16].iter_mut().for_each(|x| *x += 2.0);
        let after = forward(&changed);
        let differ: Vec<usize> = (0..N).filter(|&row| before[row] != after[row]).collect();
        assert_eq!(differ, felt.collect::<Vec<_>>(), "input {input}, row {row}");
    }
}
