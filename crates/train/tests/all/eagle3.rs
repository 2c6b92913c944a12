//! Fitting an EAGLE-3 draft layer: gradients are slopes, and neither threads nor interruptions change a bit.

use crate::on_backbone;

use gorgon_data::shard::Row;
use gorgon_draft::eagle::three::Eagle3Config;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::read;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::{MethodConfig, TrainConfig};
use gorgon_train::error::TrainError;
use gorgon_train::evaluation::Metrics;
use gorgon_train::methods::{CacheRequest, Eagle3Fitting, FeatureCache, FeatureFormat, Features, OnBackbone};
use gorgon_train::trainer::{Objective, fit};
use on_backbone::{SHAPE, assert_slopes, fitted, lm_head, loaded, training};
use serde_json::json;
use std::sync::atomic::AtomicBool;

/// Three steps over the greater part of the tokens.
fn fitting(lm_head_value: Option<f32>, draft_vocab: usize) -> Eagle3Fitting {
    let config = Eagle3Config { steps: 3, draft_vocab, ..Eagle3Config::default() };
    Eagle3Fitting::new(config, loaded(), lm_head(lm_head_value).into(), None, 16).unwrap()
}

#[test]
fn gradients_are_slopes() {
    for draft_vocab in [150, 10_000] {
        let objective = fitting(None, draft_vocab);
        assert_slopes(&objective, &objective.parameters(3), 4);
    }
}

#[test]
fn threads_interruptions_and_cached_states_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(None, 150);
    let one = fitted(&objective, dir.path(), 1, None);
    assert_eq!(one, fitted(&objective, dir.path(), 3, None));
    assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    let mut cached = fitting(None, 150);
    let of = |row: &Row| objective.positions(&row.example);
    let rows = [cached.data().rows.as_slice(), cached.data().held_out.as_slice()];
    let features = &cached.data().features;
    let folder = dir.path().join("features");
    let request = CacheRequest::new(&folder, FeatureFormat::F32, json!({"of": "a test"}));
    let request = CacheRequest { hooks: cached.hooks(), ..request };
    let cache = FeatureCache::open_or_build(&request, &features.decoder, rows, of, &mut |_| ()).unwrap();
    let other = CacheRequest { hooks: Hooks::new(vec![0, 0, 1], SHAPE.layers).unwrap(), ..request };
    let refused =
        FeatureCache::open_or_build(&other, &features.decoder, rows, of, &mut |_| ()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("states of something else"), "{refused}");
    cached.data_mut().features.cache = Some(cache);
    assert_eq!(one, fitted(&cached, dir.path(), 2, None));
    let features = &cached.data().features;
    let positions = cached.positions(&cached.data().rows[0].example);
    let refused = features.states(&cached.data().rows[0], false, 0, &positions).unwrap_err();
    assert!(refused.to_string().contains("are of layers"), "{refused}");
}

/// Each state has a scale of its own, so that large ones do not take the others' bits.
#[test]
fn tapped_states_are_kept_within_their_precision() {
    let objective = fitting(None, 150);
    let (data, hooks) = (objective.data(), objective.hooks());
    let of = |row: &Row| objective.positions(&row.example);
    let rows = [data.rows.as_slice(), data.held_out.as_slice()];
    let exact = |index: usize| {
        let row = &data.rows[index];
        read(data.features.hooked(row, false, index, &of(row), &hooks).unwrap())
    };
    for (format, bound) in [(FeatureFormat::Bf16, 1.0 / 256.0), (FeatureFormat::Int8, 0.5 / 127.0)] {
        let dir = tempfile::tempdir().unwrap();
        let request = CacheRequest::new(dir.path(), format, json!({"of": "a test"}));
        let request = CacheRequest { hooks: hooks.clone(), shard_bytes: 4000, ..request };
        let cache = FeatureCache::open_or_build(&request, &data.features.decoder, rows, of, &mut |_| ()).unwrap();
        assert!(cache.files() > 1);
        let kept = Features { decoder: data.features.decoder.clone(), cache: Some(cache) };
        for (index, row) in data.rows.iter().enumerate() {
            let back = read(kept.hooked(row, false, index, &of(row), &hooks).unwrap());
            let exact = exact(index);
            assert_eq!(exact.len(), back.len());
            for (state, back) in exact.chunks(SHAPE.hidden_size).zip(back.chunks(SHAPE.hidden_size)) {
                let most = state.iter().fold(0f32, |most, v| most.max(v.abs()));
                let off = state.iter().zip(back).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off <= bound * most * 1.001, "{}: {off} of {most}", format.name());
            }
        }
    }
}

