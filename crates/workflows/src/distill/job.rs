//! A distillation with everything that is known before the model is loaded.

use super::assumed::Assumed;
use super::memory_budget;
use crate::drafting::Drafting;
use crate::failure::Failure;
use crate::prompts::Source;
use crate::settings::Settings;
use crate::units::{bytes, count, duration, of};
use crate::{config, files, load};
use gorgon_core::dist::Transform;
use gorgon_data::config::{Answers, DistillConfig};
use gorgon_data::distill::Prompt;
use gorgon_data::manifest::IDENTITY;
use gorgon_data::prompts::{self, Gathered, PromptFile};
use gorgon_data::render::Renderer;
use gorgon_data::shard::Row;
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::provenance::hash_file;
use gorgon_runs::run_dir::LOCK;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The journal of answers in the output folder.
pub(super) const JOURNAL: &str = "answers.jsonl";
/// Prefix of the folder of a part.
pub(super) const PREFIX: &str = "part-";
/// The job's config, as it was resolved.
const CONFIG: &str = "config.toml";

/// A job with everything that it needs to know before the model is loaded.
pub(super) struct Job {
    pub(super) config: DistillConfig,
    pub(super) dir: PathBuf,
    pub(super) model: ModelConfig,
    pub(super) renderer: Renderer,
    pub(super) gathered: Gathered,
    pub(super) transform: Transform,
    /// Drafter and tree, if the model answers with drafts.
    pub(super) drafting: Option<Drafting>,
}

/// Fails where a device or a number format is given and nothing is decoded on this machine.
fn check_formats(config: &DistillConfig, settings: &Settings) -> Result<(), Failure> {
    match settings.number_formats().filter(|_| config.is_served() || config.answers == Answers::Data) {
        Some(options) => Err(Failure::input(format!("{options}: nothing is decoded on this machine"))),
        None => Ok(()),
    }
}

impl Job {
    /// Checks the config and reads everything but the model's weights.
    ///
    /// # Errors
    /// When the config, the prompts or the model are wrong.
    pub(super) fn prepare(config: DistillConfig, settings: &Settings) -> Result<Self, Failure> {
        let s = &config.sampling;
        let transform = Transform::new(s.temperature, s.top_k, s.top_p)?;
        settings.warn_without_effect(&transform);
        check_formats(&config, settings)?;
        if s.max_new_tokens == 0 {
            return Err(Failure::input("max_new_tokens = 0: it has to be at least 1"));
        }
        if config.prompts.is_empty() && config.synthetic.is_none() {
            return Err(Failure::input("no prompts: name files with prompts = [..], or a synthetic corpus"));
        }
        let dir = load::decoder_only(&config.model, "distill", settings)?;
        let model = ModelConfig::read(&dir)?;
        let renderer = Renderer::load(&dir)?.with(config.template.clone())?;
        crate::prompts::report_unread(&renderer.unread(), &dir, settings);
        if config.is_served() && config.self_talk_turns > 0 {
            return Err(Failure::input("self_talk_turns: servers make up no turns; this needs the model here"));
        }
        if let Some(url) = config.servers.iter().find(|url| !url.starts_with("http://") && !url.starts_with("https://"))
        {
            return Err(Failure::input(format!("servers: {url:?} is no http address"))
                .hint("give the address up to and with /v1"));
        }
        if !renderer.has_template() && config.self_talk_turns > 0 {
            return Err(Failure::input("self_talk_turns: the model has no chat template, so it plays no roles"));
        }
        let drafting = memory_budget::drafting(&config, &dir, transform, settings)?;
        config.prompts.iter().try_for_each(|path| crate::prompts::refuse_folder(path))?;
        let sources = Source::all(&config.prompts, settings)?;
        let gathered = prompts::gather(&config, sources.iter().map(|source| source.files(settings)), &renderer)?;
        if gathered.prompts.is_empty() {
            return Err(Failure::input("there are no prompts"));
        }
        Ok(Self { config, dir, model, renderer, gathered, transform, drafting })
    }

    /// Reports what will be done, with the time that follows from `assumed`. Returns it as a document.
    ///
    /// # Errors
    /// When the memory that the config grants is too small.
    pub(super) fn report_plan(&self, assumed: Assumed, settings: &Settings) -> Result<Value, Failure> {
        for report in &self.gathered.reports {
            settings.console.say(report.to_string().trim_end());
        }
        let n = self.gathered.prompts.len();
        let turns: usize = self.gathered.prompts.iter().map(|p| p.users.len()).sum();
        let mut document = json!({"out": self.config.out.display().to_string(), "conversations": n, "turns": turns});
        let mut plan = format!("{}, {}", of(n, "conversation"), of(turns, "turn"));
        if self.gathered.cut_to_one_turn > 0 {
            let cut = self.gathered.cut_to_one_turn;
            plan.push_str(&format!("; {cut} cut to one turn, since the model has no chat template"));
        }
        if self.config.is_served() {
            let (servers, at_once) = (self.config.servers.len(), self.slots(settings)?);
            plan.push_str(&format!("; {} to answer, {} at a time", of(servers, "server"), of(at_once, "conversation")));
            document["batch_size"] = at_once.into();
        } else if let (Answers::Model, Ok(compute)) = (self.config.answers, settings.compute()) {
            self.plan_of_model((turns, assumed), &compute, (&mut plan, &mut document))?;
        }
        settings.console.say(plan);
        Ok(document)
    }

