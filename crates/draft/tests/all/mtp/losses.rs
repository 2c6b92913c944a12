//! Losses and gradients against those of PyTorch (`data/heads.py`), and the fitted modules against those that decode.

use crate::mtp::random::{SHAPE, decoder, load, model, shape, values, write};
use crate::reference::{File, SCALES, close, flat, layer, tensor};
use burn::tensor::{Device, Tensor};
use gorgon_draft::fitting::HeadBatch;
use gorgon_draft::medusa::HeadLabels;
use gorgon_draft::mtp::{MtpConfig, MtpHeads, MtpShape};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_kernels::{Frozen, Table};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, read};
use gorgon_model::weights::Checkpoint;
use std::sync::Arc;

fn small(depths: usize) -> MtpShape {
    MtpShape { config: MtpConfig { depths }, layer: layer(), first_layer: 2 }
}

#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    let file = File::open("mtp.safetensors");
    let lm_head = Table::frozen(tensor(file.floats("lm_head"), [20, 8]), Frozen::default()).unwrap();
    for (case, depths) in [("one", 1), ("three", 3)] {
        let shape = small(depths);
        let weights: Vec<Tensor<1>> =
            shape.parameters().iter().map(|p| flat(file.floats(&format!("{case}.w.{}", p.name)))).collect();
        let whole = file.batch();
        let batch = HeadBatch { labels: whole.labels[..depths].to_vec(), ..whole };
        for chunk_rows in [2, 100] {
            let heads = MtpHeads::new(shape.clone(), 8, chunk_rows);
            let (outputs, gradients) = heads.losses(&weights, &lm_head, &batch, Some(&SCALES[..depths]));
            for (k, output) in outputs.iter().enumerate() {
                close(&output.losses, &file.floats(&format!("{case}.loss.{k}")), case);
            }
            for (gradient, p) in gradients.into_iter().zip(shape.parameters()) {
                close(&read(gradient), &file.floats(&format!("{case}.g.{}", p.name)), &format!("{case} {}", p.name));
            }
            let (measured, none) = heads.losses(&weights, &lm_head, &batch, None);
            assert!(none.is_empty());
            assert_eq!(measured[0].losses, outputs[0].losses);
        }
    }
}

/// Tokens after a text's last label are seen by nothing that counts.
#[test]
fn pairs_beyond_the_end_do_not_matter() {
    let file = File::open("mtp.safetensors");
    let lm_head = Table::frozen(tensor(file.floats("lm_head"), [20, 8]), Frozen::default()).unwrap();
    let weights: Vec<Tensor<1>> = small(3).parameters().iter().enumerate().map(|(i, p)| flat(values(i, p))).collect();
    let heads = MtpHeads::new(small(3), 8, 16);
    let batch = file.batch();
    let mut other = file.batch();
    for (k, following) in other.following.iter_mut().enumerate() {
        // The last k rows of each sequence pair with tokens that the text does not have.
        let mut rows = read(following.clone());
        for row in (7 - k..7).chain(12 - k..12) {
            rows[row * 8..(row + 1) * 8].fill(3.0);
        }
        *following = tensor(rows, [12, 8]);
    }
    let of = |batch: &HeadBatch| heads.losses(&weights, &lm_head, batch, Some(&SCALES));
    let (before, after) = (of(&batch), of(&other));
    for (a, b) in before.0.iter().zip(&after.0) {
        assert_eq!(a.losses, b.losses);
    }
    for (a, b) in before.1.into_iter().zip(after.1) {
        close(&read(a), &read(b), "gradients");
    }
    let nothing = HeadBatch { labels: vec![HeadLabels::default(); 3], ..file.batch() };
    let (outputs, zeros) = of(&nothing);
    assert!(outputs.iter().all(|o| o.ranks.is_empty()));
    assert!(zeros.into_iter().all(|g| read(g).iter().all(|&v| v == 0.0)));
}

