//! The part of a distillation in which the model, here or on servers, answers.

use super::forecast::{OnDisk, Tokens};
use super::job::{JOURNAL, Job, metadata};
use super::memory_budget::{self, MemoryBudget};
use super::progress::{Memory, Meter, Readings, Totals, Work};
use crate::drafting::Drafters;
use crate::estimate::{Pool, Watch, pair};
use crate::failure::Failure;
use crate::files::folder_bytes;
use crate::load;
use crate::settings::Settings;
use crate::units::{bytes, count, duration};
use gorgon_core::accept::RuleChoice;
use gorgon_data::config::BatchSize;
use gorgon_data::distill::{self, Answering, Budget, DistillError, Distillation, Journal, Servers};
use gorgon_data::render::Example;
use gorgon_data::shard::{self, Row};
use gorgon_infer::batch::Drafts;
use gorgon_model::device::Compute;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Bytes of what is written at the end beside the shards: the report, and what the shards are.
const REPORTS: u64 = 2000;

/// Time and memory of answering.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Bytes in memory at most, as said before, and a look at what there was since before the model was loaded; none
    /// where servers answer.
    memory: Option<(u64, Option<Watch>)>,
    /// Bytes that a GPU's pool came to hold since then.
    pool: Option<u64>,
    /// Bytes of the output folder.
    disk: Option<u64>,
    /// Expectation from the sample.
    expected: Option<Totals>,
    /// Measured totals.
    measured: Totals,
}

impl Usage {
    /// With the bytes that the output folder has in the end.
    pub fn with_disk(self, bytes: u64) -> Self {
        Self { disk: Some(bytes), ..self }
    }

    /// As it stands in a report.
    pub fn to_json(self) -> Value {
        let of = |expected: fn(&Totals) -> Option<f64>, measured: Option<f64>| {
            self.expected.as_ref().and_then(expected).map_or(Value::Null, |expected| pair(expected, measured))
        };
        let (measured, peak) = (self.measured, self.peak().map(|peak| peak as f64));
        let before = self.memory.and_then(|(_, watch)| watch?.before()).map_or(f64::NAN, |before| before as f64);
        let expected = self.expected.and_then(|expected| expected.memory);
        json!({
            "memory_bytes_at_most": self.memory.map(|(most, _)| most),
            "memory_bytes": of(|totals| totals.memory, peak),
            "peak_rss_bytes": expected.map(|expected| pair(before + expected, peak.map(|peak| before + peak))),
            "disk_bytes": of(|totals| totals.disk, self.disk.map(|disk| disk as f64)),
            "new_tokens": of(|totals| Some(totals.tokens), Some(measured.tokens)),
            "answering_seconds": of(|totals| Some(totals.seconds), Some(measured.seconds)),
        })
    }

    /// The highest resident size so far, beyond that before the model was loaded; with a GPU what its pool holds.
    fn peak(&self) -> Option<u64> {
        self.pool.or_else(|| self.memory?.1?.peak())
    }

    /// In words, if there is something to compare.
    pub fn words(&self) -> Option<String> {
        let mut said = vec![];
        if let (Some((most, _)), Some(peak)) = (self.memory, self.peak()) {
            let planned = self.expected.and_then(|expected| expected.memory);
            let planned = planned.map_or_else(|| format!("at most {}", bytes(most)), |planned| bytes(planned as u64));
            said.push(format!("memory {planned} / {}", bytes(peak)));
        }
        if let Some(expected) = self.expected {
            if let (Some(planned), Some(taken)) = (expected.disk, self.disk) {
                said.push(format!("disk {} / {}", bytes(planned as u64), bytes(taken)));
            }
            let tokens = |totals: Totals| count(totals.tokens as u128);
            said.push(format!("new tokens {} / {}", tokens(expected), tokens(self.measured)));
            let (planned, taken) = (expected.seconds, self.measured.seconds);
            said.push(format!("answering {} / {}", duration(planned), duration(taken)));
        }
        (!said.is_empty()).then(|| format!("planned / measured: {}", said.join("; ")))
    }
}