/// The draft vocabulary is the most frequent tokens of the answers in training, and is written with every
/// checkpoint.
#[test]
fn the_draft_vocabulary_is_that_of_the_answers() {
    let objective = fitting(None, 40);
    let mut counts = vec![0; SHAPE.vocab_size];
    for row in &objective.data().rows {
        let own = row.example.ids.iter().zip(&row.example.assistant).filter(|(_, own)| **own);
        own.for_each(|(&token, _)| counts[token as usize] += 1);
    }
    let tokens = objective.vocabulary().tokens();
    assert_eq!(tokens.len(), 40);
    let least = tokens.iter().map(|&token| counts[token as usize]).min();
    let outside = |token: &u32| !tokens.contains(token);
    let most = (0..SHAPE.vocab_size as u32).filter(outside).map(|token| counts[token as usize]).max();
    assert!(least >= most && most > Some(0), "{least:?} {most:?}");
    let names: Vec<String> = objective.constants().into_iter().map(|stored| stored.name).collect();
    assert_eq!(names, ["d2t", "t2d"]);
    assert!(fitting(None, 10_000).constants().is_empty(), "nothing to map where every token can be drafted");
}

/// Tokens that cannot be drafted have no loss, and count as wrong.
#[test]
fn a_smaller_vocabulary_covers_less() {
    let covered = |draft_vocab| {
        let objective = fitting(None, draft_vocab);
        let metrics = objective.evaluate(&objective.parameters(3)).unwrap().metrics;
        let Metrics::Eagle3(eagle3) = &metrics else { panic!("{metrics:?}") };
        assert!(eagle3.top1 <= eagle3.draftable && metrics.tau().unwrap() >= 1.0, "{metrics:?}");
        assert_eq!(eagle3.step_loss.len(), 3);
        eagle3.draftable
    };
    assert_eq!(covered(10_000), 1.0);
    assert!(covered(40) < 1.0);
}

/// A run resumes with the vocabulary it began with, or not at all.
#[test]
fn a_checkpoint_with_another_vocabulary_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings = training(2).settings(1, 0).unwrap();
    fit(&fitting(None, 150), &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap();
    let mut other = loaded();
    other.rows.iter_mut().for_each(|row| row.example.ids.iter_mut().for_each(|id| *id = *id / 2 + 100));
    let config = Eagle3Config { steps: 3, draft_vocab: 150, ..Eagle3Config::default() };
    let other = Eagle3Fitting::new(config, other, lm_head(None).into(), None, 16).unwrap();
    let error = fit(&other, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("d2t") && error.contains("data"), "{error}");
}

/// Other answers have other frequent tokens; a layer that is fitted further keeps its own.
#[test]
fn a_vocabulary_that_is_given_stays() {
    let config = Eagle3Config { steps: 3, draft_vocab: 150, ..Eagle3Config::default() };
    let first = fitting(None, 150);
    let mut data = loaded();
    data.rows.iter_mut().for_each(|row| row.example.ids.iter_mut().for_each(|id| *id = *id / 2 + 100));
    let given = Some(first.vocabulary().clone());
    let second = Eagle3Fitting::new(config, data, lm_head(None).into(), given, 16).unwrap();
    assert_eq!((second.vocabulary(), second.constants()), (first.vocabulary(), first.constants()));
}

#[test]
fn a_loss_that_is_no_number_names_shard_and_row() {
    let objective = fitting(Some(f32::NAN), 10_000);
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings = training(3).settings(1, 0).unwrap();
    let error = fit(&objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { step: 0, .. }));
    let said = error.to_string();
    for word in ["shard-00042.parquet", "row ", "conversation-", "somewhere.jsonl line 10"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn layers_that_the_backbone_has_not_are_refused() {
    let config = Eagle3Config { hooks: Some(vec![0, 1, 3]), ..Eagle3Config::default() };
    let error = Eagle3Fitting::new(config, loaded(), lm_head(None).into(), None, 16).err().unwrap().to_string();
    assert!(error.contains("eagle3.aux_hidden_state_layers = [0, 1, 3]") && error.contains("2 layers"), "{error}");
}

/// The paper's settings are the defaults; what a config says goes first.
#[test]
fn defaults_are_the_papers() {
    let text = r#"{"method": "eagle3", "model": "m", "data": "d", "eagle3": {"steps": 5}}"#;
    let config = serde_json::from_str::<TrainConfig>(text).unwrap().resolved();
    let MethodConfig::Eagle3 { eagle3 } = &config.method else { panic!("another method") };
    assert_eq!((eagle3.steps, eagle3.decay, eagle3.draft_vocab), (5, 0.8, 32_000));
    assert_eq!((config.training.learning_rate, config.training.max_grad_norm), (Some(5e-5), Some(0.5)));
    assert_eq!(config.method.name(), "eagle3");
}
