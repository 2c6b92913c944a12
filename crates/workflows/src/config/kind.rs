//! The kinds of configs.

use super::check::paths;
use super::suggest::nearest;
use crate::compare::CompareConfig;
use gorgon_core::suggest::did_you_mean;
use gorgon_data::config::{Answers, BatchSize, DistillConfig, Sampling};
use gorgon_data::distill::Serving;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use gorgon_text::variables;
use gorgon_train::config::{MOST_DIALOGUES, MOST_TOKENS, PretrainConfig, TrainConfig};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;
use toml::Table;

/// A kind of config, named after the verb that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `gorgon train` and `gorgon dev features`.
    Train,
    /// `gorgon distill`.
    Distill,
    /// `gorgon compare`.
    Compare,
    /// `gorgon dev pretrain`.
    Pretrain,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Train, Self::Distill, Self::Compare, Self::Pretrain];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Distill => "distill",
            Self::Compare => "compare",
            Self::Pretrain => "pretrain",
        }
    }

    /// The verb that reads it.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Pretrain => "dev pretrain",
            kind => kind.name(),
        }
    }

    /// The kind of a config, by the keys that only one kind has.
    pub(crate) fn of(table: &Table) -> Self {
        let has = |key: &str| table.contains_key(key);
        match () {
            () if has("method") || has("training") && !has("tokenizer") => Self::Train,
            () if has("methods") => Self::Compare,
            () if has("tokenizer") || table.get("model").is_some_and(toml::Value::is_table) => Self::Pretrain,
            () => Self::Distill,
        }
    }

    /// The override that sets the seed of such a config.
    pub(super) fn seed(self, seed: u64) -> String {
        match self {
            Self::Train | Self::Pretrain => format!("seed={seed}"),
            Self::Distill => format!("sampling.seed={seed}"),
            Self::Compare => format!("seeds=[{seed}]"),
        }
    }

    /// The key of such a config that is nearest to `name`, which need not name its table.
    pub fn nearest_key(self, name: &str) -> Option<String> {
        let mut known = vec![];
        paths(&self.schema(), "", &mut known);
        nearest(name, known.iter().map(String::as_str)).map(str::to_owned)
    }

    /// Its JSON Schema.
    pub fn schema(self) -> Value {
        match self {
            Self::Train => schema_of::<TrainConfig>(),
            Self::Distill => schema_of::<DistillConfig>(),
            Self::Compare => schema_of::<CompareConfig>(),
            Self::Pretrain => schema_of::<PretrainConfig>(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| {
            let near = did_you_mean(name, Self::ALL.map(Self::name));
            format!("{near}expected train, distill, compare or pretrain")
        })
    }
}

/// Draft 7 is the newest that editors of TOML understand.
fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".into(), T::schema_name().as_ref().into());
    schema.to_value()
}

/// A config that is read, checked and stored.
pub trait Config: DeserializeOwned + Serialize + JsonSchema {
    /// Its kind.
    const KIND: Kind;

    /// The config with all defaults filled in that depend on other keys.
    #[must_use]
    fn resolved(self) -> Self;

    /// Checks the settings.
    ///
    /// # Errors
    /// All wrong settings.
    fn check(&self) -> Result<(), SettingsErrors>;
}

impl Config for TrainConfig {
    const KIND: Kind = Kind::Train;

    fn resolved(self) -> Self {
        self.resolved()
    }

    fn check(&self) -> Result<(), SettingsErrors> {
        self.check()
    }
}

impl Config for PretrainConfig {
    const KIND: Kind = Kind::Pretrain;

    fn resolved(self) -> Self {
        self.resolved()
    }

    fn check(&self) -> Result<(), SettingsErrors> {
        self.check()
    }
}

impl Config for CompareConfig {
    const KIND: Kind = Kind::Compare;

    fn resolved(self) -> Self {
        self
    }

    fn check(&self) -> Result<(), SettingsErrors> {
        self.check()
    }
}

impl Config for DistillConfig {
    const KIND: Kind = Kind::Distill;

    fn resolved(self) -> Self {
        self
    }

