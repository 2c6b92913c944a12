//! Copying drills: random tokens to be said again, or values to be found by their keys.
//!
//! A small model learns late to look back by content (to copy a word it never saw in this place, to find a row of a
//! table by its name), since ordinary text rewards it thinly. A drill has nothing but that: every label is somewhere in
//! the prompt, and nothing else tells it.

use crate::render::{Example, RenderError, Renderer};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;

/// Tokens of a prompt that is to be echoed, at least and at most.
const ECHO: (usize, usize) = (4, 32);
/// Pairs of a prompt that is to be looked up in, at least and at most.
const PAIRS: (usize, usize) = (3, 12);

/// Writes drills in a model's chat format.
pub struct Drills<'a> {
    renderer: &'a Renderer,
    opening: Vec<Token>,
    closing: Vec<Token>,
    /// Tokens that drills are made of: all but special ones.
    tokens: Vec<Token>,
    seed: u64,
}

impl<'a> Drills<'a> {
    /// Drills for the model of `renderer`.
    ///
    /// # Errors
    /// When the model has no chat template, or one that does not show where a turn begins and ends.
    pub fn new(renderer: &'a Renderer, seed: u64) -> Result<Self, RenderError> {
        let mut transcript = renderer.transcript(None)?;
        let opening = transcript.user_opening()?;
        let word = renderer.text().encode("x", false)?;
        transcript.ask("x")?;
        let asked = &transcript.example().ids;
        let closing = asked.strip_prefix(&opening[..]).and_then(|rest| rest.strip_prefix(&word[..]));
        let closing = closing.ok_or(RenderError::Rewrites)?.to_vec();
        let all = 0..renderer.text().vocab_size() as Token;
        let ordinary = |id: &Token| renderer.text().decode(&[*id], true).is_ok_and(|text| !text.is_empty());
        Ok(Self { renderer, opening, closing, tokens: all.filter(ordinary).collect(), seed })
    }

    /// Drill number `index`.
    pub fn drill(&self, index: u64) -> Example {
        let mut random = SeededRandom::stream(self.seed, index);
        let (prompt, answer) = if random.uniform() < 0.5 { self.echo(&mut random) } else { self.look_up(&mut random) };
        let mut example = Example::default();
        let mut append = |ids: &[Token], own: bool| {
            example.ids.extend(ids);
            example.assistant.extend(ids.iter().map(|_| own));
        };
        append(&self.opening, false);
        append(&prompt, false);
        append(&self.closing, false);
        append(&answer, true);
        append(&self.renderer.end_tokens()[..self.renderer.end_tokens().len().min(1)], true);
        example
    }

    fn distinct(&self, n: usize, random: &mut SeededRandom) -> Vec<Token> {
        let mut chosen: Vec<Token> = vec![];
        while chosen.len() < n.min(self.tokens.len()) {
            let token = self.tokens[below(self.tokens.len(), random)];
            if !chosen.contains(&token) {
                chosen.push(token);
            }
        }
        chosen
    }

    fn echo(&self, random: &mut SeededRandom) -> (Vec<Token>, Vec<Token>) {
        let said = self.distinct(between(ECHO, random), random);
        (said.clone(), said)
    }

    /// Pairs in one order, to be said in another.
    fn look_up(&self, random: &mut SeededRandom) -> (Vec<Token>, Vec<Token>) {
        let said = self.distinct(2 * between(PAIRS, random), random);
        let mut pairs: Vec<&[Token]> = said.chunks_exact(2).collect();
        for i in (1..pairs.len()).rev() {
            pairs.swap(i, below(i + 1, random));
        }
        let answer = pairs.concat();
        (said, answer)
    }
}

fn below(n: usize, random: &mut SeededRandom) -> usize {
    ((random.uniform() * n as f64) as usize).min(n.saturating_sub(1))
}

fn between((low, high): (usize, usize), random: &mut SeededRandom) -> usize {
    low + below(high - low + 1, random)
}

#[cfg(test)]
mod tests;
