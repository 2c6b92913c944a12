//! Edges of an automaton: a list for each state, and a hash table over all of them.

use gorgon_core::Token;

/// Stands for no edge.
const NONE: u32 = u32::MAX;
/// Slots of the smallest table, as a power of two.
const LEAST_BITS: u32 = 6;

/// An edge.
#[derive(Clone, Copy, Debug)]
struct Edge {
    from: u32,
    token: Token,
    to: u32,
    /// The edge of the same state that was added before.
    next: u32,
}

/// Edges of all states.
#[derive(Clone, Debug)]
pub(super) struct Edges {
    all: Vec<Edge>,
    /// The last edge that was added to each state.
    last: Vec<u32>,
    /// Numbers of edges, by hash. At most three quarters are in use.
    slots: Vec<u32>,
}

impl Edges {
    pub fn new() -> Self {
        Self { all: vec![], last: vec![], slots: vec![NONE; 1 << LEAST_BITS] }
    }

    /// Forgets all states; keeps the memory.
    pub fn clear(&mut self) {
        self.all.clear();
        self.last.clear();
        self.slots.fill(NONE);
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.all.len() * size_of::<Edge>() + (self.last.len() + self.slots.len()) * size_of::<u32>()
    }

    /// Adds a state without edges.
    pub fn add_state(&mut self) {
        self.last.push(NONE);
    }

    /// The state that a token leads to.
    pub fn target(&self, from: u32, token: Token) -> Option<u32> {
        let edge = self.slots[self.slot(from, token)];
        self.all.get(edge as usize).map(|edge| edge.to)
    }

    /// Adds an edge, or leads one that there is elsewhere.
    pub fn set(&mut self, from: u32, token: Token, to: u32) {
        let slot = self.slot(from, token);
        if let Some(edge) = self.all.get_mut(self.slots[slot] as usize) {
            edge.to = to;
            return;
        }
        let number = self.all.len() as u32;
        self.slots[slot] = number;
        self.all.push(Edge { from, token, to, next: self.last[from as usize] });
        self.last[from as usize] = number;
        if self.all.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    /// Gives a state all edges of another one.
    pub fn copy(&mut self, from: u32, to: u32) {
        let mut number = self.last[from as usize];
        while let Some(&Edge { token, to: target, next, .. }) = self.all.get(number as usize) {
            self.set(to, token, target);
            number = next;
        }
    }

    /// The tokens and targets of a state's edges, the newest first.
    pub fn of(&self, state: u32) -> impl Iterator<Item = (Token, u32)> + '_ {
        let edge = |number: u32| self.all.get(number as usize);
        let first = edge(self.last[state as usize]);
        std::iter::successors(first, move |before| edge(before.next)).map(|edge| (edge.token, edge.to))
    }

    /// Where an edge is in the table, or would be.
    fn slot(&self, from: u32, token: Token) -> usize {
        let mask = self.slots.len() - 1;
        let key = (u64::from(from) << 32 | u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (key >> 32) as usize & mask;
        while let Some(edge) = self.all.get(self.slots[slot] as usize) {
            if (edge.from, edge.token) == (from, token) {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let slots = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(slots, NONE);
        for number in 0..self.all.len() {
            let Edge { from, token, .. } = self.all[number];
            let slot = self.slot(from, token);
            self.slots[slot] = number as u32;
        }
    }
}