    fn check(&self) -> Result<(), SettingsErrors> {
        let s = &self.sampling;
        let mut check = SettingsCheck::table("sampling");
        check.within("max_new_tokens", s.max_new_tokens as u64, 1..=MOST_TOKENS);
        check.not_negative("temperature", s.temperature);
        let valid = s.top_p.is_none_or(|share| share > 0.0 && share <= 1.0);
        check.require(valid, "top_p", s.top_p.unwrap_or(1.0), "it has to be above 0 and at most 1");
        check.require(s.top_k != Some(0), "top_k", s.top_k.unwrap_or(1), "it has to be at least 1");
        let mut whole = SettingsCheck::top();
        whole.include(check.finish());
        whole.include(check_serving(self));
        whole.include(check_sources(self));
        let drafts = self.heads.is_some() || self.drafter.as_ref().is_some_and(|name| name != "none");
        let tree = self.tree.as_deref().unwrap_or("none");
        whole.require(drafts || tree == "none", "tree", tree, "without heads or a drafter there is nothing to arrange");
        for (name, value) in &self.template {
            let valid = variables::check(name, value);
            whole.require(valid.is_ok(), &format!("template.{name}"), value, valid.err().unwrap_or_default());
        }
        whole.require(self.max_total_tokens != Some(0), "max_total_tokens", 0, "it has to be at least 1");
        whole.within("max_tokens", self.max_tokens as u64, 1..=MOST_TOKENS);
        whole.within("self_talk_turns", self.self_talk_turns as u64, 0..=1000);
        if let BatchSize::Conversations(n) = self.batch_size {
            whole.within("batch_size", n as u64, 1..=1 << 16);
        }
        if let Some(synthetic) = &self.synthetic {
            whole.within("synthetic.dialogues", synthetic.dialogues, 1..=MOST_DIALOGUES);
        }
        if let Some(mib) = self.memory_mib {
            whole.within("memory_mib", mib, 1..=1 << 30);
        }
        whole.finish()
    }
}

/// Checks how servers are reached. Where none answer, nothing may be set.
fn check_serving(config: &DistillConfig) -> Result<(), SettingsErrors> {
    let (serving, default) = (&config.serving, Serving::default());
    let mut check = SettingsCheck::table("serving");
    check.positive("timeout_seconds", serving.timeout_seconds);
    check.at_least("attempts", serving.attempts as usize, 1);
    let (model, key) = (serving.model.as_deref(), serving.key_env.as_deref());
    let mut only_served = |key: &str, is_set: bool, value: &dyn fmt::Display| {
        check.require(config.is_served() || !is_set, key, value, "it is for servers, and none answer");
    };
    only_served("model", model.is_some(), &model.unwrap_or_default());
    let seconds = serving.timeout_seconds;
    only_served("timeout_seconds", seconds != default.timeout_seconds, &seconds);
    only_served("attempts", serving.attempts != default.attempts, &serving.attempts);
    only_served("pause_ms", serving.pause_ms != default.pause_ms, &serving.pause_ms);
    only_served("key_env", key.is_some(), &key.unwrap_or_default());
    check.finish()
}

/// Checks that nothing is set which the source of the answers does not read.
fn check_sources(config: &DistillConfig) -> Result<(), SettingsErrors> {
    let mut check = SettingsCheck::top();
    let is_given = config.answers == Answers::Data;
    let reason = "answers = \"data\" takes answers as they are, so leave this key out";
    check.require(!is_given || config.servers.is_empty(), "servers", format_args!("{:?}", config.servers), reason);
    check.used(!is_given, "self_talk_turns", &config.self_talk_turns, &0, reason);
    check.used(!is_given, "batch_size", &config.batch_size, &BatchSize::default(), reason);
    let (sampling, default) = (&config.sampling, Sampling::default());
    check.used(!is_given, "sampling.temperature", &sampling.temperature, &default.temperature, reason);
    check.used(!is_given, "sampling.top_p", &sampling.top_p, &default.top_p, reason);
    check.used(!is_given, "sampling.top_k", &sampling.top_k, &default.top_k, reason);
    check.used(!is_given, "sampling.max_new_tokens", &sampling.max_new_tokens, &default.max_new_tokens, reason);
    check.used(!is_given, "sampling.seed", &sampling.seed, &default.seed, reason);
    let reason = "nothing is decoded on this machine";
    check.used(!is_given && !config.is_served(), "memory_mib", &config.memory_mib, &None, reason);
    let reason = "there is no file of prompts";
    check.used(!config.prompts.0.is_empty(), "format", &config.format, &None, reason);
    check.used(!config.prompts.0.is_empty(), "limit", &config.limit, &0, reason);
    check.finish()
}
