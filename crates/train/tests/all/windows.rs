//! Steps of short windows: their hidden states are the conversations', and long windows change nothing.

use crate::on_backbone;

use gorgon_data::shard::Row;
use gorgon_draft::block::BlockConfig;
use gorgon_draft::eagle::three::Eagle3Config;
use gorgon_model::target::read;
use gorgon_train::methods::{
    BlockFitting, CacheRequest, Conversations, Eagle3Fitting, FeatureCache, FeatureFormat, OnBackbone,
};
use gorgon_train::parameters::Parameter;
use on_backbone::{fitted, lm_head, loaded, step};
use serde_json::json;
use std::path::Path;

/// Gives an objective the hidden states of its whole conversations, cut as its windows are.
fn with_cache<F: OnBackbone>(mut objective: F, folder: &Path, format: FeatureFormat) -> F {
    let data = objective.data();
    let positions = |row: &Row| objective.positions(&row.example);
    let request = CacheRequest { hooks: objective.hooks(), ..CacheRequest::new(folder, format, json!("a test")) };
    let rows = [data.whole(), &data.held_out[..]];
    let mut cache =
        FeatureCache::open_or_build(&request, &data.features.decoder, rows, positions, &mut |_| ()).unwrap();
    if let Some(starts) = data.windows.starts() {
        let counts = data.rows.iter().map(|row| positions(row).len());
        cache.cut(&starts.iter().copied().zip(counts).collect::<Vec<_>>()).unwrap();
    }
    objective.data_mut().features.cache = Some(cache);
    objective
}

fn eagle3(data: Conversations) -> Eagle3Fitting {
    let config = Eagle3Config { steps: 3, ..Eagle3Config::default() };
    Eagle3Fitting::new(config, data, lm_head(None).into(), None, 64).unwrap()
}

#[test]
fn states_of_windows_are_their_conversations() {
    for format in [FeatureFormat::F32, FeatureFormat::Int8] {
        let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let whole = with_cache(eagle3(loaded()), whole.path(), format);
        let cut = with_cache(eagle3(loaded().in_windows(9)), cut.path(), format);
        let hooks = cut.hooks();
        let states = |of: &Eagle3Fitting, held_out: bool, i: usize| {
            let row = of.data().row(held_out, i);
            let positions = of.positions(&row.example);
            let width = (hooks.layers().len() + 1) * of.data().features.width();
            (read(of.data().features.hooked(row, held_out, i, &positions, &hooks).unwrap()), width)
        };
        let starts = cut.data().windows.starts().unwrap();
        assert!(starts.iter().any(|start| start.token > 0));
        for (i, start) in starts.iter().enumerate() {
            let ((part, width), (all, _)) = (states(&cut, false, i), states(&whole, false, start.conversation));
            assert_eq!(part[..], all[start.token * width..][..part.len()], "{format:?} {start:?}");
        }
        for i in 0..cut.data().held_out.len() {
            assert_eq!(states(&cut, true, i), states(&whole, true, i), "{format:?} {i}");
        }
    }
}

/// Loss and gradients of some steps.
fn steps<F: OnBackbone>(objective: F) -> Vec<(f64, Vec<Vec<f32>>)> {
    let folder = tempfile::tempdir().unwrap();
    let objective = with_cache(objective, folder.path(), FeatureFormat::F32);
    let parameters: Vec<Parameter> = objective.parameters(3);
    (0..3).map(|number| step(&objective, &parameters, number)).collect()
}

#[test]
fn windows_longer_than_every_conversation_change_no_bit() {
    let block = |data| {
        let config = BlockConfig { layers: 1, slots: 4, mask_token: Some(255), ..BlockConfig::default() };
        BlockFitting::new(config, data, lm_head(None).into(), 64, 5).unwrap()
    };
    assert_eq!(steps(eagle3(loaded().in_windows(200))), steps(eagle3(loaded())));
    assert_eq!(steps(block(loaded().in_windows(200))), steps(block(loaded())));
    assert_ne!(steps(eagle3(loaded().in_windows(9))), steps(eagle3(loaded())));
}

#[test]
fn threads_and_interruptions_change_no_bit() {
    let (states, runs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objective = with_cache(eagle3(loaded().in_windows(9)), states.path(), FeatureFormat::F32);
    let one = fitted(&objective, runs.path(), 1, None);
    assert_eq!(one, fitted(&objective, runs.path(), 3, None));
    assert_eq!(one, fitted(&objective, runs.path(), 2, Some(5)));
}
