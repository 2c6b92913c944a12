//! What a drafter's network says along given tokens, for comparing it with another implementation of the same heads.

use crate::drafter::DraftError;
use gorgon_core::tree::{BuildError, SourceError, TokenTree};
use gorgon_core::{PooledVec, Token};
use gorgon_model::hidden_states::HiddenStates;

/// A drafter's guesses after a root and along drafts that were given to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// What the drafter makes of the target's states at the last committed token, `[d]`: the state after the final
    /// norm, EAGLE-3's fused taps, what the prefix layer of Hydra++ makes of the states.
    pub input: Vec<f32>,
    /// The guess after the root, then one after each draft.
    pub guesses: Vec<Guess>,
}

/// One guess.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// What logits are made of, `[d]`: a head's state in front of its LM head, EAGLE's guessed feature, EAGLE-3's state
    /// before its norm, a module's normed state.
    pub state: Vec<f32>,
    /// Logits over the tokens that can be drafted, `[D]`.
    pub logits: Vec<f32>,
}

/// The network's rows at some nodes of one level.
pub(crate) struct Guessed {
    /// One of each node.
    pub states: HiddenStates,
    /// `[nodes · D]`, row-major.
    pub logits: PooledVec<f32>,
}

/// A network that a tree is drafted with, level by level.
pub(crate) trait Network {
    /// What it says at some nodes of a level; `None` beyond the last level that it can guess.
    fn guess(&mut self, tree: &TokenTree, nodes: &[usize]) -> Result<Option<Guessed>, SourceError>;
}

/// Asks at a root and at each of the drafts after it, as far as the network goes.
pub(crate) fn follow(network: &mut impl Network, root: Token, drafts: &[Token]) -> Result<Vec<Guess>, DraftError> {
    let mut tree = TokenTree::root(root);
    let mut guesses = vec![];
    for node in 0..=drafts.len() {
        let Some(guessed) = network.guess(&tree, &[node]).map_err(BuildError::Source)? else { break };
        guesses.push(Guess { state: guessed.states.into_values().into_vec(), logits: guessed.logits.into_vec() });
        if let Some(&draft) = drafts.get(node) {
            tree.push(node, draft);
        }
    }
    Ok(guesses)
}
