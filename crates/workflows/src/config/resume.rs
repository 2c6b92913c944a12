//! A run that is resumed, and the keys of its config that a command changes.

use super::check::paths;
use super::suggest::nearest;
use super::{Config, Kind, load};
use crate::absent;
use crate::failure::Failure;
use crate::settings::Settings;
use gorgon_runs::provenance::ConfigChange;
use gorgon_runs::run_dir::RunView;
use gorgon_train::config::fixed;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// The run that a command resumes.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    /// Its folder.
    pub run: &'a Path,
    /// Keys that may have another value than the run's own config has.
    pub allow_change: &'a [String],
}

/// The config as a command names it.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// The config file; the run's own if it is not given.
    pub file: Option<&'a Path>,
    /// Keys to override.
    pub overrides: &'a [String],
    /// Options that replace keys: the seed and variables of the chat template.
    pub settings: &'a Settings,
    /// The run to resume.
    pub resume: Option<Resume<'a>>,
}

/// Comparisons keep what they have fitted and measured, so only more of it can be requested.
const OF_COMPARISONS: [&str; 2] = ["seeds", "distill"];

impl Given<'_> {
    /// Reads the config: the file's, or that of the run to resume.
    ///
    /// # Errors
    /// When there is neither, or a key is wrong.
    pub fn load<T: Config>(&self) -> Result<T, Failure> {
        if let Some(Resume { run, allow_change }) = self.resume {
            check_keys(allow_change, T::KIND)?;
            absent::check(run, "run folder")?;
            RunView::open(run)?;
        }
        let seed = self.settings.typed_seed.map(|seed| T::KIND.seed(seed));
        let variables = self.settings.template.iter().map(|(name, value)| format!("template.{name}={value}"));
        let overrides = &self.overrides.iter().cloned().chain(seed).chain(variables).collect::<Vec<_>>();
        match (self.file, self.resume) {
            (Some(file), _) => load(file, overrides),
            (None, Some(resume)) => {
                let own = RunView::open(resume.run)?.config();
                if !own.is_file() {
                    if resume.run.join("config.json").is_file() {
                        let message =
                            format!("{}: this is a model, not the run folder of a training", resume.run.display());
                        return Err(Failure::input(message).hint("gorgon runs list shows the runs"));
                    }
                    let message = format!("{}: the run has no config", own.display());
                    return Err(Failure::input(message).hint("give the config that it was begun with, with -c"));
                }
                load(&own, overrides)
            }
            (None, None) => Err(Failure::input("no config: name one with -c, or a run with --resume")),
        }
    }
}

/// Fails for keys that no config of this kind has.
fn check_keys(keys: &[String], kind: Kind) -> Result<(), Failure> {
    let mut known = vec![];
    paths(&kind.schema(), "", &mut known);
    match keys.iter().find(|key| !known.contains(key)) {
        None => Ok(()),
        Some(key) => {
            let near = nearest(key, known.iter().map(String::as_str));
            let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            Err(Failure::input(format!("--allow-change {key}: unknown key{hint}")))
        }
    }
}

impl Resume<'_> {
    /// The allowed changes of the run's config; `config` is resolved. A run without a config has none: it ended before
    /// that was written.
    ///
    /// # Errors
    /// When a key differs whose change is not allowed, or cannot be.
    pub fn changes<T: Config>(&self, config: &T) -> Result<Vec<ConfigChange>, Failure> {
        let own = RunView::open(self.run)?.config();
        if !own.exists() {
            return Ok(vec![]);
        }
        let changes = differences(&load::<T>(&own, &[])?.resolved(), config)?;
        let refused: Vec<String> = changes.iter().filter_map(|change| self.refusal(change, T::KIND)).collect();
        if refused.is_empty() {
            return Ok(changes);
        }
        let can = |change: &&ConfigChange| !self.allows(&change.key) && reason(&change.key, T::KIND).is_none();
        let keys: Vec<String> = changes.iter().filter(can).map(|c| format!("--allow-change {}", c.key)).collect();
        let hint = "leave such keys out to resume with the run's own values";
        let hint =
            if keys.is_empty() { hint.into() } else { format!("{hint}, or change them with {}", keys.join(" ")) };
        Err(Failure::lines(refused).hint(hint))
    }

    fn allows(&self, key: &str) -> bool {
        self.allow_change.iter().any(|allowed| allowed == key)
    }

    fn refusal(&self, change: &ConfigChange, kind: Kind) -> Option<String> {
        let ConfigChange { key, old, new } = change;
        let reason = reason(key, kind);
        if reason.is_none() && self.allows(key) {
            return None;
        }
        let reason = reason.map(|reason| format!(". It cannot change: {reason}")).unwrap_or_default();
        let run = self.run.display();
        Some(format!("{key}: {run} has {}, this command has {}{reason}", shown(old), shown(new)))
    }
}

/// The reason why a key cannot change.
fn reason(key: &str, kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Compare if OF_COMPARISONS.contains(&key) => None,
        Kind::Compare => Some("what the comparison has fitted and measured was made with the old value"),
        _ => fixed(key),
    }
}

fn shown(value: &Option<serde_json::Value>) -> String {
    value.as_ref().map_or_else(|| "no value".into(), ToString::to_string)
}

/// The keys in which two resolved configs differ. The folder of run folders is none of them: the run is where it is.
fn differences<T: Config>(old: &T, new: &T) -> Result<Vec<ConfigChange>, Failure> {
    let flat = |config: &T| -> Result<BTreeMap<String, serde_json::Value>, Failure> {
        let mut all = BTreeMap::new();
        flatten(&Table::try_from(config).map_err(Failure::run)?, "", &mut all)?;
        all.remove("runs");
        Ok(all)
    };
    let (mut old, mut new) = (flat(old)?, flat(new)?);
    if new.get("training.steps").and_then(serde_json::Value::as_u64).is_some_and(|steps| steps > 0) {
        // Nothing reads them then.
        old.remove("training.epochs");
        new.remove("training.epochs");
    }
    let mut keys: Vec<&String> = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))).collect();
    keys.sort();
    let differ = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let change =
        |key: &String| ConfigChange { key: key.clone(), old: old.get(key).cloned(), new: new.get(key).cloned() };
    Ok(differ.map(change).collect())
}

fn flatten(table: &Table, path: &str, all: &mut BTreeMap<String, serde_json::Value>) -> Result<(), Failure> {
    for (key, value) in table {
        let path = super::document::joined(path, key);
        match value {
            Value::Table(inner) => flatten(inner, &path, all)?,
            value => {
                all.insert(path, serde_json::to_value(value).map_err(Failure::run)?);
            }
        }
    }
    Ok(())
}
