//! Fitting an EAGLE draft layer: gradients are slopes, and neither threads nor interruptions change a bit.

use crate::on_backbone;

use gorgon_data::render::Example;
use gorgon_data::shard::Row;
use gorgon_draft::eagle::{EagleConfig, EagleNetwork, EagleShape};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::{MethodConfig, TrainConfig};
use gorgon_train::error::TrainError;
use gorgon_train::methods::{EagleFitting, FeatureCache, OnBackbone};
use gorgon_train::trainer::{Objective, fit};
use on_backbone::{assert_slopes, fitted, lm_head, loaded, step, training};
use std::sync::atomic::AtomicBool;

fn fitting(lm_head_value: Option<f32>, noise: f64) -> EagleFitting {
    let data = loaded();
    EagleFitting {
        network: EagleNetwork::new(EagleShape::of(data.features.decoder.config(), true), 64),
        config: EagleConfig { fc_bias: true, noise, cross_entropy: 0.1 },
        lm_head: lm_head(lm_head_value).into(),
        chunk_rows: 16,
        seed: 3,
        data,
    }
}

/// Gradients are what the loss does; noise is the same whenever a step is asked for.
#[test]
fn gradients_are_slopes() {
    for noise in [0.0, 0.1] {
        let objective = fitting(None, noise);
        assert_slopes(&objective, &objective.parameters(3), 4);
    }
    assert_ne!(
        step(&fitting(None, 0.1), &fitting(None, 0.1).parameters(3), 4).0,
        step(&fitting(None, 0.0), &fitting(None, 0.0).parameters(3), 4).0
    );
}

#[test]
fn threads_interruptions_and_cached_states_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(None, 0.1);
    let one = fitted(&objective, dir.path(), 1, None);
    assert_eq!(one, fitted(&objective, dir.path(), 3, None));
    assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    let mut cached = fitting(None, 0.1);
    let of = |row: &Row| objective.positions(&row.example);
    let rows = [cached.data.rows.as_slice(), cached.data.held_out.as_slice()];
    let path = dir.path().join("features.f32");
    let cache = FeatureCache::build(&path, &cached.data.features.decoder, rows, of, &mut |_| ()).unwrap();
    cached.data.features.cache = Some(cache);
    assert_eq!(one, fitted(&cached, dir.path(), 2, None));
}

/// Everything is read up to the feature at the last token before the assistant's last one.
#[test]
fn positions_reach_to_the_last_feature_that_is_guessed() {
    let objective = fitting(None, 0.0);
    let example = |mask: &[u8]| Example {
        ids: (0..mask.len() as u32).collect(),
        assistant: mask.iter().map(|&own| own == 1).collect(),
        corrected: None,
    };
    assert_eq!(objective.positions(&example(&[0, 0, 0, 0, 1, 1, 1, 0, 0])), [0, 1, 2, 3, 4, 5]);
    assert_eq!(objective.positions(&example(&[0, 1, 1])), [0, 1]);
    assert!(objective.positions(&example(&[0, 0, 1])).is_empty());
    assert!(objective.positions(&example(&[0, 1])).is_empty());
    assert!(objective.positions(&example(&[0, 0, 0])).is_empty());
}

#[test]
fn a_loss_that_is_no_number_names_shard_and_row() {
    let objective = fitting(Some(f32::NAN), 0.1);
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

/// The paper's optimizer settings are EAGLE's defaults; what a config says goes first.
#[test]
fn defaults_are_the_papers() {
    let config = |method: &str, more: &str| -> TrainConfig {
        let text = format!(r#"{{"method": "{method}", "model": "m", "data": "d", "training": {{{more}}}}}"#);
        serde_json::from_str::<TrainConfig>(&text).unwrap().resolved()
    };
    let eagle = config("eagle", "");
    let settings = eagle.training.settings(10, 0).unwrap();
    assert_eq!((settings.schedule.peak, settings.max_grad_norm), (3e-5, 0.5));
    assert_eq!((eagle.training.learning_rate, eagle.training.betas), (Some(3e-5), (0.9, 0.95)));
    let MethodConfig::Eagle { eagle } = eagle.method else { panic!("another method") };
    assert_eq!((eagle.noise, eagle.cross_entropy, eagle.fc_bias), (0.1, 0.1, false));
    assert_eq!(config("eagle", r#""learning_rate": 1e-3"#).training.learning_rate, Some(1e-3));
    assert_eq!(config("medusa", "").training.learning_rate, Some(1e-3));
    assert_eq!(config("medusa", "").training.max_grad_norm, Some(1.0));
}
