//! Tests of `launch`.

use super::super::reference;
use super::*;
use crate::segment_attention::Segments;
use burn::tensor::Device;

const ROWS: usize = 17;
const SLOTS: usize = 3;

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn spec(causal: bool, window: Option<usize>) -> Blocks {
    let rows: Vec<std::ops::Range<usize>> = vec![0..5, 5..6, 6..17];
    let angles = Segments::angles(11 + SLOTS, 8, 100.0);
    let context = Segments { heads: 4, kv_heads: 2, head_dim: 8, angles, rows: rows.into() };
    Blocks { context, anchors: vec![vec![0, 2, 5], vec![], vec![1, 10, 11]].into(), slots: SLOTS, causal, window }
}

fn all() -> [Blocks; 5] {
    [(false, None), (true, None), (false, Some(4)), (true, Some(2)), (false, Some(1))]
        .map(|(causal, window)| spec(causal, window))
}

fn read(x: Tensor<2>) -> Vec<f32> {
    x.into_data().try_into_vec().unwrap()
}

/// Queries, keys and values of the context, those of the slots.
fn inputs() -> [Vec<f32>; 5] {
    let slots = 6 * SLOTS;
    [(slots * 32, 1), (ROWS * 16, 2), (ROWS * 16, 3), (slots * 16, 4), (slots * 16, 5)].map(|(n, seed)| values(n, seed))
}

fn tensors(inputs: &[Vec<f32>; 5]) -> [Tensor<2>; 5] {
    let width = |i: usize| if i == 0 { 32 } else { 16 };
    [0, 1, 2, 3, 4].map(|i| {
        let rows = inputs[i].len() / width(i);
        Tensor::<2>::from_data(TensorData::new(inputs[i].clone(), [rows, width(i)]), &Device::flex()).autodiff()
    })
}

fn run(spec: &Blocks, [q, k, v, own_k, own_v]: [Tensor<2>; 5], fused: bool) -> Tensor<2> {
    match fused {
        true => block_attention(spec, q, (k, v), (own_k, own_v)),
        false => composed(spec, q, (k, v), (own_k, own_v)),
    }
}

#[test]
fn fused_and_composed_equal_the_reference_and_each_others_gradients() {
    let inputs = inputs();
    let doubles = inputs.clone().map(|x| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>());
    for spec in all() {
        let [q, k, v, own_k, own_v] = &doubles;
        let want = reference::block_attention(&spec, q, (k, v), (own_k, own_v));
        let mut gradients: Vec<Vec<f32>> = vec![];
        for fused in [true, false] {
            let leaves = tensors(&inputs).map(Tensor::require_grad);
            let out = run(&spec, leaves.clone(), fused);
            for (a, b) in read(out.clone().inner()).iter().zip(&want) {
                assert!((f64::from(*a) - b).abs() < 1e-5, "{spec:?}: {a} {b}");
            }
            let weights = values(6 * SLOTS * 32, 40);
            let weights = Tensor::<2>::from_data(TensorData::new(weights, out.dims()), &Device::flex()).autodiff();
            let mut grads = (out * weights).sum().backward();
            gradients.push(leaves.iter().flat_map(|leaf| read(leaf.grad_remove(&mut grads).unwrap())).collect());
        }
        let worst = gradients[0].iter().zip(&gradients[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-5, "{spec:?}: {worst}");
    }
}

/// A slot sees its own block and the context before its anchor, and nothing else.
#[test]
fn rows_see_what_they_should() {
    let inputs = inputs();
    let forward = |spec: &Blocks, inputs: &[Vec<f32>; 5]| {
        read(run(spec, tensors(inputs), true).inner()).chunks(32).map(<[f32]>::to_vec).collect::<Vec<_>>()
    };
    // The blocks' slots are rows 0 to 2, 3 to 5 and so on; context row 3 is before the anchor 5 of the first sequence
    // only, context row 6 is the first of the third sequence.
    let open =
        [(1, 3, (6..9).collect::<Vec<_>>()), (1, 6, (9..18).collect()), (4, 4, (3..6).collect()), (2, 5, vec![])];
    let causal = [(1, 3, (6..9).collect::<Vec<_>>()), (4, 4, vec![4, 5]), (3, 3, vec![3, 4, 5])];
    // Through a window of 4, slot i at anchor 10 sees context rows from 7 + i on: position 8 is row 14.
    let narrow = [(1, 14, vec![12, 13, 15]), (4, 17, vec![15, 16, 17])];
    for (spec, cases) in [(spec(false, None), &open[..]), (spec(true, None), &causal), (spec(false, Some(4)), &narrow)]
    {
        let before = forward(&spec, &inputs);
        for (input, row, felt) in cases {
            let mut changed = inputs.clone();
            changed[*input][row * 16..(row + 1) * 16].iter_mut().for_each(|x| *x += 2.0);
            let after = forward(&spec, &changed);
            let differ: Vec<usize> = (0..before.len()).filter(|&row| before[row] != after[row]).collect();
            assert_eq!(&differ, felt, "input {input}, row {row}");
        }
    }
}
