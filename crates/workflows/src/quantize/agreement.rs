//! How near a quantised model is to the one that it was made from.
//!
//! `KL = Σ_v p(v) (ln p(v) - ln q(v))` in nats at every position of some texts, `p` the model's distribution of the next
//! token and `q` the quantised model's. One model is in memory at a time: the final hidden states of the first one are
//! kept, and both go through the LM head, which is the same.

use super::stop::Stop;
use crate::console::{Bar, BarStyle};
use crate::devices::Devices;
use crate::failure::Failure;
use crate::load;
use crate::prompts;
use crate::settings::{NumberFormats, Settings};
use gorgon_core::Token;
use gorgon_core::dist::{Row, argmax};
use gorgon_data::render::Renderer;
use gorgon_data::source::Conversation;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{ActivationBits, DeviceChoice, IntegerWeights, Products};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Rows of logits at a time.
const ROWS: usize = 64;

/// Texts on which two models are compared.
pub(super) struct Texts {
    file: String,
    ids: Vec<Vec<Token>>,
}

/// Divergence at all positions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Divergence {
    pub positions: usize,
    pub kl: f64,
    pub same: usize,
}

/// Divergences over some texts.
#[derive(Clone, Debug)]
pub(super) struct Agreement {
    pub prompts: String,
    pub texts: usize,
    /// Activations in `f32`.
    pub exact: Divergence,
    /// Activations of rounded matrices in 8 bits.
    pub eight: Divergence,
    pub seconds: f64,
}

impl Divergence {
    /// Mean KL divergence, in nats per position.
    pub fn mean(&self) -> f64 {
        self.kl / self.positions.max(1) as f64
    }

    /// Share of positions at which both models have the same top-1 token.
    pub fn top1(&self) -> f64 {
        self.same as f64 / self.positions.max(1) as f64
    }

    fn document(&self) -> Value {
        json!({"kl_nats_per_position": self.mean(), "top1_agreement": self.top1()})
    }
}

impl Agreement {
    pub fn document(&self) -> Value {
        let (exact, eight) = (self.exact.document(), self.eight.document());
        json!({
            "prompts": self.prompts, "texts": self.texts, "positions": self.exact.positions,
            "activations_f32": exact, "activations_8_bit": eight, "seconds": self.seconds,
        })
    }
}

impl Texts {
    /// The first `limit` conversations of a file, with the answers that it gives, cut at the model's context.
    ///
    /// # Errors
    /// When the file or the tokenizer cannot be read, or the file holds nothing of use.
    pub fn read(
        path: &Path,
        limit: usize,
        (dir, config): (&Path, &ModelConfig),
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let renderer = prompts::renderer(dir, None, settings)?;
        let mut ids = vec![];
        for conversation in prompts::read(&[path.into()], limit, settings)? {
            let mut text = rendered(&renderer, &conversation)?;
            text.truncate(config.max_positions);
            ids.extend(Some(text).filter(|text| !text.is_empty()));
        }
        if ids.is_empty() {
            return Err(Failure::input(format!("{}: no prompt has a token", path.display())));
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { file, ids })
    }

    /// Compares the model in one folder with the quantised one in another.
    ///
    /// # Errors
    /// When one of them does not fit into memory, its logits are not finite, or the user asked to stop.
    pub fn compare(
        &self,
        model: &Path,
        quantised: &Path,
        stop: &Stop,
        settings: &Settings,
    ) -> Result<Agreement, Failure> {
        let begun = Instant::now();
        let positions: usize = self.ids.iter().map(Vec::len).sum();
        let bar = settings.console.bar(BarStyle::Count, "positions", 3 * positions as u64);
        let mut states = vec![];
        self.each(model, None, &bar, settings, |_, hidden| {
            states.push(hidden);
            stop.check()
        })?;
        let mut found = [Divergence::default(); 2];
        for (found, bits) in found.iter_mut().zip([ActivationBits::ThirtyTwo, ActivationBits::Eight]) {
            let mut originals = states.iter();
            self.each(quantised, Some(bits), &bar, settings, |decoder, hidden| {
                stop.check()?;
                originals.next().map_or(Ok(()), |original| found.add(decoder, original, &hidden))
            })?;
        }
        let ([exact, eight], seconds) = (found, begun.elapsed().as_secs_f64());
        Ok(Agreement { prompts: self.file.clone(), texts: self.ids.len(), exact, eight, seconds })
    }

