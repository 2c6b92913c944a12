//! The part of a distillation in which the model, here or on servers, answers.

use super::Job;
use crate::commands::distill_progress::{Meter, Totals, Work};
use crate::commands::distill_room::{self, Room};
use crate::commands::drafters::Drafters;
use crate::commands::load;
use crate::error::Failure;
use crate::estimate::{Watch, pair};
use crate::fitting;
use crate::printer::{bytes, count};
use crate::settings::Settings;
use gorgon_core::accept::RuleChoice;
use gorgon_data::config::BatchSize;
use gorgon_data::distill::{self, Answering, DistillError, Distillation, Journal, Servers};
use gorgon_infer::batch::Drafts;
use gorgon_model::device::Compute;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// What answering took, beside what was said before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Took {
    /// Bytes in memory as planned, and the highest resident size beyond what there was before the model was loaded; none
    /// where servers answer.
    memory: Option<(u64, Option<u64>)>,
    /// What the sample made one expect.
    expected: Option<Totals>,
    /// What there was.
    measured: Totals,
}

impl Took {
    /// As it stands in a report.
    pub fn to_json(self) -> Value {
        let of = |of: fn(&Totals) -> f64| {
            self.expected.map_or(Value::Null, |expected| pair(of(&expected), Some(of(&self.measured))))
        };
        json!({
            "memory_bytes": self.memory.map(|(plan, peak)| pair(plan as f64, peak.map(|peak| peak as f64))),
            "new_tokens": of(|totals| totals.tokens),
            "answering_seconds": of(|totals| totals.seconds),
        })
    }

    /// In words, if there is something to compare.
    pub fn words(&self) -> Option<String> {
        let mut said = vec![];
        if let Some((planned, Some(peak))) = self.memory {
            said.push(format!("memory {} / {}", bytes(planned), bytes(peak)));
        }
        if let Some(expected) = self.expected {
            let tokens = |totals: Totals| count(totals.tokens as u128);
            said.push(format!("new tokens {} / {}", tokens(expected), tokens(self.measured)));
            let (planned, took) = (expected.seconds, self.measured.seconds);
            said.push(format!("answering {} / {}", fitting::duration(planned), fitting::duration(took)));
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
        settings: &Settings,
    ) -> Result<Option<Took>, Failure> {
        if prompts.iter().all(|prompt| journal.is_done(prompt.row)) {
            return Ok(Some(Took::default()));
        }
        let to_come = prompts.iter().filter(|prompt| !journal.is_done(prompt.row));
        let pilots = distill::pilots(to_come.clone());
        let slots = self.slots(settings)?.min(to_come.count());
        let work = Work { conversations: prompts.len(), before: journal.conversations(), slots };
        let stop = fitting::stop_flag()?;
        let (finished, took) = if self.config.is_served() {
            let mut meter = Meter::new(work, pilots, settings);
            let finished =
                distill::serve(&self.servers(slots), prompts, journal, &stop, &mut |event| meter.count(event));
            let (expected, measured) = meter.finish();
            (finished, Took { memory: None, expected, measured })
        } else {
            self.answer_here(prompts, journal, (work, pilots), &stop, settings)?
        };
        let finished = finished.map_err(|error| match error {
            DistillError::Unsound { .. } => Failure::run(error),
            DistillError::Unserved { .. } => {
                Failure::run(error).hint("what was answered is kept; the same command goes on from there")
            }
            error => Failure::input(error),
        })?;
        journal.sync()?;
        Ok(finished.then_some(took))
    }

    /// Lets the model on this machine answer, with drafts if the job has any.
    fn answer_here(
        &self,
        prompts: &[distill::Prompt],
        journal: &mut Journal,
        (work, pilots): (Work, BTreeSet<u64>),
        stop: &AtomicBool,
        settings: &Settings,
    ) -> Result<(Result<bool, DistillError>, Took), Failure> {
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
        let watch = Watch::start();
        let decoder = load::decoder(&self.dir, self.capacity(), settings)?;
        let drafters = self.drafting.as_ref().map(|drafting| drafting.drafters(&decoder)).transpose()?;
        let drafter = || drafters.as_ref().map_or_else(|| Drafters::None.drafter(), Drafters::drafter);
        let builder = self.drafting.as_ref().map(|drafting| drafting.builder.as_ref());
        let drafts = builder.map(|builder| Drafts { drafter: &drafter, builder });
        let mut meter = Meter::new(work, pilots, settings);
        let with = Distillation { decoder: &decoder, renderer: &self.renderer, answering, slots: work.slots, drafts };
        let finished = distill::distill(&with, prompts, journal, stop, &mut |event| meter.count(event));
        let (expected, measured) = meter.finish();
        // On another device, this process's own memory says nothing.
        let memory = Some((room.bytes(work.slots), watch.peak().filter(|_| compute.is_host())));
        Ok((finished, Took { memory, expected, measured }))
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
        }
    }

    pub(super) fn room(&self, compute: &Compute) -> Result<Room, Failure> {
        let model = (self.dir.as_path(), &self.model);
        Room::new(&self.config, model, self.capacity(), self.drafting.as_ref(), compute)
    }

    /// Conversations at a time.
    pub(super) fn slots(&self, settings: &Settings) -> Result<usize, Failure> {
        match self.config.batch_size {
            BatchSize::Auto if self.config.is_served() => Ok(distill_room::UNBOUNDED),
            BatchSize::Conversations(n) if self.config.is_served() => Ok(n),
            _ => Ok(self.room(&settings.compute()?)?.slots),
        }
    }
}