    /// Adds memory, tokens, disk and time to a plan in words and as a document.
    fn plan_of_model(
        &self,
        (turns, assumed): (usize, Assumed),
        compute: &Compute,
        (plan, document): (&mut String, &mut Value),
    ) -> Result<(), Failure> {
        let (capacity, room) = (self.capacity(), self.room(compute)?);
        let caches = (room.each * room.slots as u128) as u64;
        plan.push_str(&format!(
            "; memory: weights {}{}, caches and logits at most {} ({} conversations of {capacity} tokens at a time)",
            bytes(room.weights as u64),
            if room.copies == 0 { String::new() } else { format!(", copies of LM heads {}", bytes(room.copies)) },
            bytes(caches),
            room.slots
        ));
        if let Some(drafting) = &self.drafting {
            plan.push_str(&format!("; drafter {}, tree {}", drafting.name(), drafting.tree_name));
        }
        let most = self.most_tokens(turns, capacity);
        plan.push_str(&match assumed.tokens {
            Some(tokens) => format!("; {} new tokens assumed", count(tokens.into())),
            None => format!("; at most {} new tokens", count(most.into())),
        });
        let (tokens, n) = (assumed.tokens.unwrap_or(most), self.gathered.prompts.len());
        let (disk, seconds) = (self.disk(turns, tokens), assumed.seconds(tokens, n, capacity, &room));
        plan.push_str(&format!(
            "; disk {} {}",
            if assumed.tokens.is_some() { "about" } else { "at most" },
            bytes(disk)
        ));
        if let Some(seconds) = seconds {
            let apart = if self.drafting.is_some() { "prompts and the gain of drafts" } else { "prompts" };
            plan.push_str(&format!("; about {} at the assumed rate, {apart} apart", duration(seconds)));
        }
        let numbers = json!({
            "batch_size": room.slots, "weights_bytes": room.weights as u64, "lm_head_copies_bytes": room.copies,
            "caches_bytes": caches, "memory_bytes": room.bytes(room.slots), "new_tokens_at_most": most,
            "disk_bytes": disk, "seconds": seconds, "assumed_tokens": assumed.tokens,
            "assumed_bandwidth": assumed.bandwidth,
        });
        if let (Some(all), Value::Object(numbers)) = (document.as_object_mut(), numbers) {
            all.extend(numbers);
        }
        Ok(())
    }

    /// New tokens at most, those of turns that the model makes up included.
    fn most_tokens(&self, turns: usize, capacity: usize) -> u64 {
        let each = self.config.sampling.max_new_tokens.min(capacity);
        let made_up = self.gathered.prompts.len().saturating_mul(self.config.self_talk_turns);
        let answers = (turns.saturating_add(made_up)).saturating_mul(each) as u64;
        // The record that reaches the limit is the last one.
        let limit = self.config.max_total_tokens.map(|limit| limit.saturating_add(capacity as u64));
        answers.min(limit.unwrap_or(u64::MAX)).saturating_add(made_up.saturating_mul(each) as u64)
    }

    /// Bytes of journal and shards with so many new tokens: an id is written in digits in the journal and in four bytes in
    /// a shard. Of a prompt there are no more tokens than bytes, and those of the template.
    fn disk(&self, turns: usize, tokens: u64) -> u64 {
        const PER_TURN: u64 = 160;
        let digits = u64::from(self.model.vocab_size.max(1).ilog10()) + 1;
        let prompts: usize = self.gathered.prompts.iter().map(Prompt::bytes).sum();
        tokens.saturating_mul(digits + 1 + 4).saturating_add(PER_TURN * turns as u64 + 4 * prompts as u64)
    }

    /// Tokens of a conversation at most.
    pub(super) fn capacity(&self) -> usize {
        self.config.max_tokens.min(self.model.max_positions)
    }

    /// Fails if the folder holds answers of another job. Returns whether it holds this one's.
    pub(super) fn check_folder(&self, folder: &Path) -> Result<bool, Failure> {
        let path = folder.join(IDENTITY);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let known: Value = gorgon_runs::json::read(&bytes)
                    .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
                let changed = difference(&known, &self.identity()?);
                changed.map_or(Ok(true), |difference| Err(begun_otherwise(folder, &difference)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => check_unused(folder).map(|()| false),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                Err(Failure::input(format!("{}: it is no folder", folder.display())))
            }
            Err(error) => Err(Failure::io(&path, &error)),
        }
    }

