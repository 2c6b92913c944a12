//! The loss against its formula, and its gradients against its slopes.

use burn::tensor::{Device, Tensor, TensorData};
use gorgon_draft::block::{
    BlockBatch, BlockConfig, BlockNetwork, BlockOutput, BlockShape, Criterion, SelectorConfig, SlotWeights, losses,
    slot_weights,
};
use gorgon_draft::layer::LayerShape;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::rope::{RopeConfig, RopeScaling};
use gorgon_model::target::read;

const D: usize = 16;
const VOCAB: usize = 20;

fn shape(causal: bool) -> BlockShape {
    let layer = LayerShape {
        hidden_size: D,
        intermediate_size: 12,
        heads: 2,
        kv_heads: 1,
        head_dim: 6,
        vocab_size: VOCAB,
        max_positions: 32,
        norm_eps: 1e-5,
        rope: RopeConfig { theta: 100.0, rotary_dim: 6, scaling: RopeScaling::Linear { factor: 2.0 } },
    };
    let window = causal.then_some(5);
    BlockShape {
        layer,
        layers: 2,
        hooks: vec![1, 2],
        slots: 4,
        causal,
        window,
        conv: causal,
        selector: None,
        mask_token: 3,
        target_layers: 2,
    }
}

fn values(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

fn tensor(values: Vec<f32>, shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

fn batch() -> BlockBatch {
    BlockBatch {
        hooks: tensor(values(11 * 2 * D, 2), [11, 2 * D]),
        context: vec![0..4, 4..11],
        anchors: vec![vec![1, 4], vec![2, 7]],
        embedded: tensor(values(4 * 4 * D, 3), [16, D]),
        anchor_tokens: vec![4, 5, 6, 7],
        labels: vec![vec![5, 19, 0], vec![7], vec![], vec![2, 2]],
    }
}

fn start(shape: &BlockShape) -> Vec<Vec<f32>> {
    let of = |(i, spec): (usize, &gorgon_draft::parameter::ParameterSpec)| {
        let matrix = spec.shape.len() == 2;
        // Convolutions multiply twice: small ones keep activations their size.
        let (base, scale) = match (matrix, spec.name.contains("_conv.")) {
            (true, true) => (0.0, 0.05),
            (false, true) => (0.5, 0.1),
            (true, false) => (0.0, 1.5 / (spec.shape[1] as f32).sqrt()),
            (false, false) => (1.0, 0.3),
        };
        values(spec.shape.iter().product(), 11 + i).into_iter().map(|v| base + scale * v).collect()
    };
    shape.parameters().iter().enumerate().map(of).collect()
}

fn run(
    shape: &BlockShape,
    config: &BlockConfig,
    weights: &[Vec<f32>],
    scale: Option<f32>,
) -> (Vec<BlockOutput>, Vec<Tensor<1>>) {
    let lm_head = Table::frozen(tensor(values(VOCAB * D, 5), [VOCAB, D]), Frozen::default()).unwrap();
    let flat =
        |values: &Vec<f32>| Tensor::<1>::from_data(TensorData::new(values.clone(), [values.len()]), &Device::flex());
    let weights: Vec<Tensor<1>> = weights.iter().map(flat).collect();
    let network = BlockNetwork::new(shape.clone(), 8);
    losses(&network, &Criterion { config, lm_head: &lm_head, chunk_rows: 2 }, &weights, &batch(), scale)
}

/// No gradient goes through the weights, so slopes are taken with the weights as they were.
#[test]
fn gradients_are_slopes() {
    for (causal, slot_weights) in [(false, SlotWeights::DPace), (true, SlotWeights::Exponential)] {
        let (shape, config) = (shape(causal), BlockConfig { slot_weights, ..BlockConfig::default() });
        let (start, scale) = (start(&shape), 0.2f32);
        let (outputs, gradients) = run(&shape, &config, &start, Some(scale));
        assert_eq!(outputs.iter().map(|output| output.losses.len()).collect::<Vec<_>>(), [3, 1, 0, 2]);
        let loss = |weights: &[Vec<f32>]| {
            let (moved, _) = run(&shape, &config, weights, None);
            let weighed = moved.iter().zip(&outputs).flat_map(|(moved, start)| moved.losses.iter().zip(&start.weights));
            f64::from(scale) * weighed.map(|(&loss, &weight)| f64::from(loss) * f64::from(weight)).sum::<f64>()
        };
        for (p, gradient) in gradients.into_iter().enumerate() {
            for (i, g) in read(gradient).into_iter().enumerate().step_by(3) {
                let nudged = |by: f32| {
                    let mut moved = start.clone();
                    moved[p][i] += by;
                    loss(&moved)
                };
                let slope = (nudged(4e-3) - nudged(-4e-3)) / 8e-3;
                let off = (slope - f64::from(g)).abs();
                assert!(off < 3e-3 * (0.3 + slope.abs()), "{} [{i}]: {g}, {slope}", shape.parameters()[p].name);
            }
        }
    }
}

#[test]
fn nothing_to_guess_is_no_loss() {
    let shape = shape(false);
    let network = BlockNetwork::new(shape.clone(), 8);
    let lm_head = Table::frozen(tensor(values(VOCAB * D, 5), [VOCAB, D]), Frozen::default()).unwrap();
    let config = BlockConfig::default();
    let criterion = Criterion { config: &config, lm_head: &lm_head, chunk_rows: 2 };
    let flat = |values: Vec<f32>| {
        let n = values.len();
        Tensor::<1>::from_data(TensorData::new(values, [n]), &Device::flex())
    };
    let weights: Vec<Tensor<1>> = start(&shape).into_iter().map(flat).collect();
    let empty = BlockBatch { labels: vec![vec![]; 4], ..batch() };
    let (outputs, zeros) = losses(&network, &criterion, &weights, &empty, Some(1.0));
    assert_eq!((outputs.len(), zeros.len()), (4, weights.len()));
    assert!(zeros.into_iter().all(|gradient| read(gradient).iter().all(|&v| v == 0.0)));
}

/// `w_k = Σ_{j ≥ k} Π_{i ≤ j} s_i`; without smoothing they are the slopes of the expected number of accepted drafts
/// against the logarithms of the slots' probabilities.
#[test]
fn slot_weights_are_their_formulas() {
    let q = [0.9f64, 0.5, 0.25, 0.8];
    let ce: Vec<f32> = q.iter().map(|q| -q.ln() as f32).collect();
    let close = |found: Vec<f32>, want: &[f64]| {
        assert_eq!(found.len(), want.len());
        found.iter().zip(want).for_each(|(a, b)| assert!((f64::from(*a) - b).abs() < 1e-6, "{found:?} {want:?}"));
    };
    for alpha in [0.0, 0.5, 1.0] {
        let config = BlockConfig { alpha, ..BlockConfig::default() };
        let s: Vec<f64> = q.iter().map(|q| (1.0 - alpha) * q + alpha).collect();
        let weight = |k: usize| (k..q.len()).map(|j| s[..=j].iter().product::<f64>()).sum::<f64>();
        close(slot_weights(&config, &ce), &(0..q.len()).map(weight).collect::<Vec<_>>());
    }
    let expected = |q: &[f64]| (0..q.len()).map(|j| q[..=j].iter().product::<f64>()).sum::<f64>();
    let slope = |k: usize| {
        let nudged = |by: f64| {
            let mut q = q;
            q[k] *= by.exp();
            expected(&q)
        };
        (nudged(1e-5) - nudged(-1e-5)) / 2e-5
    };
    let config = BlockConfig { alpha: 0.0, ..BlockConfig::default() };
    close(slot_weights(&config, &ce), &(0..q.len()).map(slope).collect::<Vec<_>>());
    let config = BlockConfig { slot_weights: SlotWeights::Exponential, gamma: 2.0, ..BlockConfig::default() };
    close(slot_weights(&config, &ce), &[1.0, (-0.5f64).exp(), (-1.0f64).exp(), (-1.5f64).exp()]);
    assert!(slot_weights(&config, &[]).is_empty());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let good = BlockConfig::default();
    assert!(good.check().is_ok());
    let said = |config: BlockConfig| config.check().unwrap_err().to_string();
    assert!(said(BlockConfig { layers: 0, ..good.clone() }).starts_with("block.layers = 0"));
    assert!(said(BlockConfig { slots: 1, ..good.clone() }).starts_with("block.block_size = 1"));
    assert!(said(BlockConfig { window: Some(8), ..good.clone() }).starts_with("block.window = 8"));
    assert!(said(BlockConfig { anchors: 0, ..good.clone() }).starts_with("block.anchors = 0"));
    assert!(said(BlockConfig { alpha: 1.5, ..good.clone() }).starts_with("block.alpha = 1.5"));
    let selector = |k: usize, rank: usize| BlockConfig { selector: Some(SelectorConfig { k, rank }), ..good.clone() };
    assert!(said(selector(1, 2)).starts_with("block.selector.k = 1"));
    assert!(said(selector(2, 0)).starts_with("block.selector.rank = 0"));
    assert!(said(BlockConfig { gamma: f64::NAN, ..good.clone() }).starts_with("block.gamma = NaN"));
    let hooks = |hooks: Vec<usize>| BlockConfig { hooks: Some(hooks), ..good.clone() };
    for bad in [vec![], vec![0, 1]] {
        assert!(said(hooks(bad)).starts_with("block.aux_hidden_state_layers = ["));
    }
}

/// The reference's layers, each one more, since they name layers that are left: 1 9 17 25 33 of 36.
#[test]
fn layers_are_the_references() {
    let decoder = crate::block::random::decoder();
    let of = |layers: usize, count: usize| {
        let mut backbone = decoder.config().clone();
        backbone.layers = layers;
        BlockConfig { layers: count, ..BlockConfig::default() }.shape(&backbone).unwrap().hooks
    };
    assert_eq!(of(36, 5), [2, 10, 18, 26, 34]);
    assert_eq!(of(36, 1), [19]);
    assert_eq!(of(6, 2), [1, 2, 3, 4, 5, 6]);
    let shape = |config: BlockConfig| config.shape(decoder.config()).unwrap_err().to_string();
    let beyond = BlockConfig { hooks: Some(vec![1, 3]), ..BlockConfig::default() };
    assert!(shape(beyond).contains("from 1 to 2, not 3"));
    let mask = BlockConfig { mask_token: Some(300), ..BlockConfig::default() };
    assert!(shape(mask).starts_with("block.mask_token = 300: the model has 300 tokens"));
    let default = BlockConfig::default().shape(decoder.config()).unwrap();
    assert_eq!(default.mask_token, 299);
}

/// A selector adds its loss and changes no other one; its tables get gradients of their own.
#[test]
fn a_selector_has_a_loss_beside_the_others() {
    let (plain, config) = (shape(false), BlockConfig::default());
    let with = BlockShape { selector: Some(SelectorConfig { k: 5, rank: 3 }), ..plain.clone() };
    let (before, _) = run(&plain, &config, &start(&plain), None);
    let (after, gradients) = run(&with, &config, &start(&with), Some(0.2));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.losses, &before.weights), (&after.losses, &after.weights));
        assert_eq!((before.selector_losses.len(), after.selector_losses.len()), (0, after.losses.len()));
        assert!(after.selector_losses.is_empty() || after.loss() > before.loss());
    }
    let parameters = with.parameters();
    assert_eq!(gradients.len(), parameters.len());
    for (gradient, spec) in gradients.into_iter().zip(&parameters).rev().take(3) {
        assert!(spec.name.starts_with("candidate_selector."));
        assert!(read(gradient).iter().any(|&value| value != 0.0), "{}", spec.name);
    }
}