    /// Hands the final hidden states of each text to `take`, with the model in a folder.
    fn each(
        &self,
        dir: &Path,
        bits: Option<ActivationBits>,
        bar: &Bar,
        settings: &Settings,
        mut take: impl FnMut(&Decoder, HiddenStates) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let longest = self.ids.iter().map(Vec::len).max().unwrap_or(0);
        let decoder = load::decoder(dir, longest, &on_cpu(bits, settings))?;
        let mut target = DecoderTarget::new(Arc::clone(&decoder), longest, Hooks::none());
        for ids in &self.ids {
            target.truncate(0);
            take(&decoder, target.prefill(ids)?.hidden)?;
            bar.inc(ids.len() as u64);
        }
        Ok(())
    }
}

/// Settings of the comparison, which runs on the CPU: weights as they are stored, inputs of integers in so many bits.
fn on_cpu(bits: Option<ActivationBits>, settings: &Settings) -> Settings {
    let integers = IntegerWeights { activation_bits: bits, ..IntegerWeights::STORED };
    let formats = NumberFormats { dtype: None, compute_dtype: Products::F32, integers };
    Settings { devices: Devices::Named(vec![DeviceChoice::Cpu]), formats, ..settings.clone() }
}

/// A conversation as tokens, up to the first user turn without an answer. It ends earlier where the template does not
/// write an earlier turn as it was; a model without a template reads the first turn.
fn rendered(renderer: &Renderer, conversation: &Conversation) -> Result<Vec<Token>, Failure> {
    let system = conversation.system.as_deref().filter(|_| renderer.has_template());
    let mut transcript = renderer.transcript(system)?;
    for (index, turn) in conversation.turns.iter().enumerate() {
        if index > 0 && (!renderer.has_template() || transcript.ask(&turn.user).is_err()) {
            break;
        }
        if index == 0 {
            transcript.ask(&turn.user)?;
        }
        let Some(answer) = turn.assistant.as_deref().filter(|_| turn.calls.is_empty()) else { break };
        if transcript.answer(answer).is_err() {
            break;
        }
    }
    Ok(transcript.example().ids.clone())
}

impl Divergence {
    /// Adds the positions of one text.
    fn add(&mut self, decoder: &Decoder, original: &HiddenStates, quantised: &HiddenStates) -> Result<(), Failure> {
        let rows = original.rows();
        for first in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - first);
            let logits = |states: &HiddenStates| decoder.logits(&states.narrow(first, count));
            let (p, q) = (logits(original), logits(quantised));
            let vocab = p.len() / count;
            let pairs = p.par_chunks_exact(vocab).zip(q.par_chunks_exact(vocab));
            let rows: Vec<Option<(f64, bool)>> = pairs.map(|(p, q)| divergence(p, q)).collect();
            for (row, found) in rows.into_iter().enumerate() {
                let wrong = || Failure::run(format!("the logits at position {} are not finite", first + row));
                let (kl, same) = found.ok_or_else(wrong)?;
                self.positions += 1;
                self.kl += kl;
                self.same += usize::from(same);
            }
        }
        Ok(())
    }
}

/// KL divergence of two rows of logits, and whether their top-1 tokens are equal; `None` where one is not finite.
fn divergence(p: &[f32], q: &[f32]) -> Option<(f64, bool)> {
    if !Row::Logits(p).is_valid() || !Row::Logits(q).is_valid() {
        return None;
    }
    let log_sum = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        f64::from(most) + row.iter().map(|&x| f64::from(x - most).exp()).sum::<f64>().ln()
    };
    let (of_p, of_q) = (log_sum(p), log_sum(q));
    let terms = p.iter().zip(q).map(|(&p, &q)| {
        let (p, q) = (f64::from(p) - of_p, f64::from(q) - of_q);
        p.exp() * (p - q)
    });
    Some((terms.sum::<f64>().max(0.0), argmax(p) == argmax(q)))
}

#[cfg(test)]
mod tests;
