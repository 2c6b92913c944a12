//! The report of an answer.

use crate::args::Generate;
use crate::settings::Settings;
use gorgon_infer::{Finish, Generation};
use gorgon_model::decoder::Decoder;
use gorgon_workflows::drafting::Drafting;
use gorgon_workflows::failure::Failure;
use gorgon_workflows::question::Question;
use gorgon_workflows::units;
use serde_json::{Value, json};
use std::sync::Arc;

/// Properties of an answer beside its tokens.
pub struct Answer<'a> {
    pub args: &'a Generate,
    pub settings: &'a Settings,
    pub decoder: &'a Arc<Decoder>,
    pub request: &'a Question,
    pub drafting: &'a Drafting,
}

impl Answer<'_> {
    /// Prints tokens, times and counts; `recorded` has those of recorded steps.
    pub fn report(&self, generation: &Generation, lossless: bool, rule: &str, recorded: Value) -> Result<(), Failure> {
        let decode = generation.decode_time.as_secs_f64();
        // The first token comes from prefill, so it does not count for the speed of decoding.
        let decoded = generation.ids.len() - 1;
        let speed = (decoded > 0 && decode > 0.0).then(|| decoded as f64 / decode);
        if self.settings.json {
            let mut document = self.document(generation)?;
            document["tokens_per_second"] = json!(speed);
            document["lossless"] = lossless.into();
            document["accept"] = rule.into();
            document["recorded"] = recorded;
            crate::printer::document(&document.to_string());
            return Ok(());
        }
        if self.request.text.is_none() || self.args.print_ids {
            let ids: Vec<String> = generation.ids.iter().map(u32::to_string).collect();
            crate::printer::line(&ids.join(","));
        }
        let speed = speed.map_or(String::new(), |speed| format!(", {speed:.1} tokens/s"));
        let per_step = generation.tokens_per_step().filter(|_| !self.drafting.is_plain());
        let per_step = per_step.map_or(String::new(), |tau| format!(", {tau:.2} tokens per step"));
        self.settings.console.say(format!(
            "{}{} in {decode:.3} s{speed}{per_step}; prompt of {} in {:.3} s; {rule}, {}",
            units::of(generation.ids.len(), "token"),
            if generation.finish == Finish::Length { " (cut off)" } else { "" },
            units::of(self.request.given, "token"),
            generation.prefill_time.as_secs_f64(),
            if lossless { "lossless" } else { "not lossless" }
        ));
        Ok(())
    }

    fn document(&self, generation: &Generation) -> Result<Value, Failure> {
        let text = self.request.text.as_ref().map(|text| text.decode(&generation.ids, true)).transpose()?;
        let compute = self.decoder.compute();
        Ok(json!({
            "model": self.args.model,
            "prompt_ids": self.request.prompt[..self.request.given],
            "ids": generation.ids,
            "text": text,
            "accepted": generation.accepted,
            "steps": generation.accepted.len(),
            "tokens_per_step": generation.tokens_per_step(),
            "seconds": generation.decode_time.as_secs_f64(),
            "prefill_seconds": generation.prefill_time.as_secs_f64(),
            "finish": generation.finish.name(),
            "drafter": self.drafting.name(),
            "tree": if self.drafting.is_plain() { "none" } else { &self.drafting.tree_name },
            "device": compute.choice().to_string(),
            "dtype": compute.precision(),
            "seed": self.settings.seed,
            "max_new_tokens": self.request.limits.max_new_tokens,
        }))
    }
}
