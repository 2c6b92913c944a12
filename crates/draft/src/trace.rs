//! States and logits of a drafter's network along given tokens, for comparing it with another implementation of the
//! same heads.

/// A drafter's guesses after a root and along drafts that were given to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Input of the drafter at the last committed token, `[d]`: the state after the final norm, EAGLE-3's fused states,
    /// or the output of Hydra++'s prefix layer.
    pub input: Vec<f32>,
    /// The guess after the root, then one after each draft.
    pub guesses: Vec<Guess>,
}

/// One guess.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// Input of the LM head, `[d]`: a head's state, EAGLE's guessed feature, EAGLE-3's state before its norm, a
    /// module's normed state.
    pub state: Vec<f32>,
    /// Logits over the tokens that can be drafted, `[D]`.
    pub logits: Vec<f32>,
}
