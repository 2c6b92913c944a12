//! The part of a distillation in which the model, here or on servers, answers.

use super::Job;
use crate::commands::distill_progress::Meter;
use crate::commands::distill_room::{self, Room};
use crate::commands::drafters::Drafters;
use crate::commands::load;
use crate::error::Failure;
use crate::fitting;
use crate::settings::Settings;
use gorgon_core::accept::RuleChoice;
use gorgon_data::config::BatchSize;
use gorgon_data::distill::{self, Answering, DistillError, Distillation, Journal, Servers};
use gorgon_infer::batch::Drafts;
use gorgon_model::device::Compute;
use std::sync::atomic::AtomicBool;

impl Job {
    /// Lets the model answer; false if it was asked to stop.
    pub fn answer(
        &self,
        prompts: &[distill::Prompt],
        journal: &mut Journal,
        settings: &Settings,
    ) -> Result<bool, Failure> {
        if prompts.iter().all(|prompt| journal.is_done(prompt.row)) {
            return Ok(true);
        }
        let slots = self.slots(settings)?.min(prompts.len());
        let stop = fitting::stop_flag()?;
        let finished = if self.config.is_served() {
            let mut meter = Meter::new(prompts.len(), journal.conversations(), settings);
            let finished =
                distill::serve(&self.servers(slots), prompts, journal, &stop, &mut |event| meter.count(event));
            meter.finish();
            finished
        } else {
            self.answer_here(prompts, journal, slots, &stop, settings)?
        };
        let finished = finished.map_err(|error| match error {
            DistillError::Unsound { .. } => Failure::run(error),
            DistillError::Unserved { .. } => {
                Failure::run(error).hint("what was answered is kept; the same command goes on from there")
            }
            error => Failure::input(error),
        })?;
        journal.sync()?;
        Ok(finished)
    }

    /// Lets the model on this machine answer, with drafts if the job has any.
    fn answer_here(
        &self,
        prompts: &[distill::Prompt],
        journal: &mut Journal,
        slots: usize,
        stop: &AtomicBool,
        settings: &Settings,
    ) -> Result<Result<bool, DistillError>, Failure> {
        let rule = RuleChoice::Auto.resolve(&self.transform).rule(self.transform);
        let answering = Answering {
            max_new_tokens: self.config.sampling.max_new_tokens,
            max_tokens: self.config.max_tokens,
            self_talk_turns: self.config.self_talk_turns,
            rule: rule.as_ref(),
            seed: self.config.sampling.seed,
        };
        let decoder = load::decoder(&self.dir, self.capacity(), settings)?;
        let drafters = self.drafting.as_ref().map(|drafting| drafting.drafters(&decoder)).transpose()?;
        let drafter = || drafters.as_ref().map_or_else(|| Drafters::None.drafter(), Drafters::drafter);
        let builder = self.drafting.as_ref().map(|drafting| drafting.builder.as_ref());
        let drafts = builder.map(|builder| Drafts { drafter: &drafter, builder });
        let mut meter = Meter::new(prompts.len(), journal.conversations(), settings);
        let with = Distillation { decoder: &decoder, renderer: &self.renderer, answering, slots, drafts };
        let finished = distill::distill(&with, prompts, journal, stop, &mut |event| meter.count(event));
        meter.finish();
        Ok(finished)
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
