//! Whether drafted text is plain text, token for token, and how close a call it was where it is not.

use crate::BenchError;
use crate::measure::{BenchPrompt, Comparison};
use gorgon_core::Token;
use gorgon_core::dist::top_indices;
use gorgon_model::target::{DecoderTarget, Target};
use serde::Serialize;

/// Where two texts part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    /// The new token, from 0.
    pub at: usize,
    /// Token of plain decoding.
    pub plain: Option<Token>,
    /// Token of drafted decoding.
    pub drafted: Option<Token>,
    /// The two greatest logits there, scored anew one token at a time, and their distance.
    pub top_logits: (f32, f32),
    /// Their distance.
    pub gap: f32,
}

/// Plain and drafted text of one prompt, compared.
#[derive(Clone, Debug, Serialize)]
pub struct TextComparison {
    /// The prompt.
    pub id: String,
    /// New tokens compared.
    pub tokens: usize,
    /// Drafts accepted: a comparison without any shows nothing.
    pub accepted: usize,
    /// The first difference, if there is one.
    pub divergence: Option<Divergence>,
}

impl Comparison<'_> {
    /// Decodes every prompt plainly and drafted, and compares the tokens.
    ///
    /// # Errors
    /// When a prompt does not fit, or the model or the drafter fails.
    pub fn compare(
        &mut self,
        prompts: &[BenchPrompt],
        observe: &mut dyn FnMut(&TextComparison),
    ) -> Result<Vec<TextComparison>, BenchError> {
        let longest = prompts.iter().map(|p| p.ids.len()).max().unwrap_or(0);
        let mut target = self.target(longest);
        let mut all = vec![];
        for prompt in prompts {
            let plain = self.plain(&mut target, &prompt.ids)?.ids;
            let generation = self.drafted(&mut target, &prompt.ids)?;
            let drafted = generation.ids;
            let same = plain.iter().zip(&drafted).take_while(|(a, b)| a == b).count();
            let divergence = match same == plain.len() && same == drafted.len() {
                true => None,
                false => Some(divergence(&mut target, &prompt.ids, same, &plain, &drafted)?),
            };
            let accepted = generation.accepted.iter().sum();
            let comparison = TextComparison { id: prompt.id.clone(), tokens: plain.len(), accepted, divergence };
            observe(&comparison);
            all.push(comparison);
        }
        Ok(all)
    }
}

fn divergence(
    target: &mut DecoderTarget,
    prompt: &[Token],
    at: usize,
    plain: &[Token],
    drafted: &[Token],
) -> Result<Divergence, BenchError> {
    target.reset();
    let context = [prompt, &plain[..at]].concat();
    let output = target.prefill_behind(prompt.len() - 1, &context)?;
    let logits = target.logits(&output.hidden.narrow(output.hidden.rows() - 1, 1));
    let value = |&index: &usize| logits.get(index).copied().unwrap_or(f32::NAN);
    let top: Vec<f32> = top_indices(&logits, 2).iter().map(value).collect();
    let (first, second) = (top.first().copied().unwrap_or(f32::NAN), top.get(1).copied().unwrap_or(f32::NAN));
    Ok(Divergence {
        at,
        plain: plain.get(at).copied(),
        drafted: drafted.get(at).copied(),
        top_logits: (first, second),
        gap: first - second,
    })
}
