//! Fitting Kangaroo's adapter: gradients are slopes, and neither threads, interruptions nor kept states change a bit.

use crate::on_backbone;

use gorgon_data::shard::Row;
use gorgon_draft::kangaroo::KangarooConfig;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::TrainConfig;
use gorgon_train::error::TrainError;
use gorgon_train::methods::{CacheRequest, FeatureCache, FeatureFormat, KangarooFitting, OnBackbone};
use gorgon_train::trainer::{Objective, fit};
use on_backbone::{assert_slopes, conversations, fitted, keeps_backbone, lm_head, loaded, training};
use std::sync::atomic::AtomicBool;

const CONFIG: KangarooConfig = KangarooConfig { exit_layer: 1, stop: 0.3 };

fn fitting(lm_head_value: Option<f32>) -> KangarooFitting {
    KangarooFitting::new(CONFIG, loaded(), lm_head(lm_head_value).into(), 16).unwrap()
}

#[test]
fn gradients_are_slopes() {
    let objective = fitting(None);
    assert_slopes(&objective, &on_backbone::stirred(objective.parameters(3)), 4);
}

#[test]
fn threads_interruptions_and_cached_states_change_no_bit() {
    let (dir, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objective = KangarooFitting::new(CONFIG, conversations(model.path()), lm_head(None).into(), 16).unwrap();
    let one = keeps_backbone(&objective, model.path(), || fitted(&objective, dir.path(), 1, None));
    assert_eq!(one, fitted(&objective, dir.path(), 3, None));
    assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    let mut cached = fitting(None);
    let of = |row: &Row| objective.positions(&row.example);
    let rows = [cached.data().rows.as_slice(), cached.data().held_out.as_slice()];
    let request = CacheRequest::new(&dir.path().join("features"), FeatureFormat::F32, serde_json::json!("rows"));
    let request = CacheRequest { hooks: cached.hooks(), ..request };
    let decoder = &cached.data().features.decoder;
    let cache = FeatureCache::open_or_build(&request, decoder, rows, of, &mut |_| ()).unwrap();
    cached.data_mut().features.cache = Some(cache);
    assert_eq!(one, fitted(&cached, dir.path(), 2, None));
}

#[test]
fn a_loss_that_is_no_number_names_shard_and_row() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunDir::create(dir.path(), "test").unwrap();
    let settings = training(3).settings(1, 0).unwrap();
    let objective = fitting(Some(f32::NAN));
    let error = fit(&objective, &run, &settings, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(matches!(error, TrainError::NotFinite { step: 0, .. }));
    let said = error.to_string();
    for word in ["shard-00042.parquet", "row ", "conversation-", "somewhere.jsonl line 10"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn settings_are_checked() {
    let of = |table: &str| {
        let text = format!(r#"{{"method": "kangaroo", "model": "m", "data": "d", "kangaroo": {table}}}"#);
        serde_json::from_str::<TrainConfig>(&text).unwrap().check().map_err(|error| error.to_string())
    };
    assert_eq!(of("{}"), Ok(()));
    assert!(of(r#"{"exit_layer": 0}"#).unwrap_err().starts_with("kangaroo.exit_layer = 0: "));
    assert!(of(r#"{"stop": 1.5}"#).unwrap_err().starts_with("kangaroo.stop = 1.5: "));
    let error = KangarooFitting::new(KangarooConfig { exit_layer: 2, ..CONFIG }, loaded(), lm_head(None).into(), 16);
    let said = error.err().unwrap().to_string();
    assert!(said.contains("kangaroo.exit_layer = 2: the model has 2 layers"), "{said}");
}
