//! Hidden states computed ahead, by `gorgon features` or as a training begins.

use super::job::Job;
use crate::error::Failure;
use crate::fitting;
use crate::printer::{bytes, count};
use crate::settings::Settings;
use gorgon_data::shard::Row;
use gorgon_runs::provenance::hash_bytes;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::TrainConfig;
use gorgon_train::heads::{CacheRequest, FeatureCache, OnBackbone, digest};
use gorgon_train::world::World;
use serde_json::json;
use std::path::PathBuf;

impl<F: OnBackbone> Job<F> {
    /// What is to be kept, and where. The folder's name says what is in it unless the config names one.
    pub fn cache_request(&self, config: &TrainConfig, backbone: &str) -> CacheRequest {
        let data = self.objective.data();
        let of = |row: &Row| self.objective.positions(&row.example);
        let compute = data.features.decoder.compute();
        let mut identity = json!({
            "method": config.method.name(),
            "backbone_sha256": backbone,
            "rows_sha256": digest([data.rows.as_slice(), data.held_out.as_slice()], of),
            "device": compute.choice().to_string(),
            "dtype": compute.precision(),
        });
        let taps = self.objective.taps();
        if !taps.layers().is_empty() {
            identity["taps"] = json!(taps.layers());
        }
        let key = hash_bytes(identity.to_string().as_bytes());
        let name = format!("features-{}-{}-{}", config.method.name(), config.feature_format.name(), &key[..12]);
        let folder: PathBuf = config.features.clone().unwrap_or_else(|| config.data.join(name));
        CacheRequest { taps, ..CacheRequest::new(&folder, config.feature_format, identity) }
    }

    /// Says how much there is to keep, before it is computed.
    pub fn say_features(&self, request: &CacheRequest, config: &TrainConfig, settings: &Settings) {
        let (data, width) = (self.objective.data(), self.objective.data().features.width());
        let positions = self.count_in(&data.rows) + self.count_in(&data.held_out);
        let taps = request.taps.layers().len();
        settings.talk.say(format!(
            "{} states of {width} values in {}: {} in {}",
            count((positions * (taps + 1)) as u128),
            config.feature_format.name(),
            bytes(FeatureCache::bytes(positions, taps, width, config.feature_format)),
            request.folder.display()
        ));
    }

    /// Computes all hidden states that are not there yet.
    ///
    /// # Errors
    /// When the backbone fails, the folder holds something else or is in use, or a file cannot be written.
    pub fn cache(&mut self, request: &CacheRequest, settings: &Settings) -> Result<(), Failure> {
        let folder = &request.folder;
        std::fs::create_dir_all(folder).map_err(|e| Failure::run(format!("{}: {e}", folder.display())))?;
        // The other processes of a training only read what the first one has made.
        let _lock = World::current().is_root().then(|| RunDir::open(folder)).transpose()?;
        let data = self.objective.data();
        let of = |row: &Row| self.objective.positions(&row.example);
        let total = self.count_in(&data.rows) + self.count_in(&data.held_out);
        let bar = crate::progress::count(settings.progress, "hidden states", total as u64);
        let rows = [data.rows.as_slice(), data.held_out.as_slice()];
        let cache = FeatureCache::open_or_build(request, &data.features, rows, of, &mut |n| bar.inc(n as u64));
        bar.finish_and_clear();
        let cache = cache.map_err(fitting::failure)?;
        for damage in &cache.mended {
            settings.talk.say(format!("damaged states were computed again: {damage}"));
        }
        self.objective.data_mut().features.cache = Some(cache);
        Ok(())
    }
}
