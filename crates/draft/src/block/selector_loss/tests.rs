//! Tests of `selector_loss`.

use super::*;
use burn::tensor::Device;
use gorgon_kernels::Frozen;

const D: usize = 4;
const VOCAB: usize = 6;
const CONFIG: SelectorConfig = SelectorConfig { k: 3, rank: 2 };
const LABELS: [Token; 3] = [5, 0, 2];
const BEFORE: [Token; 3] = [1, 5, 1];

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn square(values: Vec<f32>, width: usize) -> Tensor<2> {
    let rows = values.len() / width;
    Tensor::from_data(TensorData::new(values, [rows, width]), &Device::flex())
}

fn candidates(states: &[f32]) -> Candidates {
    let lm_head = Table::frozen(square(values(VOCAB * D, 5), D), Frozen::default()).unwrap();
    Candidates::of(CONFIG.k, &square(states.to_vec(), D), &lm_head, &LABELS, 2)
}

/// Tables of predecessors and successors, projection, states.
fn inputs() -> [Vec<f32>; 4] {
    [values(VOCAB * 2, 1), values(VOCAB * 2, 2), values(2 * D, 3), values(3 * D, 4)]
}

/// Losses with their tracked leaves.
fn run(inputs: &[Vec<f32>; 4], fixed: &[f32]) -> (Tensor<1>, Vec<Tensor<1>>, Tensor<2>) {
    let flat = |values: &Vec<f32>| {
        let data = TensorData::new(values.clone(), [values.len()]);
        Tensor::<1>::from_data(data, &Device::flex()).autodiff().require_grad()
    };
    let weights: Vec<Tensor<1>> = inputs[..3].iter().map(flat).collect();
    let states = square(inputs[3].clone(), D).autodiff().require_grad();
    (losses(CONFIG, &weights, &states, &BEFORE, candidates(fixed)), weights, states)
}

/// Labels are among the candidates, the others are those of the greatest logits, and the loss is the formula.
#[test]
fn the_loss_is_its_formula() {
    let inputs = inputs();
    let found = read(run(&inputs, &inputs[3]).0.inner());
    let head = values(VOCAB * D, 5);
    for (row, (&label, &before)) in LABELS.iter().zip(&BEFORE).enumerate() {
        let h = &inputs[3][row * D..][..D];
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let logit = |token: Token| dot(&head[token as usize * D..][..D], h);
        let projected = [0, 1].map(|r| dot(&inputs[2][r * D..][..D], h));
        let table = |which: usize, token: Token, r: usize| f64::from(inputs[which][token as usize * 2 + r]);
        let edge = |token: Token| (0..2).map(|r| table(0, before, r) * projected[r] * table(1, token, r)).sum::<f64>();
        let mut order: Vec<Token> = (0..VOCAB as Token).collect();
        order.sort_by(|&a, &b| logit(b).total_cmp(&logit(a)));
        order.truncate(CONFIG.k);
        if !order.contains(&label) {
            order[CONFIG.k - 1] = label;
        }
        let total: f64 = order.iter().map(|&token| (logit(token) + edge(token)).exp()).sum();
        let want = total.ln() - logit(label) - edge(label);
        assert!((f64::from(found[row]) - want).abs() < 1e-5, "{} {want}", found[row]);
    }
}

#[test]
fn gradients_are_slopes() {
    let start = inputs();
    let (losses, weights, states) = run(&start, &start[3]);
    let mut gradients = losses.sum().backward();
    let mut all: Vec<Vec<f32>> = weights.iter().map(|leaf| read(leaf.grad_remove(&mut gradients).unwrap())).collect();
    all.push(read(states.grad_remove(&mut gradients).unwrap()));
    for (input, gradient) in all.iter().enumerate() {
        for (i, g) in gradient.iter().enumerate() {
            let nudged = |by: f32| {
                let mut moved = start.clone();
                moved[input][i] += by;
                // The candidates and their logits are numbers.
                read(run(&moved, &start[3]).0.inner()).into_iter().map(f64::from).sum::<f64>()
            };
            let slope = (nudged(4e-3) - nudged(-4e-3)) / 8e-3;
            assert!((slope - f64::from(*g)).abs() < 2e-3 * (0.3 + slope.abs()), "input {input} [{i}]: {g} {slope}");
        }
    }
}
