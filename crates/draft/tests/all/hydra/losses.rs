//! Losses and gradients against those of PyTorch (`data/heads.py`), and the fitted heads against those that decode.

use crate::hydra::random::{SHAPE, decoder, kinds, model, shape, values};
use crate::reference::{File, SCALES, close, flat, layer, tensor};
use burn::tensor::{Device, Tensor};
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::hydra::{HydraConfig, HydraHeads, HydraShape};
use gorgon_draft::medusa::HeadLabels;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, read};

fn small(config: HydraConfig) -> HydraShape {
    HydraShape { config, layer: layer() }
}

#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    let file = File::open("hydra.safetensors");
    let plain = HydraConfig { heads: 3, ..HydraConfig::default() };
    let cases = [
        ("plain", plain),
        ("own", HydraConfig { blocks: 2, own_lm_heads: true, ..plain }),
        ("plus", HydraConfig { blocks: 4, prefix_attention: true, soft_targets: true, ..plain }),
    ];
    let lm_head = Table::frozen(tensor(file.floats("lm_head"), [20, 8]), Frozen::default()).unwrap();
    for (case, config) in cases {
        let shape = small(config);
        let weights: Vec<Tensor<1>> =
            shape.parameters().iter().map(|p| flat(file.floats(&format!("{case}.w.{}", p.name)))).collect();
        for chunk_rows in [2, 100] {
            let heads = HydraHeads::new(shape.clone(), 8, chunk_rows);
            let (fitted, gradients) = heads.losses(&weights, &lm_head, &file.batch(), Some(&SCALES));
            let (measured, none) = heads.losses(&weights, &lm_head, &file.batch(), None);
            assert!(none.is_empty());
            for k in 0..3 {
                close(&fitted[k].losses, &file.floats(&format!("{case}.loss.{k}")), case);
                close(&measured[k].losses, &file.floats(&format!("{case}.hard.{k}")), case);
            }
            for (gradient, p) in gradients.into_iter().zip(shape.parameters()) {
                close(&read(gradient), &file.floats(&format!("{case}.g.{}", p.name)), &format!("{case} {}", p.name));
            }
        }
    }
}

/// Blocks that are one block get the sum of their gradients, each of them; nothing else changes.
#[test]
fn tied_blocks_share_their_gradient() {
    let file = File::open("hydra.safetensors");
    let lm_head = Table::frozen(tensor(file.floats("lm_head"), [20, 8]), Frozen::default()).unwrap();
    let config =
        HydraConfig { heads: 3, blocks: 4, prefix_attention: true, soft_targets: true, ..HydraConfig::default() };
    let gradients = |tied_blocks: bool| {
        let shape = small(HydraConfig { tied_blocks, ..config });
        let weight = |name: &str| flat(file.floats(&format!("plus.w.{name}")));
        let weights: Vec<Tensor<1>> = shape.parameters().iter().map(|p| weight(&p.name)).collect();
        let heads = HydraHeads::new(shape.clone(), 8, 16);
        let found = heads.losses(&weights, &lm_head, &file.batch(), Some(&SCALES)).1;
        let named = found.into_iter().zip(shape.parameters()).map(|(g, p)| (p.name, read(g)));
        named.collect::<std::collections::BTreeMap<String, Vec<f32>>>()
    };
    let (free, tied) = (gradients(false), gradients(true));
    for (name, of_tied) in &tied {
        let at =
            [3, 5, 7].into_iter().find(|at| name.starts_with("hydra_mlp.") && name.contains(&format!(".{at}.linear")));
        let Some(at) = at else {
            assert_eq!(of_tied, &free[name], "{name}");
            continue;
        };
        let of = |other: usize| &free[&name.replace(&format!(".{at}.linear"), &format!(".{other}.linear"))];
        let sum: Vec<f32> = (0..of_tied.len()).map(|i| of(3)[i] + of(5)[i] + of(7)[i]).collect();
        assert_eq!(of_tied, &sum, "{name}");
    }
}

#[test]
fn without_labels_nothing_is_learnt() {
    for config in kinds() {
        let shape = small(config);
        let weights: Vec<Tensor<1>> = shape.parameters().iter().map(|p| flat(values(p))).collect();
        let heads = HydraHeads::new(shape, 8, 16);
        let file = File::open("hydra.safetensors");
        let batch = HeadBatch { labels: vec![HeadLabels::default(); 3], ..file.batch() };
        let lm_head = Table::frozen(tensor(file.floats("lm_head"), [20, 8]), Frozen::default()).unwrap();
        let (outputs, gradients) = heads.losses(&weights, &lm_head, &batch, Some(&SCALES));
        assert!(outputs.iter().all(|o| o.losses.is_empty()));
        assert_eq!(gradients.len(), weights.len());
        assert!(gradients.into_iter().all(|g| read(g).iter().all(|&v| v == 0.0)));
    }
}

/// The heads that are fitted are the heads that decode: losses of a text, from the logits after every path of it.
#[test]
fn the_fitted_heads_are_the_decoding_ones() {
    let decoder = decoder();
    let (d, vocab) = (SHAPE.hidden_size, SHAPE.vocab_size);
    let text: Vec<u32> = (0..30).map(|i| i * 37 % 300).collect();
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let hidden = target.prefill(&text).unwrap().hidden;
    let n = text.len() - 4;
    let embedded = |j: usize| decoder.embed(&text[j + 1..][..n]).unwrap().into_tensor().reshape([n, d]);
    let labels = |k: usize| HeadLabels { rows: (0..n as u32).collect(), tokens: text[k + 2..][..n].to_vec() };
    let batch = HeadBatch {
        states: hidden.narrow(0, n).into_tensor().reshape([n, d]),
        following: (0..3).map(embedded).collect(),
        segments: std::iter::once(0..n).collect(),
        labels: (0..3).map(labels).collect(),
    };
    // The LM head's rows, read off unit vectors.
    let unit = Tensor::<2>::eye(d, &Device::flex()).unsqueeze();
    let lm_head = Table::from(tensor(read(decoder.logits_tensor(&unit)), [d, vocab]).transpose());
    for config in kinds() {
        let shape = shape(&decoder, config);
        let weights: Vec<Tensor<1>> = shape.parameters().iter().map(|p| flat(values(p))).collect();
        let (outputs, _) = HydraHeads::new(shape, 40, 64).losses(&weights, &lm_head, &batch, None);
        let model = model(&decoder, config);
        let mut cache = model.new_cache();
        for t in 0..n {
            let state = model.state(&hidden.narrow(t, 1), cache.as_mut()).unwrap();
            for (k, output) in outputs.iter().enumerate() {
                let logits = model.logits(&state, k, &text[t + 1..=t + k + 1]).unwrap();
                let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
                let loss = sum.ln() - f64::from(logits[text[t + k + 2] as usize]);
                let fitted = f64::from(output.losses[t]);
                assert!((loss - fitted).abs() < 1e-3 * (1.0 + loss), "{config:?} head {k} at {t}: {loss} {fitted}");
            }
        }
    }
}
