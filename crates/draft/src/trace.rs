//! What a drafter's network says along given tokens, for comparing it with another implementation of the same heads.

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
