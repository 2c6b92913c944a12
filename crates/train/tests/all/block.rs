//! Fitting a block drafter: gradients are slopes, and neither threads nor interruptions change a bit.

use crate::on_backbone;

use gorgon_data::pack::Packing;
use gorgon_data::shard::Row;
use gorgon_draft::block::{BlockConfig, SelectorConfig, SlotWeights};
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::{MethodConfig, TrainConfig};
use gorgon_train::error::TrainError;
use gorgon_train::evaluation::Metrics;
use gorgon_train::methods::{BlockFitting, CacheRequest, FeatureCache, FeatureFormat, OnBackbone};
use gorgon_train::trainer::{Objective, fit};
use on_backbone::{assert_slopes, fitted, lm_head, loaded, stirred, training};
use serde_json::json;
use std::sync::atomic::AtomicBool;

fn config(anchors: usize) -> BlockConfig {
    BlockConfig { layers: 2, slots: 4, anchors, mask_token: Some(255), ..BlockConfig::default() }
}

fn fitting(config: BlockConfig) -> BlockFitting {
    BlockFitting::new(config, loaded(), lm_head(None).into(), 16, 3).unwrap()
}

#[test]
fn gradients_are_slopes() {
    // D-PACE's weights move with the parameters, and no gradient goes through them.
    let fixed = |anchors| BlockConfig { slot_weights: SlotWeights::Exponential, ..config(anchors) };
    let narrow = BlockConfig { causal: true, window: Some(6), ..fixed(100) };
    for config in [fixed(100), fixed(2), narrow, BlockConfig { conv: true, ..fixed(3) }] {
        let objective = fitting(config);
        assert_slopes(&objective, &stirred(objective.parameters(3)), 4);
    }
}

/// The drafter with all that DFlash 2 adds.
fn second() -> BlockConfig {
    BlockConfig { conv: true, selector: Some(SelectorConfig { k: 5, rank: 3 }), ..config(3) }
}

#[test]
fn the_second_version_is_fitted_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(second());
    let one = fitted(&objective, dir.path(), 1, None);
    assert_eq!(one, fitted(&objective, dir.path(), 3, None));
    assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    let metrics = objective.evaluate(&objective.parameters(3)).unwrap().metrics;
    let Metrics::Block(block) = &metrics else { panic!("{metrics:?}") };
    assert_eq!((block.selector_loss.len(), block.slot_loss.len()), (3, 3));
}

#[test]
fn threads_interruptions_and_cached_states_change_no_bit() {
    let dir = tempfile::tempdir().unwrap();
    let objective = fitting(config(3));
    let one = fitted(&objective, dir.path(), 1, None);
    assert_eq!(one, fitted(&objective, dir.path(), 3, None));
    assert_eq!(one, fitted(&objective, dir.path(), 2, Some(5)));
    let mut cached = fitting(config(3));
    let of = |row: &Row| objective.positions(&row.example);
    let rows = [cached.data().rows.as_slice(), cached.data().held_out.as_slice()];
    let request = CacheRequest::new(&dir.path().join("features"), FeatureFormat::F32, json!({"of": "a test"}));
    let request = CacheRequest { hooks: cached.hooks(), ..request };
    let decoder = cached.data().features.decoder.clone();
    let cache = FeatureCache::open_or_build(&request, &decoder, rows, of, &mut |_| ()).unwrap();
    cached.data_mut().features.cache = Some(cache);
    assert_eq!(one, fitted(&cached, dir.path(), 2, None));
}

/// Where a conversation has more places than blocks, each step draws others, and every step the same ones again.
#[test]
fn anchors_are_drawn_anew_in_every_step() {
    let (few, all) = (fitting(config(2)), fitting(config(100)));
    let loss =
        |objective: &BlockFitting, number: u64| on_backbone::step(objective, &stirred(objective.parameters(3)), number);
    assert_eq!(loss(&few, 0), loss(&few, 0));
    // One conversation of the same tokens in two steps: only its blocks can differ.
    let mut alone = loaded();
    alone.rows.truncate(1);
    alone.packing = Packing::new(vec![alone.rows[0].example.ids.len()], 40, 1, 1);
    let alone = BlockFitting::new(config(2), alone, lm_head(None).into(), 16, 3).unwrap();
    assert!((1..5).any(|step| loss(&alone, 0).0 != loss(&alone, step).0));
    let counted = |objective: &BlockFitting| {
        objective.batches(0).unwrap().iter().map(|batch| objective.weights(batch)[0]).sum::<f64>()
    };
    assert!(counted(&few) < counted(&all));
    assert_ne!(loss(&few, 0).0, loss(&all, 0).0);
}

#[test]
fn evaluations_have_an_entry_per_slot() {
    let objective = fitting(config(5));
    let metrics = objective.evaluate(&objective.parameters(3)).unwrap().metrics;
    let Metrics::Block(block) = &metrics else { panic!("{metrics:?}") };
    assert_eq!((block.slot_loss.len(), block.slot_top1.len()), (3, 3));
    assert!(metrics.tau().unwrap() >= 1.0 && block.loss > 0.0, "{metrics:?}");
    let record = serde_json::to_value(&metrics).unwrap();
    assert_eq!((Metrics::read(&record).unwrap(), &record["method"]), (metrics, &"block".into()));
}

#[test]
fn a_loss_that_is_no_number_names_shard_and_row() {
    let objective = BlockFitting::new(config(5), loaded(), lm_head(Some(f32::NAN)).into(), 16, 3).unwrap();
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
fn what_the_backbone_has_not_is_refused() {
    let refused = |config: BlockConfig| {
        BlockFitting::new(config, loaded(), lm_head(None).into(), 16, 3).err().unwrap().to_string()
    };
    let error = refused(BlockConfig { hooks: Some(vec![1, 3]), ..config(5) });
    assert!(error.contains("block.aux_hidden_state_layers = [1, 3]") && error.contains("2 layers"), "{error}");
    let error = refused(BlockConfig { mask_token: Some(260), ..config(5) });
    assert!(error.contains("block.mask_token = 260"), "{error}");
}

/// The paper's settings are the defaults; what a config says goes first.
#[test]
fn defaults_are_the_papers() {
    let text = r#"{"method": "block", "model": "m", "data": "d", "block": {"block_size": 16}}"#;
    let config = serde_json::from_str::<TrainConfig>(text).unwrap().resolved();
    let MethodConfig::Block { block } = &config.method else { panic!("another method") };
    assert_eq!((block.slots, block.layers, block.anchors, block.causal), (16, 5, 512, false));
    assert_eq!((block.slot_weights, block.alpha, block.window), (SlotWeights::DPace, 0.5, None));
    assert_eq!((config.training.learning_rate, config.training.max_grad_norm), (Some(6e-4), Some(1.0)));
    assert_eq!(config.method.name(), "block");
}