impl Job {
    /// Lets the model answer; `None` if it was asked to stop.
    pub fn answer(
        &self,
        prompts: &[distill::Prompt],
        journal: &mut Journal,
        folder: &Path,
        settings: &Settings,
    ) -> Result<Option<Usage>, Failure> {
        let mut budget = Budget::new(self.config.max_total_tokens);
        let reached = budget.reached(prompts, journal).is_some();
        if reached || prompts.iter().all(|prompt| journal.is_done(prompt.row)) {
            return Ok(Some(Usage::default()));
        }
        let to_come = prompts.iter().filter(|prompt| !journal.is_done(prompt.row));
        // With a limit nobody knows how many conversations there will be.
        let is_forecast = |_: &&distill::Prompt| !budget.is_limited();
        let sample = distill::sample(to_come.clone().filter(is_forecast));
        let slots = self.slots(settings)?.min(to_come.clone().count());
        let asked = distill::in_turn(to_come).into_iter().map(Into::into).collect();
        let disk = |rows: &BTreeSet<u64>| self.look_at_disk(rows, prompts, folder);
        let readings = Readings { asked, memory: None, disk: &disk };
        let work = Work { conversations: prompts.len(), before: journal.conversations(), slots };
        let stop = settings.console.stop_flag();
        let (finished, usage) = if self.config.is_served() {
            let mut meter = Meter::new(work, sample, readings, settings);
            let finished =
                distill::serve(&self.servers(slots), prompts, journal, &stop, &mut |event| meter.count(event));
            let (expected, measured) = meter.finish();
            (finished, Usage { expected, measured, ..Usage::default() })
        } else {
            self.answer_here(prompts, journal, (work, sample, readings), &stop, settings)?
        };
        let finished = finished.map_err(|error| match error {
            DistillError::NonFinite { .. } => Failure::run(error),
            DistillError::Unserved { .. } | DistillError::NoServers { .. } => {
                Failure::run(error).hint("finished answers are kept; the same command continues")
            }
            error => error.into(),
        })?;
        journal.sync()?;
        Ok(finished.then_some(usage))
    }

    /// Lets the model on this machine answer, with drafts if the job has any.
    fn answer_here(
        &self,
        prompts: &[distill::Prompt],
        journal: &mut Journal,
        (work, sample, readings): (Work, BTreeSet<u64>, Readings<'_>),
        stop: &AtomicBool,
        settings: &Settings,
    ) -> Result<(Result<bool, DistillError>, Usage), Failure> {
        let rule = RuleChoice::Auto.resolve(&self.transform).rule(self.transform);
        let answering = Answering {
            max_new_tokens: self.config.sampling.max_new_tokens,
            max_tokens: self.config.max_tokens,
            self_talk_turns: self.config.self_talk_turns,
            rule: rule.as_ref(),
            seed: self.config.sampling.seed,
        };
        let compute = settings.compute()?;
        let room = self.room(&compute)?;
        let (watch, pool) = (Watch::start(), Pool::of(&compute));
        let decoder = load::decoder(&self.dir, self.capacity(), settings)?;
        // As planned; loading alone does not know of the other conversations.
        decoder.compute().prefilter_budget().set(room.copies);
        let drafters = self.drafting.as_ref().map(|drafting| drafting.drafters(&decoder)).transpose()?;
        let drafter = || match (&self.drafting, &drafters) {
            (Some(drafting), Some(all)) => drafting.drafter(all),
            _ => Drafters::None.drafter(),
        };
        let builder = self.drafting.as_ref().map(|drafting| drafting.builder.as_ref());
        let drafts = builder.map(|tree| Drafts { drafter: &drafter, tree });
        // On another device, this process's own memory says nothing.
        let watch = Some(watch).filter(|_| compute.is_host());
        let memory = watch.map(|watch| Memory { watch, capacity: self.capacity(), per_token: room.per_token });
        let mut meter = Meter::new(work, sample, Readings { memory, ..readings }, settings);
        let budget = Budget::new(self.config.max_total_tokens);
        let with =
            Distillation { decoder: &decoder, renderer: &self.renderer, answering, slots: work.slots, drafts, budget };
        let finished = distill::distill(&with, prompts, journal, stop, &mut |event| meter.count(event));
        let (expected, measured) = meter.finish();
        let (memory, pool) = (Some((room.bytes(work.slots), watch)), pool.as_ref().map(Pool::grown));
        Ok((finished, Usage { memory, pool, expected, measured, ..Usage::default() }))
    }

    /// Bytes on disk of some rows, and of everything beside them.
    fn look_at_disk(&self, wanted: &BTreeSet<u64>, prompts: &[distill::Prompt], folder: &Path) -> Option<OnDisk> {
        let (scratch, path) = (tempfile::tempdir().ok()?, folder.join(JOURNAL));
        // What is being written is read from a copy.
        let copy = scratch.path().join(JOURNAL);
        std::fs::copy(&path, &copy).ok()?;
        let answered = Journal::open(&copy).ok()?;
        let sample: Vec<_> = prompts.iter().filter(|prompt| wanted.contains(&prompt.row)).cloned().collect();
        let (rows, _) = distill::rows(&self.renderer, &sample, &answered).ok()?;
        let metadata = metadata(&self.identity().ok()?);
        let bare = |part: &[distill::Prompt]| size(&part.iter().map(without_tokens).collect::<Vec<_>>(), &metadata);
        let bare = prompts.chunks(shard::ROWS_PER_SHARD).map(bare).sum::<Option<u64>>()?;
        let others = folder_bytes(folder).saturating_sub(std::fs::metadata(&path).ok()?.len()) + REPORTS;
        Some(OnDisk { journal: answered.bytes_of(wanted), others, bare, tokens: tokens(&rows, &metadata)? })
    }

    fn servers(&self, slots: usize) -> Servers<'_> {
        let s = &self.config.sampling;
        Servers {
            urls: &self.config.servers,
            serving: &self.config.serving,
            renderer: &self.renderer,
            vocab_size: self.model.vocab_size,
            max_new_tokens: s.max_new_tokens,
            max_tokens: self.config.max_tokens,
            seed: s.seed,
            sampling: (s.temperature, s.top_p, s.top_k),
            context: self.model.max_positions,
            slots,
            budget: Budget::new(self.config.max_total_tokens),
        }
    }

