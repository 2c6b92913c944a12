//! The suffix automaton of a text that grows (Blumer et al., 1985), with counts of occurrences.
//!
//! A state stands for the token sequences that end at the same positions of the text. The longest of them has
//! [`length`](State) tokens, and the link leads to the state of its longest suffix that ends at more positions. A token
//! adds one state, or two with a clone, so there are at most two states and three edges for each token.
//!
//! The link of the state of the whole text is its longest suffix that also ends at an earlier position: the match.
//!
//! A new end position counts in a state and in all that its links lead to. Counts are brought up to date when they are
//! asked for: of many new positions in one sweep over the states, the longest first; of a few along their links, which
//! are few but in text that repeats one phrase.

use super::edges::Edges;
use gorgon_core::{PooledVec, Token};

/// The state of the empty sequence.
const ROOT: u32 = 0;
/// Stands for no state.
const NONE: u32 = u32::MAX;
/// So many new positions are counted along their links.
const FEW: usize = 64;

/// A state.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Tokens of its longest sequence.
    length: u32,
    /// The state of the longest suffix that ends elsewhere too.
    link: u32,
    /// Positions at which it ends, as far as they are counted.
    count: u32,
    /// The last of these.
    latest: u32,
}

/// A token that follows a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Following {
    /// The token.
    pub token: Token,
    /// Times that it follows.
    pub count: u32,
    /// Position at which it followed last.
    pub latest: u32,
    /// The state of the sequence with it.
    pub state: u32,
}

/// An automaton over a text.
#[derive(Clone, Debug)]
pub struct SuffixAutomaton {
    states: Vec<State>,
    edges: Edges,
    /// The state of the whole text.
    whole: u32,
    /// States of the prefixes whose ends are not counted yet.
    uncounted: Vec<u32>,
}

impl Default for SuffixAutomaton {
    fn default() -> Self {
        Self::new()
    }
}

impl SuffixAutomaton {
    /// Of the empty text.
    pub fn new() -> Self {
        let mut new = Self { states: vec![], edges: Edges::new(), whole: ROOT, uncounted: vec![] };
        new.add(State { length: 0, link: NONE, count: 0, latest: 0 });
        new
    }

    /// Forgets the text; keeps the memory.
    pub fn clear(&mut self) {
        self.states.clear();
        self.edges.clear();
        self.uncounted.clear();
        self.whole = ROOT;
        self.add(State { length: 0, link: NONE, count: 0, latest: 0 });
    }

    /// Tokens of the text.
    pub fn len(&self) -> usize {
        self.states[self.whole as usize].length as usize
    }

    /// True of the empty text.
    pub fn is_empty(&self) -> bool {
        self.whole == ROOT
    }

    /// States, that of the empty sequence included.
    pub fn states(&self) -> usize {
        self.states.len()
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        let uncounted = self.uncounted.len() * size_of::<u32>();
        self.states.len() * size_of::<State>() + self.edges.bytes() + uncounted
    }

    /// Adds a token to the text, in amortised constant time.
    pub fn push(&mut self, token: Token) {
        let length = self.len() as u32;
        let new = self.add(State { length: length + 1, link: ROOT, count: 0, latest: length });
        let mut at = self.whole;
        while at != NONE && self.edges.target(at, token).is_none() {
            self.edges.set(at, token, new);
            at = self.states[at as usize].link;
        }
        if at != NONE
            && let Some(known) = self.edges.target(at, token)
        {
            self.states[new as usize].link = self.of_length(known, at, token);
        }
        self.whole = new;
        self.uncounted.push(new);
    }

    /// The state of the sequence of `at` with a token, which leads to `known`: that, or a clone of it if its longest
    /// sequence is longer.
    fn of_length(&mut self, known: u32, mut at: u32, token: Token) -> u32 {
        let length = self.states[at as usize].length + 1;
        if self.states[known as usize].length == length {
            return known;
        }
        let clone = self.add(State { length, ..self.states[known as usize] });
        self.edges.copy(known, clone);
        while at != NONE && self.edges.target(at, token) == Some(known) {
            self.edges.set(at, token, clone);
            at = self.states[at as usize].link;
        }
        self.states[known as usize].link = clone;
        clone
    }

    fn add(&mut self, state: State) -> u32 {
        self.states.push(state);
        self.edges.add_state();
        self.states.len() as u32 - 1
    }

    /// The state and length of the longest suffix of the text that also ends at an earlier position.
    pub fn matched(&self) -> (u32, usize) {
        let link = self.states[self.whole as usize].link;
        if link == NONE { (ROOT, 0) } else { (link, self.states[link as usize].length as usize) }
    }

    /// The state of a state's longest suffix that is followed by something, and its tokens; `None` if only the empty one
    /// is.
    pub fn followed(&self, mut state: u32) -> Option<(u32, usize)> {
        while state != ROOT && self.edges.of(state).next().is_none() {
            state = self.states[state as usize].link;
        }
        (state != ROOT).then(|| (state, self.states[state as usize].length as usize))
    }

    /// Tokens that follow a state's sequences, in no order. Brings counts up to date first.
    pub fn following(&mut self, state: u32) -> impl Iterator<Item = Following> + '_ {
        self.count();
        self.edges.of(state).map(|(token, to)| {
            let State { count, latest, .. } = self.states[to as usize];
            Following { token, count, latest, state: to }
        })
    }

    /// Counts the ends of new prefixes.
    fn count(&mut self) {
        if self.uncounted.len() > FEW && self.uncounted.len() * 16 >= self.states.len() {
            self.sweep();
        } else {
            for &prefix in &self.uncounted {
                let end = self.states[prefix as usize].length - 1;
                let mut at = prefix;
                while let Some(state) = self.states.get_mut(at as usize) {
                    state.count += 1;
                    state.latest = state.latest.max(end);
                    at = state.link;
                }
            }
        }
        self.uncounted.clear();
    }

    /// Counts them by one sweep over the states, the longest first.
    fn sweep(&mut self) {
        // How many states are shorter, by length: the place of the first of that length.
        let mut place = PooledVec::of(0u32, self.len() + 2);
        self.states.iter().for_each(|state| place[state.length as usize + 1] += 1);
        for length in 1..place.len() {
            place[length] += place[length - 1];
        }
        let mut order = PooledVec::of(0u32, self.states.len());
        for (number, state) in (0..).zip(&self.states) {
            let place = &mut place[state.length as usize];
            order[*place as usize] = number;
            *place += 1;
        }
        let mut added = PooledVec::of(0u32, self.states.len());
        self.uncounted.iter().for_each(|&prefix| added[prefix as usize] = 1);
        for &number in order.iter().rev() {
            let (State { link, latest, .. }, more) = (self.states[number as usize], added[number as usize]);
            self.states[number as usize].count += more;
            if let Some(above) = self.states.get_mut(link as usize) {
                above.latest = above.latest.max(latest);
                added[link as usize] += more;
            }
        }
    }
}

#[cfg(test)]
mod tests;
