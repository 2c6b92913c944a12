//! The text that recorded steps have read: the next prompt is read from where it differs.

use gorgon_core::Token;

/// The committed tokens of a target, which plain and drafted steps share.
#[derive(Debug, Default)]
pub(super) struct Known {
    text: Vec<Token>,
    /// Tokens of the text that a draft layer has read too.
    drafted: usize,
}

impl Known {
    /// Forgets the tokens that `prompt` does not begin with, and its last one, whose logits are asked for. Gives how many
    /// are left. A draft layer has read each token with the one after it, so with `pairs` one token less is left.
    pub fn keep(&mut self, prompt: &[Token], pairs: bool) -> usize {
        let known = self.text.iter().zip(prompt).take_while(|(known, token)| known == token).count();
        let known = if pairs { known.min(self.drafted).saturating_sub(1) } else { known };
        let kept = known.min(prompt.len().saturating_sub(1));
        self.text.truncate(kept);
        self.drafted = self.drafted.min(kept);
        kept
    }

    /// Takes note of committed tokens; `pairs` says that a draft layer has read them too.
    pub fn add(&mut self, tokens: &[Token], pairs: bool) {
        self.text.extend_from_slice(tokens);
        if pairs {
            self.drafted = self.text.len();
        }
    }

    /// Committed tokens.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        (self.text, self.drafted) = (vec![], 0);
    }
}
