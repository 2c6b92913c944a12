//! The law of text, by enumeration.

use crate::composed::models::{TINY, generate};
use gorgon_core::Token;
use gorgon_core::accept::random::enumerate;
use gorgon_core::accept::{AcceptanceRule, RandomSource};
use gorgon_core::dist::{Row, Transform};
use gorgon_core::tree::TreeBuilder;
use gorgon_draft::drafter::Drafter;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;

pub const PROMPT: &[Token] = &[1, 0, 2, 1, 0];
/// The first token is plain decoding's, two more come of drafted steps.
const NEW: usize = 3;

fn place(text: &[Token]) -> usize {
    text.iter().fold(0, |place, &token| place * TINY.vocab_size + token as usize)
}

/// Adds the probabilities of all texts that continue one by `new` tokens. In front of them is a text of which an
/// encoder reads all but the last token.
fn extend(
    (target, before, transform): (&Arc<Decoder>, &[Token], &Transform),
    new: usize,
    text: &[Token],
    probability: f64,
    law: &mut [f64],
) {
    if new == 0 {
        law[place(text)] += probability;
        return;
    }
    let read = [before, text].concat();
    let mut alone = DecoderTarget::new(target.clone(), read.len(), Hooks::none());
    let hidden = alone.prefill_behind(before.len() - 1, &read).unwrap().hidden;
    let logits = alone.logits(&hidden.narrow(hidden.rows() - 1, 1));
    for (token, &p) in (0..).zip(transform.apply(Row::Logits(&logits)).iter()) {
        extend((target, before, transform), new - 1, &[text, &[token]].concat(), probability * p, law);
    }
}

/// Greatest difference between the law of a drafter's text and plain decoding's.
pub fn error(
    target: &Arc<Decoder>,
    drafter: &mut dyn Drafter,
    tree: &dyn TreeBuilder,
    (rule, transform): (&dyn AcceptanceRule, &Transform),
) -> f64 {
    error_of(target, transform, NEW, &mut |random| {
        generate(target, &mut *drafter, (tree, rule), (PROMPT, NEW), random).ids
    })
}

/// As [`error`], of `new` tokens after [`PROMPT`], however they are generated.
pub fn error_of(
    target: &Arc<Decoder>,
    transform: &Transform,
    new: usize,
    generate: &mut dyn FnMut(&mut dyn RandomSource) -> Vec<Token>,
) -> f64 {
    error_behind((target, PROMPT), transform, new, generate)
}

/// As [`error_of`], of tokens after another text.
pub fn error_behind(
    (target, before): (&Arc<Decoder>, &[Token]),
    transform: &Transform,
    new: usize,
    generate: &mut dyn FnMut(&mut dyn RandomSource) -> Vec<Token>,
) -> f64 {
    let mut plain = vec![0.0; TINY.vocab_size.pow(new as u32)];
    extend((target, before, transform), new, &[], 1.0, &mut plain);
    let mut found = vec![0.0; plain.len()];
    for (probability, ids) in enumerate(generate) {
        found[place(&ids)] += probability;
    }
    found.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}
