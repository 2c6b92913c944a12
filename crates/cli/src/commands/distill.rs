//! `gorgon distill`: prompts in, training shards out.

mod answering;

use crate::args::Distill;
use crate::commands::distill_parts;
use crate::commands::distill_room;
use crate::commands::drafting::Drafting;
use crate::commands::{distill_preview, load};
use crate::error::Failure;
use crate::printer::{bytes, count};
use crate::settings::Settings;
use crate::{config, estimate, fitting};
use answering::Took;
use gorgon_core::dist::Transform;
use gorgon_data::config::{Answers, DistillConfig};
use gorgon_data::distill::{self, Journal};
use gorgon_data::manifest::{self, IDENTITY};
use gorgon_data::prompts::{self, Gathered};
use gorgon_data::render::Renderer;
use gorgon_data::shard::{self, Row};
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;
use gorgon_runs::provenance::{hash_file, hash_folder_weights};
use gorgon_runs::run_dir::RunDir;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// The journal of answers in the output folder.
pub const JOURNAL: &str = "answers.jsonl";

pub fn run(args: &Distill, settings: &Settings) -> Result<ExitCode, Failure> {
    let config: DistillConfig = config::load(&args.config, &args.overrides)?;
    match args.shard {
        Some(part) => distill_parts::execute(config, part, args.dry_run, settings),
        None => execute(config, args.preview, args.dry_run, settings),
    }
}

/// Does what a config says; with `preview` or `dry_run`, only shows it.
///
/// # Errors
/// When the config, the prompts or the model are wrong, or the output folder is another job's.
pub fn execute(
    config: DistillConfig,
    preview: Option<usize>,
    dry_run: bool,
    settings: &Settings,
) -> Result<ExitCode, Failure> {
    let job = Job::prepare(config, settings)?;
    if preview.is_none() {
        job.check_folder(&job.config.out)?;
    }
    job.say_plan(settings)?;
    if dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(n) = preview {
        return job.preview(n, settings);
    }
    load::check_writable(&job.config.out)?;
    std::fs::create_dir_all(&job.config.out).map_err(|e| Failure::run(format!("{}: {e}", job.config.out.display())))?;
    let folder = RunDir::open(&job.config.out)?;
    job.claim(folder.path(), settings)?;
    let started = Instant::now();
    let answered = match job.config.answers {
        Answers::Data => Answered { rows: job.given_rows()?, ..Answered::default() },
        Answers::Model => match job.answered_rows(folder.path(), settings)? {
            Some(found) => found,
            None => {
                settings.talk.say("stopped; the same command goes on from here");
                return Ok(ExitCode::FAILURE);
            }
        },
    };
    job.write(folder.path(), &answered, started, settings)
}

/// What came of the prompts.
#[derive(Default)]
struct Answered {
    /// Rows with answers.
    rows: Vec<Row>,
    /// How many conversations have none, by reason.
    without: BTreeMap<String, usize>,
    took: Took,
}

/// A job with everything that it needs to know before the model is loaded.
pub struct Job {
    pub config: DistillConfig,
    dir: PathBuf,
    model: ModelConfig,
    pub renderer: Renderer,
    pub gathered: Gathered,
    transform: Transform,
    /// What drafts, if the model answers with drafts.
    drafting: Option<Drafting>,
}

impl Job {
    pub fn prepare(config: DistillConfig, settings: &Settings) -> Result<Self, Failure> {
        let s = &config.sampling;
        let transform = Transform::new(s.temperature, s.top_k, s.top_p)?;
        if s.max_new_tokens == 0 {
            return Err(Failure::input("max_new_tokens = 0: it has to be at least 1"));
        }
        if config.prompts.is_empty() && config.synthetic.is_none() {
            return Err(Failure::input("no prompts: name files with prompts = [..], or a synthetic corpus"));
        }
        let dir = load::folder(&config.model, settings)?;
        let model = ModelConfig::read(&dir)?;
        let renderer = Renderer::load(&dir)?;
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
        let drafting = distill_room::drafting(&config, &dir, transform)?;
        let gathered = prompts::gather(&config, renderer.has_template())?;
        if gathered.prompts.is_empty() {
            return Err(Failure::input("there are no prompts"));
        }
        Ok(Self { config, dir, model, renderer, gathered, transform, drafting })
    }

