//! A task from text to text, made up from a seed: models of any size learn a part of it in minutes.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;

/// Letters between noise: the answer is the letters alone, each moved to the next one of the alphabet (`z` to `a`).
///
/// `q 7x#b` asks for `ryc`. Texts are bytes, with the tokens of a byte-level tokenizer around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Seed of all pairs.
    pub seed: u64,
    /// Letters of a source, at least.
    pub shortest: usize,
    /// Letters of a source, at most.
    pub longest: usize,
}

/// A source and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The source as text.
    pub source: String,
    /// The answer as text.
    pub answer: String,
}

/// Characters that stand between letters.
const NOISE: &[u8] = b"0123456789#*-+";

/// A character of noise for so many letters.
const NOISE_EVERY: u64 = 3;

/// Numbers of held-out pairs begin here; no step of a training reaches it.
const HELD_OUT: u64 = 1 << 62;

impl Task {
    /// Number `number` of the pairs for training, with `letters` letters and as much noise in every pair of that size.
    pub fn pair(&self, number: u64, letters: usize) -> Pair {
        let random = &mut SeededRandom::stream(self.seed, number);
        let below = |random: &mut SeededRandom, n: usize| ((random.uniform() * n as f64) as usize).min(n - 1);
        let noise = letters / NOISE_EVERY as usize;
        let mut is_noise: Vec<bool> = (0..letters + noise).map(|place| place < noise).collect();
        for place in (1..is_noise.len()).rev() {
            is_noise.swap(place, below(random, place + 1));
        }
        let (mut source, mut answer) = (String::new(), String::new());
        for is_noise in is_noise {
            if is_noise {
                source.push(char::from(NOISE[below(random, NOISE.len())]));
                continue;
            }
            let letter = below(random, 26) as u8;
            source.push(char::from(b'a' + letter));
            answer.push(char::from(b'a' + (letter + 1) % 26));
        }
        Pair { source, answer }
    }

    /// Letters of the pairs of a batch, all of which have as many.
    pub fn letters(&self, batch: u64) -> usize {
        let sizes = self.longest - self.shortest + 1;
        let random = &mut SeededRandom::stream(self.seed ^ HELD_OUT, batch);
        self.shortest + ((random.uniform() * sizes as f64) as usize).min(sizes - 1)
    }

    /// A pair that no training meets by its number.
    pub fn held_out(&self, number: u64) -> Pair {
        self.pair(HELD_OUT + number, self.letters(HELD_OUT + number))
    }
}

impl Pair {
    /// The source as a byte-level tokenizer encodes it: `begin` and the bytes.
    pub fn source_ids(&self, begin: Token) -> Vec<Token> {
        std::iter::once(begin).chain(self.source.bytes().map(Token::from)).collect()
    }

    /// The decoder's inputs, `begin` and the answer, and their labels: the answer and `end`.
    pub fn decoder_ids(&self, begin: Token, end: Token) -> [Vec<Token>; 2] {
        let answer = || self.answer.bytes().map(Token::from);
        [std::iter::once(begin).chain(answer()).collect(), answer().chain([end]).collect()]
    }
}

#[cfg(test)]
mod tests;
