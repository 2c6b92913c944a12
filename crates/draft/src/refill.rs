//! Tokens of a text, drawn in a fixed order: guesses that nothing is known of start from them.

use gorgon_core::Token;

/// A text and how many tokens were drawn from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refill {
    text: Vec<Token>,
    drawn: usize,
}

impl Refill {
    /// Adds committed tokens.
    pub fn extend(&mut self, tokens: &[Token]) {
        self.text.extend_from_slice(tokens);
    }

    /// Forgets tokens from `length` on.
    pub fn truncate(&mut self, length: usize) {
        self.text.truncate(length);
        self.drawn = if length == 0 { 0 } else { self.drawn };
    }

    /// The next `count` tokens of the text with `root` behind it: the `j`-th draw is the token at `(5 j + 2) mod n`.
    /// Strides of 5 leave neighbouring tokens apart, and a run can be repeated.
    pub fn draw(&mut self, root: Token, count: usize) -> impl Iterator<Item = Token> + '_ {
        let (n, from) = (self.text.len() + 1, self.drawn);
        self.drawn += count;
        (from..from + count).map(move |j| self.text.get((5 * j + 2) % n).copied().unwrap_or(root))
    }
}
