//! Properties that must hold of EAGLE-3's unrolled network and its loss, whoever computes them.

use crate::eagle::random::{SHAPE, decoder, flat, model_three, parameter, tensor, values, vocabulary};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_draft::eagle::FeatureLayer;
use gorgon_draft::eagle::three::{
    Criterion, Eagle3Batch, Eagle3Config, Eagle3Network, Eagle3Shape, Eagle3Step, Unrolled, losses,
};
use gorgon_draft::layer::LayerShape;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::rope::{RopeConfig, RopeScaling};
use gorgon_model::target::read;

const ROWS: usize = 11;
const VOCAB: usize = 14;

fn small() -> Eagle3Shape {
    let layer = LayerShape {
        hidden_size: 8,
        intermediate_size: 12,
        heads: 2,
        kv_heads: 1,
        head_dim: 6,
        vocab_size: 20,
        max_positions: 32,
        norm_eps: 1e-5,
        rope: RopeConfig { theta: 100.0, rotary_dim: 6, scaling: RopeScaling::Linear { factor: 2.0 } },
    };
    Eagle3Shape { layer, hooks: vec![0, 2], draft_vocab: VOCAB }
}

fn batch() -> Eagle3Batch {
    let d = small().layer.hidden_size;
    let step = |(i, counted): (usize, Vec<u32>)| {
        let n = counted.len();
        Eagle3Step {
            embedded: tensor(values(ROWS * d, 5 + i), [ROWS, d]),
            counted,
            targets: tensor(values(n * d, 9 + i).into_iter().map(|v| v * 2.0).collect(), [n, d]),
        }
    };
    let counted = [vec![0, 3, 4, 7, 10], vec![], vec![2, 5, 6]];
    Eagle3Batch {
        hooks: tensor(values(ROWS * 2 * d, 2), [ROWS, 2 * d]),
        segments: vec![0..4, 4..5, 5..11],
        steps: counted.into_iter().enumerate().map(step).collect(),
    }
}

fn start() -> Vec<Vec<f32>> {
    small().parameters().iter().enumerate().map(|(i, p)| parameter(i, p)).collect()
}

