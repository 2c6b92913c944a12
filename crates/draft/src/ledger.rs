//! Gains and losses of drafting over a text.

/// Plain steps of gain that are remembered: good text long ago does not pay for bad text now.
const MEMORY: f64 = 8.0;

/// The gains of drafted steps, in plain steps: one that lasts as long as `cost` plain steps and emits `t` tokens gains
/// `t - cost`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    gain: f64,
    tokens: usize,
}

impl Ledger {
    /// A ledger with the greatest gain that it can hold.
    pub fn full() -> Self {
        Self { gain: MEMORY, tokens: 0 }
    }

    /// Adds a step that emitted so many tokens; `cost` is how many plain steps it lasted, `None` for a plain one.
    pub fn add(&mut self, emitted: usize, cost: Option<f64>) {
        self.tokens += emitted;
        if let Some(cost) = cost {
            self.gain = (self.gain + emitted as f64 - cost).min(MEMORY);
        }
    }

    /// Plain steps that drafting has lost so far; negative where it has gained.
    pub fn loss(&self) -> f64 {
        -self.gain
    }

    /// Tokens of the text that were emitted.
    pub fn tokens(&self) -> usize {
        self.tokens
    }
}
