//! Hidden states computed ahead, by `gorgon dev features` or as a training begins.

use super::job::Job;
use crate::console::BarStyle;
use crate::estimate::Watch;
use crate::failure::Failure;
use crate::files;
use crate::settings::Settings;
use crate::units::{bytes, count, duration};
use gorgon_data::shard::Row;
use gorgon_runs::provenance::hash_bytes;
use gorgon_runs::run_dir::RunDir;
use gorgon_train::config::TrainConfig;
use gorgon_train::methods::{CacheRequest, FeatureCache, OnBackbone, digest};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Conversations that are timed before a plan is made.
const TIMED: usize = 12;

/// Memory, disk and time of computing hidden states.
pub struct StatesPlan {
    /// Bytes on the disk.
    pub disk: u64,
    /// Seconds, and bytes in memory beyond what is there, where the system tells; only where nothing is kept yet.
    pub work: Option<(f64, Option<u64>)>,
}

impl<F: OnBackbone> Job<F> {
    /// Hidden states to be kept, and their folder. The folder's name says what is in it unless the config names one.
    pub fn cache_request(&self, config: &TrainConfig, backbone: &str) -> CacheRequest {
        let data = self.objective.data();
        let of = |row: &Row| self.objective.positions(&row.example);
        let compute = data.features.decoder.compute();
        let mut identity = json!({
            "method": config.method.name(),
            "backbone_sha256": backbone,
            "rows_sha256": digest([data.whole(), data.held_out.as_slice()], of),
            "device": compute.choice().to_string(),
            "dtype": compute.precision(),
        });
        let hooks = self.objective.hooks();
        if !hooks.layers().is_empty() {
            identity["taps"] = json!(hooks.layers());
        }
        let key = hash_bytes(identity.to_string().as_bytes());
        let name = format!("features-{}-{}-{}", config.method.name(), config.feature_format.name(), &key[..12]);
        let folder: PathBuf = config.features.clone().unwrap_or_else(|| config.data.join(name));
        CacheRequest { hooks, ..CacheRequest::new(&folder, config.feature_format, identity) }
    }

    /// Reports how much there is to keep and what it will take, before it is computed.
    ///
    /// # Errors
    /// When the backbone fails.
    pub fn report_features(
        &self,
        request: &CacheRequest,
        config: &TrainConfig,
        settings: &Settings,
    ) -> Result<StatesPlan, Failure> {
        let (data, width) = (self.objective.data(), self.objective.data().features.width());
        let positions = self.count_in(data.whole()) + self.count_in(&data.held_out);
        let hooks = request.hooks.layers().len();
        let size = FeatureCache::bytes(positions, hooks, width, config.feature_format);
        let watch = Watch::start();
        let seconds = if request.folder.exists() { None } else { Some(self.seconds_of_states()?) };
        // On another device, this process's own memory says nothing.
        let memory = watch.peak().filter(|_| data.features.decoder.compute().is_host());
        let work = seconds.map(|seconds| (seconds, memory));
        let time = seconds.map_or_else(String::new, |seconds| format!("; about {}", duration(seconds)));
        settings.console.say(format!(
            "{} states of {width} values in {}: {} in {}{time}",
            count((positions * (hooks + 1)) as u128),
            config.feature_format.name(),
            bytes(size),
            request.folder.display()
        ));
        Ok(StatesPlan { disk: size, work })
    }

    /// Seconds that all states take, estimated from a few conversations.
    fn seconds_of_states(&self) -> Result<f64, Failure> {
        let (data, hooks) = (self.objective.data(), self.objective.hooks());
        let read = |row: &Row| self.objective.positions(&row.example).last().map_or(0, |last| last + 1);
        let every = data.whole().len().div_ceil(TIMED).max(1);
        let (mut tokens, mut seconds) = (0, 0.0);
        // The first one is a warm-up.
        for (n, (i, row)) in
            std::iter::once((0, &data.whole()[0])).chain(data.whole().iter().enumerate().step_by(every)).enumerate()
        {
            let positions = self.objective.positions(&row.example);
            if positions.is_empty() {
                continue;
            }
            let started = Instant::now();
            data.features.hooked(row, false, i, &positions, &hooks).map_err(Failure::training)?;
            if n > 0 {
                seconds += started.elapsed().as_secs_f64();
                tokens += read(row);
            }
        }
        self.read_longest()?;
        let all: usize = data.whole().iter().chain(&data.held_out).map(read).sum();
        Ok(seconds * all as f64 / tokens.max(1) as f64)
    }

    /// Reads the longest conversation, which takes the most memory: they are read one at a time.
    pub(super) fn read_longest(&self) -> Result<(), Failure> {
        let (data, hooks) = (self.objective.data(), self.objective.hooks());
        let read = |row: &Row| self.objective.positions(&row.example).last().map_or(0, |last| last + 1);
        let rows = data.whole().iter().enumerate().map(|(i, row)| (false, i, row));
        let all = rows.chain(data.held_out.iter().enumerate().map(|(i, row)| (true, i, row)));
        if let Some((held_out, i, row)) = all.max_by_key(|(.., row)| read(row)) {
            let positions = self.objective.positions(&row.example);
            data.features.hooked(row, held_out, i, &positions, &hooks).map_err(Failure::training)?;
        }
        Ok(())
    }

    /// Computes all hidden states that are not there yet. Without `alone` it is relied on that they are there: the
    /// others of a training read what the first one has made.
    ///
    /// # Errors
    /// When the backbone fails, the folder holds something else or is in use, or a file cannot be written.
    pub fn cache(&mut self, request: &CacheRequest, alone: bool, settings: &Settings) -> Result<(), Failure> {
        let folder = &request.folder;
        files::check_writable(folder)?;
        std::fs::create_dir_all(folder).map_err(|e| Failure::run(format!("{}: {e}", folder.display())))?;
        let _lock = alone.then(|| RunDir::open(folder)).transpose()?;
        let data = self.objective.data();
        let of = |row: &Row| self.objective.positions(&row.example);
        let total = self.count_in(data.whole()) + self.count_in(&data.held_out);
        let bar = settings.console.bar(BarStyle::Count, "hidden states", total as u64);
        let rows = [data.whole(), data.held_out.as_slice()];
        let cache = FeatureCache::open_or_build(request, &data.features.decoder, rows, of, &mut |n| bar.inc(n as u64));
        bar.finish();
        let mut cache = cache.map_err(Failure::training)?;
        for damage in &cache.mended {
            settings.console.say(format!("warning: damaged states were computed again: {damage}"));
        }
        if let Some(starts) = data.windows.starts() {
            let windows = starts.iter().zip(&data.rows).map(|(start, row)| {
                let (whole, own) = (of(&data.whole()[start.conversation]), of(row));
                // A state's number is its token's place.
                let follow = whole.get(start.token..).unwrap_or_default().iter().zip(&own);
                let fits =
                    follow.clone().count() == own.len() && follow.into_iter().all(|(a, b)| *a == start.token + b);
                let reason = || Failure::run(format!("{} row {}: its states cannot be cut", row.shard, row.row));
                if fits { Ok((*start, own.len())) } else { Err(reason()) }
            });
            let windows = windows.collect::<Result<Vec<_>, Failure>>()?;
            cache.cut(&windows).map_err(Failure::training)?;
        }
        self.objective.data_mut().features.cache = Some(cache);
        Ok(())
    }
}
