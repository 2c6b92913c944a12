//! Draft heads in a replay: right at given rates, at a given cost.

use gorgon_core::Token;
use gorgon_core::accept::RandomSource;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{Candidate, DraftTree};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass};
use std::sync::{Arc, Mutex, PoisonError};

/// A simulation, shared with the heads that are simulated.
#[derive(Clone, Debug, Default)]
pub struct Simulation(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    answer: Vec<Token>,
    seconds: f64,
}

impl Simulation {
    fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells the answer that comes next.
    pub fn reveal(&self, answer: &[Token]) {
        self.with(|state| *state = State { answer: answer.into(), seconds: 0.0 });
    }

    /// Seconds that the heads would have drafted since the answer was revealed.
    pub fn seconds(&self) -> f64 {
        self.with(|state| state.seconds)
    }
}

/// Drafts a chain. Draft `d` is right with probability `R_d`, given that the drafts before it are.
#[derive(Clone, Debug)]
pub struct SimulatedHeads {
    simulation: Simulation,
    rates: Vec<f64>,
    /// Seconds of a draft.
    seconds: f64,
    /// Committed tokens of the answer: the root's place in it.
    at: usize,
    random: SeededRandom,
}

impl SimulatedHeads {
    /// Heads that are right at these rates, of which a draft takes so many seconds.
    pub fn new(simulation: Simulation, rates: Vec<f64>, seconds: f64, seed: u64) -> Self {
        Self { simulation, rates, seconds, at: 0, random: SeededRandom::new(seed) }
    }
}

impl Drafter for SimulatedHeads {
    fn name(&self) -> &str {
        "oracle"
    }

    fn reset(&mut self) {
        self.at = 0;
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.at = if pass.verified.is_some() { self.at + pass.tokens.len() } else { 0 };
        Ok(())
    }

    fn draft(&mut self, root: Token, _: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let mut draft = DraftTree::root(root);
        for (node, &rate) in self.rates.iter().enumerate() {
            let is_right = self.random.flip(rate);
            let next = self.simulation.with(|state| state.answer.get(self.at + node + 1).copied());
            // Behind a wrong token nothing is accepted.
            let Some(token) = next.filter(|_| is_right) else { break };
            draft.push(node, Candidate { token, probability: 1.0 });
        }
        while draft.tree().len() <= self.rates.len() {
            draft.push(draft.tree().len() - 1, Candidate { token: Token::MAX, probability: 0.0 });
        }
        self.simulation.with(|state| state.seconds += self.seconds);
        Ok(Proposal::list(draft))
    }
}