    /// Says what will be done.
    ///
    /// # Errors
    /// When the memory that the config grants is too small.
    pub fn say_plan(&self, settings: &Settings) -> Result<(), Failure> {
        for report in &self.gathered.reports {
            settings.talk.say(report.to_string().trim_end());
        }
        let n = self.gathered.prompts.len();
        let turns: usize = self.gathered.prompts.iter().map(|p| p.users.len()).sum();
        let mut plan = format!("{} conversations, {} turns", count(n as u128), count(turns as u128));
        if self.gathered.cut_to_one_turn > 0 {
            let cut = self.gathered.cut_to_one_turn;
            plan.push_str(&format!("; {cut} cut to one turn, since the model has no chat template"));
        }
        if self.config.is_served() {
            let (servers, at_once) = (self.config.servers.len(), self.slots(settings)?);
            plan.push_str(&format!("; {servers} servers answer, {at_once} conversations at a time"));
        } else if let (Answers::Model, Ok(compute)) = (self.config.answers, settings.compute()) {
            let (capacity, room) = (self.capacity(), self.room(&compute)?);
            plan.push_str(&format!(
                "; memory: weights {}{}, caches and logits at most {} ({} conversations of {capacity} tokens at a time)",
                bytes(room.weights as u64),
                if room.copies == 0 { String::new() } else { format!(", copies of LM heads {}", bytes(room.copies)) },
                bytes((room.each * room.slots as u128) as u64),
                room.slots
            ));
            if let Some(drafting) = &self.drafting {
                plan.push_str(&format!("; drafter {}, tree {}", drafting.name(), drafting.tree_name));
            }
            let most = turns * self.config.sampling.max_new_tokens;
            plan.push_str(&format!("; at most {} new tokens", count(most as u128)));
        }
        settings.talk.say(plan);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.config.max_tokens.min(self.model.max_positions)
    }