/// The modules that are fitted are the modules that decode.
#[test]
fn the_fitted_modules_are_the_decoding_ones() {
    let decoder = decoder();
    let (d, vocab, depths) = (SHAPE.hidden_size, SHAPE.vocab_size, 3);
    let text: Vec<u32> = (0..30).map(|i| i * 37 % 300).collect();
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let hidden = target.prefill(&text).unwrap().hidden.tensor();
    let n = text.len() - 4;
    let states = hidden.narrow(1, 0, n);
    let embedded = |j: usize| decoder.embed(&text[j + 1..][..n]).unwrap().into_tensor().reshape([n, d]);
    let labels = |k: usize| HeadLabels { rows: (0..n as u32).collect(), tokens: text[k + 2..][..n].to_vec() };
    let batch = HeadBatch {
        states: states.clone().reshape([n, d]),
        following: (0..depths).map(embedded).collect(),
        segments: std::iter::once(0..n).collect(),
        labels: (0..depths).map(labels).collect(),
    };
    // The LM head's rows, read off unit vectors.
    let unit = Tensor::<2>::eye(d, &Device::flex()).unsqueeze();
    let lm_head = Table::from(tensor(read(decoder.logits_tensor(&unit)), [d, vocab]).transpose());
    let shape = shape(&decoder, depths);
    let weights: Vec<Tensor<1>> = shape.parameters().iter().enumerate().map(|(i, p)| flat(values(i, p))).collect();
    let (outputs, _) = MtpHeads::new(shape, 40, 64).losses(&weights, &lm_head, &batch, None);
    let model = model(&decoder, depths);
    let mut states = HiddenStates::from(states);
    for (k, output) in outputs.iter().enumerate() {
        let visible = AttentionMask::Causal { rows: n };
        states = model.forward(k, &text[k + 1..][..n], &states, &visible, &mut model.new_cache(k)).unwrap();
        for (t, logits) in model.logits(&states).chunks_exact(vocab).enumerate() {
            let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
            let loss = sum.ln() - f64::from(logits[text[t + k + 2] as usize]);
            let fitted = f64::from(output.losses[t]);
            assert!((loss - fitted).abs() < 1e-3 * (1.0 + loss), "module {k} at {t}: {loss} {fitted}");
        }
    }
}

#[test]
fn modules_for_another_backbone_are_refused_in_a_line() {
    let decoder = decoder();
    let said = |change: &dyn Fn(&mut MtpShape)| {
        let dir = tempfile::tempdir().unwrap();
        let mut shape = shape(&decoder, 2);
        change(&mut shape);
        write(dir.path(), &shape, |tensors, _| {
            let (d, vocab) = (shape.layer.hidden_size, shape.layer.vocab_size);
            tensors.push(("model.layers.2.embed_tokens.weight".into(), vec![vocab, d], vec![0.0; vocab * d]));
        });
        load(dir.path(), &decoder).map(|_| ()).map_err(|error| {
            let error = error.to_string();
            assert!(error.contains(dir.path().to_str().unwrap()) && !error.contains('\n'), "{error}");
            error
        })
    };
    said(&|_| ()).unwrap();
    assert!(said(&|shape| shape.layer.intermediate_size = 20).unwrap_err().contains("20"));
    assert!(said(&|shape| shape.layer.vocab_size = 77).unwrap_err().contains("77"));
    assert!(MtpConfig::default().check().is_ok());
    assert_eq!(MtpConfig { depths: 0 }.check().unwrap_err().to_string(), "mtp.depths = 0: 1 to 8 can be trained");
}

/// Modules are published inside their backbone's checkpoint: one folder then is model and heads.
#[test]
fn modules_inside_their_backbone_load() {
    let (plain, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    SHAPE.write(plain.path(), FloatFormat::F32, 3).unwrap();
    let backbone = Checkpoint::open(plain.path()).unwrap();
    let shape = shape(&decoder(), 2);
    let both = |extra: bool| {
        write(dir.path(), &shape, |tensors, _| {
            for (name, entry) in backbone.entries() {
                tensors.push((name.clone(), entry.shape.clone(), backbone.read_all(name).unwrap()));
            }
            if extra {
                tensors.push(("model.layers.7.mlp.x".into(), vec![1], vec![0.0]));
            }
        });
        Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).map(Arc::new)
    };
    let decoder = both(false).unwrap();
    assert_eq!(load(dir.path(), &decoder).unwrap().modules(), 2);
    // A layer that is neither the backbone's nor a module is still unexpected.
    let error = both(true).unwrap_err().to_string();
    assert!(error.contains("model.layers.7.mlp.x"), "{error}");
}
