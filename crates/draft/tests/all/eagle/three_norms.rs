//! EAGLE-3.1 and its kin: norms in front of `fc`, and on what the next step reads.

use crate::eagle::random::{SHAPE, decoder, load_three, values, vocabulary, write_three};
use gorgon_core::Token;
use gorgon_draft::eagle::FeatureLayer;
use gorgon_draft::eagle::three::Eagle3Model;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use serde_json::{Value, json};
use std::sync::Arc;

const D: usize = SHAPE.hidden_size;
const ROWS: usize = 4;
const TOKENS: [Token; ROWS] = [12, 99, 3, 250];
/// Defaults of configs that do not mention norms.
const EPS: f64 = 1e-6;

type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

/// Values around one, another list for each `seed`.
fn weights(n: usize, seed: usize) -> Vec<f32> {
    values(n, seed).into_iter().map(|value| 1.0 + 0.5 * value).collect()
}

fn model(decoder: &Arc<Decoder>, norms: &[(&str, Vec<f32>)], flags: &[&str]) -> Eagle3Model {
    let dir = tempfile::tempdir().unwrap();
    write_three(dir.path(), decoder, &vocabulary(SHAPE.vocab_size), |tensors: &mut Tensors, _, config: &mut Value| {
        tensors.extend(norms.iter().map(|(name, values)| ((*name).to_owned(), vec![values.len()], values.clone())));
        config["rms_norm_eps"] = json!(EPS);
        flags.iter().for_each(|flag| config[*flag] = json!(true));
        // Only layers named as ModelOpt's have a norm on all hooked states.
        if flags.contains(&"norm_before_fc") {
            tensors.iter_mut().for_each(|(name, _, _)| *name = name.replace("midlayer.", "layers.0."));
        }
    });
    load_three(dir.path(), decoder).unwrap()
}

fn rows(values: &[f32]) -> HiddenStates {
    HiddenStates::Host { values: values.iter().copied().collect(), width: values.len() / ROWS }
}

fn normed(values: &[f32], weight: &[f32]) -> Vec<f32> {
    let row = |row: &[f32]| {
        let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (mean + EPS).sqrt();
        row.iter().zip(weight).map(|(x, w)| (f64::from(*x) * scale * f64::from(*w)) as f32).collect::<Vec<_>>()
    };
    values.chunks_exact(weight.len()).flat_map(row).collect()
}

fn close(found: &[f32], want: &[f32]) {
    assert_eq!(found.len(), want.len());
    for (found, want) in found.iter().zip(want) {
        assert!((found - want).abs() < 2e-5 * want.abs().max(1.0), "{found} and {want}");
    }
}

#[test]
fn taps_are_normed_one_by_one_or_together() {
    let decoder = decoder();
    let hooks: Vec<Vec<f32>> = (0..3).map(|hook| values(ROWS * D, 40 + hook)).collect();
    let states = |hooks: &[Vec<f32>]| hooks.iter().map(|hook| rows(hook)).collect::<Vec<_>>();
    let fused = |model: &Eagle3Model, hooks: &[Vec<f32>]| model.fuse(&states(hooks)).into_values();
    let plain = model(&decoder, &[], &[]);
    let each: Vec<Vec<f32>> = (0..3).map(|hook| weights(D, 50 + hook)).collect();
    let by_hand: Vec<Vec<f32>> = hooks.iter().zip(&each).map(|(hook, weight)| normed(hook, weight)).collect();
    let names = ["fc_norm.0.weight", "fc_norm.1.weight", "fc_norm.2.weight"];
    let norms: Vec<(&str, Vec<f32>)> = names.into_iter().zip(each).collect();
    close(&fused(&model(&decoder, &norms, &["fc_norm"]), &hooks), &fused(&plain, &by_hand));
    let together = weights(3 * D, 60);
    let side_by_side = normed(&HiddenStates::concat_columns(&states(&hooks)).into_values(), &together);
    let part = |hook: usize| side_by_side.chunks_exact(3 * D).flat_map(|row| &row[hook * D..][..D]).copied().collect();
    let by_hand: Vec<Vec<f32>> = (0..3).map(part).collect();
    let model = model(&decoder, &[("input_norm.weight", together)], &["norm_before_fc"]);
    close(&fused(&model, &hooks), &fused(&plain, &by_hand));
}

#[test]
fn normed_outputs_are_handed_on_and_not_normed_again() {
    let decoder = decoder();
    let (plain, model) = (model(&decoder, &[], &[]), model(&decoder, &[], &["norm_output"]));
    let step = |model: &Eagle3Model| {
        let mut cache = model.new_cache(ROWS);
        FeatureLayer::forward(
            model,
            &TOKENS,
            &rows(&values(ROWS * D, 70)),
            &AttentionMask::Causal { rows: ROWS },
            &mut cache,
        )
        .unwrap()
    };
    let (before, after) = (step(&plain), step(&model));
    let norm = norm_weight(&decoder);
    close(&after.clone().into_values(), &normed(&before.clone().into_values(), &norm));
    close(&model.logits(&after), &plain.logits(&before));
}

/// The layer's last norm, as it is written.
fn norm_weight(decoder: &Arc<Decoder>) -> Vec<f32> {
    let (dir, mut found) = (tempfile::tempdir().unwrap(), vec![]);
    write_three(dir.path(), decoder, &vocabulary(SHAPE.vocab_size), |tensors, _, _| {
        found = tensors.iter().find(|(name, _, _)| name == "norm.weight").unwrap().2.clone();
    });
    found
}
