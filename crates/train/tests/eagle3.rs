//! Fitting an EAGLE-3 draft layer: gradients are slopes, and neither threads nor interruptions change a bit.

mod setting;

use gorgon_data::shard::Row;
use gorgon_draft::eagle::three::Eagle3Config;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::TrainConfig;
use gorgon_train::error::TrainError;
use gorgon_train::heads::{Eagle3Fitting, FeatureCache, OnBackbone};
use gorgon_train::trainer::{Objective, fit};
use setting::{SHAPE, check_slopes, conversations, fitted, lm_head, training};
use std::sync::atomic::AtomicBool;

/// Three steps over the greater part of the tokens.
fn fitting(lm_head_value: Option<f32>, draft_vocab: usize) -> Eagle3Fitting {
    let config = Eagle3Config { steps: 3, draft_vocab, ..Eagle3Config::default() };
    Eagle3Fitting::new(config, conversations(), lm_head(lm_head_value), 16).unwrap()
}

#[test]
fn gradients_are_slopes() {
    for draft_vocab in [150, 10_000] {
        check_slopes(&fitting(None, draft_vocab));
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
    let path = dir.path().join("features.f32");
    let features = &cached.data().features;
    let cache = FeatureCache::build_tapped(&path, features, &cached.taps(), rows, of, &mut |_| ()).unwrap();
    cached.data_mut().features.cache = Some(cache);
    assert_eq!(one, fitted(&cached, dir.path(), 2, None));
}

/// What can be drafted are the most frequent tokens of the answers that are fitted to, and is written with every checkpoint.
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
        let evaluation = objective.evaluate(&objective.parameters(3)).unwrap();
        let metric = |key: &str| evaluation.metrics[key].as_f64().unwrap();
        assert!(metric("top1") <= metric("draftable") && metric("tau") >= 1.0, "{:?}", evaluation.metrics);
        assert_eq!(evaluation.metrics["step_loss"].as_array().unwrap().len(), 3);
        metric("draftable")
    };
    assert_eq!(covered(10_000), 1.0);
    assert!(covered(40) < 1.0);
}

/// A run goes on with the vocabulary it began with, or not at all.
#[test]
fn a_checkpoint_with_another_vocabulary_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings = training(2).settings(1, 0).unwrap();
    fit(&fitting(None, 150), &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap();
    let mut other = conversations();
    other.rows.iter_mut().for_each(|row| row.example.ids.iter_mut().for_each(|id| *id = *id / 2 + 100));
    let config = Eagle3Config { steps: 3, draft_vocab: 150, ..Eagle3Config::default() };
    let other = Eagle3Fitting::new(config, other, lm_head(None), 16).unwrap();
    let error = fit(&other, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("d2t") && error.contains("data"), "{error}");
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
    let config = Eagle3Config { taps: Some(vec![0, 1, 3]), ..Eagle3Config::default() };
    let error = Eagle3Fitting::new(config, conversations(), lm_head(None), 16).err().unwrap().to_string();
    assert!(error.contains("eagle3.taps = [0, 1, 3]") && error.contains("2 layers"), "{error}");
}

/// The paper's settings are the defaults; what a config says goes first.
#[test]
fn defaults_are_the_papers() {
    let text = r#"{"method": "eagle3", "model": "m", "data": "d", "eagle3": {"steps": 5}}"#;
    let config = serde_json::from_str::<TrainConfig>(text).unwrap().resolved();
    assert_eq!((config.eagle3.steps, config.eagle3.decay, config.eagle3.draft_vocab), (5, 0.8, 32_000));
    assert_eq!((config.training.learning_rate, config.training.clip_norm), (Some(5e-5), Some(0.5)));
    assert_eq!(config.method.name(), "eagle3");
}