    /// Makes the folder this job's, if it is not yet.
    pub(super) fn claim(&self, folder: &Path) -> Result<(), Failure> {
        if !self.check_folder(folder)? {
            // First: without it, the other files are taken for somebody else's.
            files::write_json(&folder.join(IDENTITY), &self.identity()?)?;
        }
        let path = folder.join(CONFIG);
        if !path.exists() {
            config::store(&path, &self.config)?;
        }
        tracing::debug!(folder = %folder.display(), "writing shards");
        Ok(())
    }

    /// Settings that answers depend on. The batch size and the output folder are no part of it.
    pub(super) fn identity(&self) -> Result<Value, Failure> {
        // Where servers answer, the weights need not be here.
        let is_missing = self.config.is_served() && Checkpoint::open(&self.dir).is_err();
        let weights = (!is_missing).then(|| files::weights_hash(&self.dir)).transpose()?;
        let failed = |path: &Path, error: std::io::Error| Failure::io(path, &error);
        let mut inputs = BTreeMap::new();
        for PromptFile { path, name } in &self.gathered.files {
            inputs.insert(name.clone(), hash_file(path).map_err(|e| failed(path, e))?);
        }
        Ok(json!({
            "model": self.config.model,
            "model_sha256": weights,
            "tokenizer_sha256": files::tokenizer_hash(&self.dir)?,
            "model_files": files::description_hashes(&self.dir)?,
            "answers": self.config.answers,
            "sampling": self.config.sampling,
            "max_tokens": self.config.max_tokens,
            "template": (!self.config.template.is_empty()).then_some(&self.config.template),
            "self_talk_turns": self.config.self_talk_turns,
            "inputs": inputs,
            "format": self.config.format,
            "limit": self.config.limit,
            "synthetic": self.config.synthetic,
            "conversations": self.gathered.prompts.len(),
            // Earlier versions drew the tokens of a record one after the other, so their sampled answers are others.
            "random_by": (!self.transform.is_greedy()).then_some("position"),
            "served": self.config.is_served().then(|| json!({"model": self.config.serving.model})),
        }))
    }

    /// Rows of the answers that the data gives.
    pub(super) fn given_rows(&self) -> Result<Vec<Row>, Failure> {
        let prompts_with_answers: Vec<_> = self.gathered.prompts.iter().zip(&self.gathered.given).collect();
        let row = |(prompt, given): (&Prompt, &Vec<Option<String>>)| {
            prompts::given_row(&self.renderer, prompt, given)
                .map_err(|error| Failure::input(format!("{} line {}: {error}", prompt.source, prompt.line)))
        };
        prompts_with_answers.into_par_iter().map(row).collect()
    }
}

/// Fails where a folder that is not this job's holds files: they are somebody else's.
fn check_unused(folder: &Path) -> Result<(), Failure> {
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::io(folder, &error)),
    };
    // Beside what an interrupted write left, the lock and the folders of parts come before the identity.
    let is_own = |name: &String| name == LOCK || [".gorgon-", PREFIX].iter().any(|start| name.starts_with(start));
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.filter(|name| !is_own(name)).min() {
        None => Ok(()),
        Some(file) => {
            let message = format!("{}: {file} is there, and no {IDENTITY} of a distillation", folder.display());
            Err(Failure::input(message).hint("name another folder with out=…"))
        }
    }
}

/// The failure where a folder's answers were begun with another value of a key.
fn begun_otherwise(folder: &Path, (key, was, is): &(String, String, String)) -> Failure {
    let shown = folder.display();
    let message = match (key.strip_prefix("inputs."), was.as_str(), is.as_str()) {
        (Some(file), "null", _) => format!("{shown}: its answers were begun without {file}"),
        (Some(file), _, "null") => format!("{shown}: its answers were begun with {file}, which is not given now"),
        (Some(file), ..) => format!("{shown}: {file} has changed since these answers were begun"),
        (None, ..) => format!("{shown}: begun with {key} = {was}, now {is}"),
    };
    Failure::input(message).hint("name another folder with out=…, or delete this one")
}

/// The first key in which two documents differ.
fn difference(was: &Value, is: &Value) -> Option<(String, String, String)> {
    let (Some(a), Some(b)) = (was.as_object(), is.as_object()) else {
        return (was != is).then(|| (String::new(), was.to_string(), is.to_string()));
    };
    let keys = a.keys().chain(b.keys());
    keys.into_iter().find_map(|key| {
        let null = Value::Null;
        let (key, was, is) = (key.clone(), a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
        let (inner, was, is) = difference(was, is)?;
        Some((if inner.is_empty() { key } else { format!("{key}.{inner}") }, was, is))
    })
}

/// Metadata of a job in its shards.
pub(super) fn metadata(identity: &Value) -> BTreeMap<String, String> {
    let mut metadata = BTreeMap::from([("gorgon.schema".to_owned(), "1".to_owned())]);
    let known = identity.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    for (key, value) in known {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        metadata.insert(format!("gorgon.{key}"), text);
    }
    metadata
}