    /// Fails if the folder holds answers of another job. Returns whether it holds this one's.
    pub fn check_folder(&self, folder: &Path) -> Result<bool, Failure> {
        let path = folder.join(IDENTITY);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let known: Value = serde_json::from_slice(&bytes)
                    .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
                match difference(&known, &self.identity()?) {
                    None => Ok(true),
                    Some((key, was, is)) => {
                        let message = format!("{}: begun with {key} = {was}, now {is}", folder.display());
                        Err(Failure::input(message).hint("name another folder with out=…, or delete this one"))
                    }
                }
            }
            Err(_) if folder.join(JOURNAL).exists() => {
                Err(Failure::input(format!("{}: answers without {IDENTITY}", folder.display())))
            }
            Err(_) => Ok(false),
        }
    }

    /// Makes the folder this job's, if it is not yet.
    fn claim(&self, folder: &Path, settings: &Settings) -> Result<(), Failure> {
        if !self.check_folder(folder)? {
            config::store(&folder.join("config.toml"), &self.config)?;
            fitting::write_json(&folder.join(IDENTITY), &self.identity()?)?;
        }
        settings.talk.detail(format!("writing to {}", folder.display()));
        Ok(())
    }

    /// What answers depend on. The batch size and the output folder are no part of it.
    pub fn identity(&self) -> Result<Value, Failure> {
        // Where servers answer, the weights need not be here.
        let weights = match Checkpoint::open(&self.dir) {
            Err(_) if self.config.is_served() => None,
            opened => {
                let files: Vec<PathBuf> = opened?.files().map(Path::to_path_buf).collect();
                Some(hash_folder_weights(&files)?)
            }
        };
        let failed = |path: &Path, error: std::io::Error| Failure::input(format!("{}: {error}", path.display()));
        let tokenizer = self.renderer.text().path();
        let drafting = self.drafting.as_ref().filter(|_| !self.transform.is_greedy());
        let drafting = drafting.map(Drafting::identity).transpose()?;
        let mut inputs = BTreeMap::new();
        for path in &self.config.prompts {
            inputs.insert(path.display().to_string(), hash_file(path).map_err(|e| failed(path, e))?);
        }
        Ok(json!({
            "model": self.config.model,
            "model_sha256": weights,
            "tokenizer_sha256": hash_file(tokenizer).map_err(|e| failed(tokenizer, e))?,
            "answers": self.config.answers,
            "sampling": self.config.sampling,
            "max_tokens": self.config.max_tokens,
            "self_talk_turns": self.config.self_talk_turns,
            "inputs": inputs,
            "format": self.config.format,
            "limit": self.config.limit,
            "synthetic": self.config.synthetic,
            "conversations": self.gathered.prompts.len(),
            // With drafts, sampled answers have the same law but are others; greedy ones are the same.
            "drafting": drafting,
            "served": self.config.is_served().then(|| json!({"model": self.config.serving.model})),
        }))
    }

    pub fn given_rows(&self) -> Result<Vec<Row>, Failure> {
        let feature_tokens: Vec<_> = self.gathered.prompts.iter().zip(&self.gathered.given).collect();
        let row = |(prompt, given): (&distill::Prompt, &Vec<Option<String>>)| {
            prompts::given_row(&self.renderer, prompt, given)
                .map_err(|error| Failure::input(format!("{} line {}: {error}", prompt.source, prompt.line)))
        };
        feature_tokens.into_par_iter().map(row).collect()
    }

    /// The model's answers, or `None` if it was asked to stop.
    fn answered_rows(&self, folder: &Path, settings: &Settings) -> Result<Option<Answered>, Failure> {
        let mut journal = Journal::open(&folder.join(JOURNAL))?;
        distill_parts::join(folder, &mut journal, |part| self.check_folder(part), settings)?;
        if journal.conversations() > 0 {
            let (done, all) = (journal.conversations(), self.gathered.prompts.len());
            settings.talk.say(format!("{done} of {all} conversations are answered already"));
        }
        let Some(took) = self.answer(&self.gathered.prompts, &mut journal, folder, settings)? else {
            return Ok(None);
        };
        let (rows, without) = distill::rows(&self.renderer, &self.gathered.prompts, &journal)?;
        Ok(Some(Answered { rows, without, took }))
    }

    fn preview(&self, n: usize, settings: &Settings) -> Result<ExitCode, Failure> {
        let prompts = &self.gathered.prompts[..n.min(self.gathered.prompts.len())];
        let rows = match self.config.answers {
            Answers::Data => self.given_rows()?.into_iter().take(n).collect(),
            Answers::Model => {
                let folder = tempfile::tempdir().map_err(Failure::run)?;
                let mut journal = Journal::open(&folder.path().join(JOURNAL))?;
                self.answer(prompts, &mut journal, folder.path(), settings)?;
                distill::rows(&self.renderer, prompts, &journal)?.0
            }
        };
        distill_preview::show(&rows, &self.renderer)?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(
        &self,
        folder: &Path,
        Answered { rows, without, took }: &Answered,
        started: Instant,
        settings: &Settings,
    ) -> Result<ExitCode, Failure> {
        check_masks(rows)?;
        let identity = self.identity()?;
        let written = write_shards(folder, rows, &identity)?;
        let took = took.with_disk(estimate::folder_bytes(folder));
        let tokens: usize = rows.iter().map(|row| row.example.ids.len()).sum();
        let labels: usize = rows.iter().map(|row| row.example.labels()).sum();
        let ends = |wanted: fn(&str) -> bool| rows.iter().flat_map(|row| &row.ends).filter(|end| wanted(end)).count();
        let cut = ends(|end| end.starts_with(distill::LENGTH));
        let retokenised = ends(|end| end.ends_with(distill::RETOKENISED));
        let report = json!({
            "conversations": rows.len(), "tokens": tokens, "assistant_tokens": labels, "answers_cut_off": cut,
            "answers_retokenised": retokenised,
            "conversations_without_answers": without, "shards": written,
            "files": self.gathered.reports.iter().map(|report| report.to_json()).collect::<Vec<_>>(),
            "cut_to_one_turn": self.gathered.cut_to_one_turn, "plan": took.to_json(), "out": folder.display().to_string(),
        });
        fitting::write_json(&folder.join("report.json"), &report)?;
        if settings.json {
            crate::printer::document(&report.to_string());
        }
        settings.talk.say(format!(
            "{} conversations, {} tokens, {} of them the assistant's, {cut} answers cut off; {written} shards in {} ({:.1} s)",
            rows.len(),
            count(tokens as u128),
            count(labels as u128),
            folder.display(),
            started.elapsed().as_secs_f64()
        ));
        if let Some(words) = took.words() {
            settings.talk.say(words);
        }
        if retokenised > 0 {
            settings.talk.say(format!("{retokenised} answers came without their token ids and were tokenised again"));
        }
        for (reason, n) in without {
            settings.talk.say(format!("{n} conversations have no answer: {reason}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the shards, and then what they are. Returns how many there are.
fn write_shards(folder: &Path, rows: &[Row], identity: &Value) -> Result<usize, Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::run(format!("{}: {error}", path.display()));
    let metadata = metadata(identity);
    let mut written = vec![];
    for (i, part) in rows.chunks(shard::ROWS_PER_SHARD).enumerate() {
        let path = folder.join(shard::file_name(i));
        shard::write(&path, part, &metadata).map_err(|error| failed(&path, error))?;
        written.push((shard::file_name(i), part.len()));
    }
    manifest::write(folder, &written).map_err(|error| failed(folder, error))?;
    Ok(written.len())
}

/// A conversation without a label would teach nothing, and says that something is wrong with the template or the data.
fn check_masks(rows: &[Row]) -> Result<(), Failure> {
    if let Some(row) = rows.iter().find(|row| row.example.labels() == 0) {
        let message = format!("{} line {} ({}): its loss mask is empty", row.source, row.line, row.id);
        return Err(Failure::input(message).hint("look at it with gorgon distill --preview"));
    }
    if rows.is_empty() {
        return Err(Failure::input("no conversation has an answer: there is nothing to train on"));
    }
    Ok(())
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

fn metadata(identity: &Value) -> BTreeMap<String, String> {
    let mut metadata = BTreeMap::from([("gorgon.schema".to_owned(), "1".to_owned())]);
    let known = identity.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    for (key, value) in known {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        metadata.insert(format!("gorgon.{key}"), text);
    }
    metadata
}
