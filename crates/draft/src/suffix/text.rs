//! The text that is decoded, with its automaton.

use super::automaton::SuffixAutomaton;
use crate::growth::{Followed, Follower};
use gorgon_core::Token;

/// Committed tokens, and maybe the root: it is read ahead, since every step commits it.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnText {
    tokens: Vec<Token>,
    /// Of the first tokens: it reads the others when it is asked for.
    automaton: SuffixAutomaton,
    /// Whether the last token is not committed yet.
    is_ahead: bool,
}

impl OwnText {
    /// All tokens.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The automaton of all tokens.
    pub fn automaton(&mut self) -> &mut SuffixAutomaton {
        let read = self.automaton.len();
        self.tokens[read..].iter().for_each(|&token| self.automaton.push(token));
        &mut self.automaton
    }

    /// Adds committed tokens.
    pub fn extend(&mut self, mut tokens: &[Token]) {
        if let Some((&first, others)) = tokens.split_first().filter(|_| self.is_ahead) {
            if self.tokens.last() == Some(&first) {
                self.is_ahead = false;
                tokens = others;
            } else {
                self.truncate(self.tokens.len() - 1);
            }
        }
        self.tokens.extend_from_slice(tokens);
    }

    /// Adds the root.
    pub fn read_ahead(&mut self, root: Token) {
        if self.is_ahead {
            if self.tokens.last() == Some(&root) {
                return;
            }
            self.truncate(self.tokens.len() - 1);
        }
        self.tokens.push(root);
        self.is_ahead = true;
    }

    /// Forgets committed tokens from `length` on. An automaton cannot go back, so it is built anew.
    pub fn truncate(&mut self, length: usize) {
        let committed = self.tokens.len() - usize::from(self.is_ahead);
        if length > committed || length == committed && !self.is_ahead {
            return;
        }
        self.tokens.truncate(length);
        self.is_ahead = false;
        if self.automaton.len() > length {
            self.automaton.clear();
        }
    }
}

/// A state, and how many of its tokens the text and its draft have in common with an earlier place: its longest sequence
/// may reach back further, into a prompt.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    pub state: u32,
    pub length: usize,
}

impl Followed for SuffixAutomaton {
    type Place = Reached;

    fn followers(&mut self, at: Reached, found: &mut Vec<Follower<Reached>>) -> usize {
        let Some((state, longest)) = self.followed(at.state) else { return 0 };
        let length = longest.min(at.length);
        if 2 * length < at.length {
            return 0;
        }
        let mut all = 0;
        found.extend(self.following(state).map(|following| {
            all += following.count as usize;
            let (count, rank) = (following.count as usize, following.latest as usize);
            let place = Reached { state: following.state, length: length + 1 };
            Follower { token: following.token, count, rank, place }
        }));
        all
    }
}