#[test]
fn gradients_are_slopes() {
    let (shape, scales) = (small(), [0.3f32, 0.2, 0.1]);
    let network = Eagle3Network::new(shape.clone(), 8, 3);
    let lm_head = &(tensor(values(VOCAB * 8, 5), [VOCAB, 8]) * 2.0);
    let (batch, criterion) =
        (batch(), Criterion { lm_head: &Table::frozen(lm_head.clone(), Frozen::default()).unwrap(), chunk_rows: 2 });
    let run = |weights: &[Vec<f32>]| {
        let weights: Vec<Tensor<1>> = weights.iter().cloned().map(flat).collect();
        losses(&network, &criterion, &weights, &batch, Some(&scales))
    };
    let loss = |weights: &[Vec<f32>]| {
        let (outputs, _) = run(weights);
        let step = |(output, scale): (&gorgon_draft::eagle::three::Eagle3Output, &f32)| {
            output.losses.iter().map(|&l| f64::from(l)).sum::<f64>() * f64::from(*scale)
        };
        outputs.iter().zip(&scales).map(step).sum::<f64>()
    };
    let start = start();
    let (outputs, gradients) = run(&start);
    assert_eq!(outputs.iter().map(|o| o.losses.len()).collect::<Vec<_>>(), [5, 0, 3]);
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

/// One sequence changes nothing about another's loss; where nothing counts there is no loss.
#[test]
fn sequences_do_not_feel_each_other() {
    let network = Eagle3Network::new(small(), 8, 3);
    let lm_head = &tensor(values(VOCAB * 8, 5), [VOCAB, 8]);
    let criterion = Criterion { lm_head: &Table::frozen(lm_head.clone(), Frozen::default()).unwrap(), chunk_rows: 100 };
    let weights: Vec<Tensor<1>> = start().into_iter().map(flat).collect();
    let of = |batch: &Eagle3Batch| losses(&network, &criterion, &weights, batch, None).0;
    let before = of(&batch());
    let mut other = batch();
    let mut hooks = values(ROWS * 16, 2);
    hooks[4 * 16..5 * 16].fill(3.0);
    other.hooks = tensor(hooks, [ROWS, 16]);
    let after = of(&other);
    assert_eq!(before[0].losses[..2], after[0].losses[..2]);
    assert_ne!(before[0].losses[2], after[0].losses[2]);
    assert_eq!(before[0].losses[3..], after[0].losses[3..]);
    assert_eq!(before[2].losses, after[2].losses);
    let mut nothing = batch();
    for step in &mut nothing.steps {
        (step.counted, step.targets) = (vec![], tensor(vec![], [0, 8]));
    }
    assert!(of(&nothing).iter().all(|output| output.ranks.is_empty()));
    let (_, zeros) = losses(&network, &criterion, &weights, &nothing, Some(&[1.0; 3]));
    assert!(zeros.len() == 13 && zeros.into_iter().all(|g| read(g).iter().all(|&v| v == 0.0)));
}

/// The layer that is fitted is the layer that drafts: row `t` of step `i` is what a chain of `i` drafts after position
/// `t` gives.
#[test]
fn the_unrolled_network_is_the_drafting_one() {
    let (decoder, feature_tokens, steps) = (decoder(), 12, 4);
    let (d, draft_vocab) = (SHAPE.hidden_size, vocabulary(SHAPE.vocab_size).len());
    let shape = Eagle3Shape::of(decoder.config(), vec![1, 1, 2], draft_vocab);
    let weights: Vec<Tensor<1>> =
        shape.parameters().iter().enumerate().map(|(i, p)| flat(parameter(i, p)).autodiff()).collect();
    let network = Eagle3Network::new(shape, feature_tokens, steps);
    let tokens: Vec<Token> = (0..(feature_tokens + steps) as Token).map(|i| i * 37 % 300).collect();
    let hooks = tensor(values(feature_tokens * 3 * d, 9), [feature_tokens, 3 * d]);
    let (mut states, mut before) = (network.fuse(&weights, &hooks.clone().autodiff()), Unrolled::default());
    let model = model_three(&decoder);
    let hook = |hook: usize| HiddenStates::from(hooks.clone().narrow(1, hook * d, d).unsqueeze());
    let fused = model.fuse(&[hook(0), hook(1), hook(2)]);
    let mut unrolled = vec![];
    for step in 0..steps {
        let embedded = decoder.embed(&tokens[step..step + feature_tokens]).unwrap().into_tensor();
        let embedded = embedded.reshape([feature_tokens, d]).autodiff();
        states = network.step(&weights, embedded, states, std::slice::from_ref(&(0..feature_tokens)), &mut before);
        unrolled.push(read(states.clone().inner()));
    }
    for t in 0..feature_tokens {
        let mut cache = model.new_cache(4);
        let visible = AttentionMask::Causal { rows: t + 1 };
        let all = model.forward(&tokens[..=t], &fused.narrow(0, t + 1), &visible, &mut cache).unwrap();
        cache.commit(&(0..=t).collect::<Vec<_>>()).unwrap();
        let mut state = all.narrow(t, 1);
        for (step, row) in unrolled.iter().enumerate() {
            if step > 0 {
                let path: Vec<usize> = (0..step).collect();
                let visible = AttentionMask::after(step - 1, [path.as_slice()]);
                state = model.forward(&tokens[t + step..=t + step], &state, &visible, &mut cache).unwrap();
            }
            for (a, b) in row[t * d..(t + 1) * d].iter().zip(&*state.clone().into_values()) {
                assert!((a - b).abs() < 1e-4, "row {t}, step {step}: {a} {b}");
            }
        }
        cache.roll_back();
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let good = Eagle3Config::default();
    assert!(good.check().is_ok());
    assert_eq!((good.steps, good.decay, good.weight(2)), (7, 0.8, 0.8f64 * 0.8));
    let said = |config: Eagle3Config| config.check().unwrap_err().to_string();
    assert!(said(Eagle3Config { steps: 0, ..good.clone() }).starts_with("eagle3.steps = 0"));
    assert!(said(Eagle3Config { decay: f64::NAN, ..good.clone() }).starts_with("eagle3.decay = NaN"));
    assert!(said(Eagle3Config { draft_vocab: 0, ..good.clone() }).starts_with("eagle3.draft_vocab = 0"));
    assert!(
        said(Eagle3Config { hooks: Some(vec![]), ..good.clone() }).starts_with("eagle3.aux_hidden_state_layers = []")
    );
    let beyond = Eagle3Config { hooks: Some(vec![1, 2, 9]), ..good.clone() };
    assert!(beyond.hooks_of(8).unwrap_err().to_string().contains("from 0 to 8, not 9"));
    for (layers, hooks) in
        [(32, [2, 16, 29]), (7, [2, 3, 4]), (6, [1, 3, 5]), (4, [1, 2, 3]), (2, [1, 1, 2]), (1, [1, 1, 1])]
    {
        assert_eq!(good.hooks_of(layers).unwrap(), hooks);
    }
}
