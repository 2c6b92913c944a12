//! Properties that must hold of the loss, whoever computes it.

use crate::eagle::random::{SHAPE, decoder, model, parameter, tensor, values};
use burn::tensor::Tensor;
use gorgon_draft::eagle::{Criterion, EagleBatch, EagleConfig, EagleNetwork, EagleShape, FeatureLayer, losses};
use gorgon_draft::layer::LayerShape;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::rope::{RopeConfig, RopeScaling};
use gorgon_model::target::read;

fn small(fc_bias: bool) -> EagleShape {
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
    EagleShape { layer, fc_bias }
}

fn batch(d: usize) -> EagleBatch {
    let feature_tokens = 11;
    EagleBatch {
        embedded: tensor(values(feature_tokens * d, 1), [feature_tokens, d]),
        features: tensor(values(feature_tokens * d, 2), [feature_tokens, d]),
        segments: vec![0..4, 4..5, 5..11],
        counted: vec![0, 3, 4, 7, 10],
        targets: tensor(values(5 * d, 3).into_iter().map(|v| v * 2.0).collect(), [5, d]),
    }
}

#[test]
fn gradients_are_slopes() {
    for fc_bias in [false, true] {
        let shape = small(fc_bias);
        let network = EagleNetwork::new(shape.clone(), 8);
        let (d, vocab) = (shape.layer.hidden_size, shape.layer.vocab_size);
        let lm_head = &(tensor(values(vocab * d, 5), [vocab, d]) * 2.0);
        let criterion = Criterion {
            lm_head: &Table::frozen(lm_head.clone(), Frozen::default()).unwrap(),
            cross_entropy: 0.7,
            chunk_rows: 2,
        };
        let (batch, scale) = (batch(d), 0.2f32);
        let parameters = shape.parameters();
        let start: Vec<Vec<f32>> = parameters.iter().enumerate().map(|(i, p)| parameter(i, p)).collect();
        let run = |weights: &[Vec<f32>]| {
            let flat = |w: &Vec<f32>| tensor(w.clone(), [1, w.len()]).reshape([w.len()]);
            let weights: Vec<Tensor<1>> = weights.iter().map(flat).collect();
            losses(&network, &criterion, &weights, &batch, Some(scale))
        };
        let loss = |weights: &[Vec<f32>]| {
            let (output, _) = run(weights);
            let feature_tokens = output.regression.iter().zip(&output.cross_entropy);
            feature_tokens.map(|(r, c)| f64::from(*r) + 0.7 * f64::from(*c)).sum::<f64>() * f64::from(scale)
        };
        let (_, gradients) = run(&start);
        for (p, gradient) in gradients.into_iter().enumerate() {
            for (i, g) in read(gradient).into_iter().enumerate().step_by(3) {
                let nudged = |by: f32| {
                    let mut moved = start.clone();
                    moved[p][i] += by;
                    loss(&moved)
                };
                let slope = (nudged(4e-3) - nudged(-4e-3)) / 8e-3;
                let off = (slope - f64::from(g)).abs();
                assert!(off < 3e-3 * (0.3 + slope.abs()), "{} [{i}]: {g}, {slope}", parameters[p].name);
            }
        }
    }
}

/// One sequence changes nothing about another's loss, and pairs that do not count have no loss.
#[test]
fn sequences_do_not_feel_each_other() {
    let shape = small(false);
    let network = EagleNetwork::new(shape.clone(), 8);
    let d = shape.layer.hidden_size;
    let lm_head = &tensor(values(shape.layer.vocab_size * d, 5), [shape.layer.vocab_size, d]);
    let criterion = Criterion {
        lm_head: &Table::frozen(lm_head.clone(), Frozen::default()).unwrap(),
        cross_entropy: 0.1,
        chunk_rows: 100,
    };
    let weights: Vec<Tensor<1>> = shape
        .parameters()
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let values = parameter(i, p);
            let n = values.len();
            tensor(values, [1, n]).reshape([n])
        })
        .collect();
    let of = |batch: &EagleBatch| losses(&network, &criterion, &weights, batch, None).0;
    let before = of(&batch(d));
    assert_eq!(before.regression.len(), 5);
    let mut other = batch(d);
    let mut features = values(11 * d, 2);
    features[4 * d..5 * d].fill(3.0);
    other.features = tensor(features, [11, d]);
    let after = of(&other);
    assert_eq!(before.regression[..2], after.regression[..2]);
    assert_ne!(before.regression[2], after.regression[2]);
    assert_eq!(before.regression[3..], after.regression[3..]);
    assert_eq!(before.cross_entropy[3..], after.cross_entropy[3..]);
    let nothing = EagleBatch { counted: vec![], targets: tensor(vec![], [0, d]), ..batch(d) };
    assert!(of(&nothing).ranks.is_empty());
    let (_, zeros) = losses(&network, &criterion, &weights, &nothing, Some(1.0));
    assert!(zeros.into_iter().all(|g| read(g).iter().all(|&v| v == 0.0)));
}

/// The layer that is fitted is the layer that decodes.
#[test]
fn the_fitted_network_is_the_decoding_one() {
    let decoder = decoder();
    let feature_tokens = 40;
    let d = SHAPE.hidden_size;
    for fc_bias in [false, true] {
        let shape = EagleShape::of(decoder.config(), fc_bias);
        let tokens: Vec<u32> = (0..feature_tokens as u32).map(|i| i * 37 % 300).collect();
        let features = tensor(values(feature_tokens * d, 9), [feature_tokens, d]);
        let weights: Vec<Tensor<1>> = shape
            .parameters()
            .iter()
            .enumerate()
            .map(|(i, p)| {
                let values = parameter(i, p);
                let n = values.len();
                tensor(values, [1, n]).reshape([n]).autodiff()
            })
            .collect();
        let network = EagleNetwork::new(shape, feature_tokens);
        let embedded = decoder.embed(&tokens).unwrap().into_tensor().reshape([feature_tokens, d]).autodiff();
        let fitted = network.predict(
            &weights,
            embedded,
            features.clone().autodiff(),
            std::slice::from_ref(&(0..feature_tokens)),
        );
        let model = model(&decoder, fc_bias);
        let mut cache = model.new_cache(4);
        let visible = AttentionMask::Causal { rows: feature_tokens };
        let decoded = model.forward(&tokens, &HiddenStates::from(features.unsqueeze()), &visible, &mut cache).unwrap();
        for (a, b) in read(fitted.inner()).iter().zip(&*decoded.into_values()) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    assert!(EagleConfig::default().check().is_ok());
    let bad = EagleConfig { noise: f64::NAN, ..EagleConfig::default() };
    assert!(bad.check().unwrap_err().to_string().starts_with("eagle.noise = NaN"));
    let bad = EagleConfig { cross_entropy: -1.0, ..EagleConfig::default() };
    assert!(bad.check().unwrap_err().to_string().starts_with("eagle.cross_entropy = -1"));
}