    pub(super) fn room(&self, compute: &Compute) -> Result<MemoryBudget, Failure> {
        let model = (self.dir.as_path(), &self.model);
        let drafts = (self.drafting.as_ref(), self.transform.is_greedy());
        MemoryBudget::new(&self.config, model, self.capacity(), drafts, compute)
    }

    /// Conversations at a time.
    pub(super) fn slots(&self, settings: &Settings) -> Result<usize, Failure> {
        match self.config.batch_size {
            BatchSize::Auto if self.config.is_served() => Ok(memory_budget::UNBOUNDED),
            BatchSize::Conversations(n) if self.config.is_served() => Ok(n),
            _ => Ok(self.room(&settings.compute()?)?.slots),
        }
    }
}

/// Bytes of a shard.
fn size(rows: &[Row], metadata: &BTreeMap<String, String>) -> Option<u64> {
    Some(shard::encoded(rows, metadata).ok()?.len() as u64)
}

/// The row of a conversation of which everything is known but its tokens.
fn without_tokens(prompt: &distill::Prompt) -> Row {
    Row {
        row: prompt.row,
        key: prompt.key,
        id: prompt.id.clone(),
        source: prompt.source.clone(),
        line: prompt.line,
        category: prompt.category.clone(),
        example: Example::default(),
        ends: vec![distill::END_TOKEN.into(); prompt.users.len()],
        shard: String::new(),
    }
}

/// Shard bytes of a sample's rows, and of its quarters.
fn tokens(rows: &[Row], metadata: &BTreeMap<String, String>) -> Option<Tokens> {
    let of = |rows: &[Row]| {
        let bare: Vec<Row> = rows.iter().map(|row| Row { example: Example::default(), ..row.clone() }).collect();
        Some(size(rows, metadata)?.saturating_sub(size(&bare, metadata)?) as f64)
    };
    let quarter = |first: usize| of(&rows.iter().skip(first).step_by(4).cloned().collect::<Vec<_>>());
    let quarters = (0..4).map(quarter).sum::<Option<f64>>()?;
    Some(Tokens { rows: rows.len(), all: of(rows)?, quarter: quarters / 4.0 })
}
