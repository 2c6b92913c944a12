//! Two models beside each other: logits and greedy text.

use crate::drafting::DrafterChoice;
use crate::failure::Failure;
use crate::measuring::{Options, Setup};
use crate::settings::Settings;
use gorgon_core::Token;
use serde::Serialize;

/// How far two models differ.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Equality {
    /// Prompts that both answered.
    pub prompts: usize,
    /// Answers with equal tokens.
    pub same_text: usize,
    /// Positions at which all logits were compared: prompts and the first model's answers.
    pub positions: usize,
    /// The greatest difference of two logits.
    pub greatest_difference: f32,
}

/// Lets two models answer the same prompts greedily without drafts, and compares texts and logits.
///
/// # Errors
/// When a model or the prompts are wrong, or the vocabularies differ.
pub fn compare(options: &Options, other: &str, settings: &Settings) -> Result<Equality, Failure> {
    let plain = Options { heads: None, drafter: DrafterChoice::None, tree: None, ..options.clone() };
    let mut first = Setup::new(&plain, settings)?;
    let mut second = Setup::new(&Options { model: other.to_owned(), ..plain }, settings)?;
    let (one, two) = (first.decoder.config().vocab_size, second.decoder.config().vocab_size);
    if one != two {
        return Err(Failure::input(format!("{other}: a vocabulary of {two}, not {one}")));
    }
    let mut equality = Equality::default();
    for prompt in first.prompts.clone() {
        let (text, logits) = answer(&mut first, &prompt.ids, None)?;
        let read = [&prompt.ids[..], &text].concat();
        let (other_text, other_logits) = answer(&mut second, &prompt.ids, Some(&read))?;
        equality.prompts += 1;
        equality.same_text += usize::from(text == other_text);
        equality.positions += read.len();
        // A difference that is no number is not passed over.
        let differences = logits.iter().zip(&other_logits).map(|(a, b)| (a - b).abs());
        let greatest = differences.fold(0f32, |greatest, d| if d.is_nan() { f32::INFINITY } else { greatest.max(d) });
        equality.greatest_difference = equality.greatest_difference.max(greatest);
    }
    Ok(equality)
}

/// The greedy answer to a prompt, and the logits at every position of a text: prompt and answer, unless one is given.
fn answer(setup: &mut Setup, prompt: &[Token], text: Option<&[Token]>) -> Result<(Vec<Token>, Vec<f32>), Failure> {
    let decoder = setup.decoder.clone();
    let mut comparison = setup.comparison(0);
    let mut target = comparison.target(prompt.len());
    let ids = comparison.plain(&mut target, prompt)?.ids;
    let own = [prompt, &ids].concat();
    target.reset();
    let hidden = target.prefill(text.unwrap_or(&own))?.hidden;
    let logits = decoder.logits(&hidden).to_vec();
    Ok((ids, logits))
}
