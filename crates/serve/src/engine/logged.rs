//! A rule that writes down the log-probabilities of what it emits.

use crate::outbox::Logprob;
use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetRows, Verdict};
use gorgon_core::dist::{Row, Transform};
use gorgon_core::tree::TokenTree;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Log-probabilities of the tokens that a step emitted, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<VecDeque<Logprob>>>);

impl Log {
    /// That of the next token.
    pub fn take(&self) -> Option<Logprob> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Begins a step: what was cut off the last one is dropped.
    fn begin(&self, new: VecDeque<Logprob>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

/// Another rule, whose emitted tokens are written down with `ln p` under the model's own distribution.
pub(super) struct Logged {
    pub inner: Box<dyn AcceptanceRule>,
    /// Top tokens to write down beside each.
    pub top: usize,
    pub log: Log,
}

impl AcceptanceRule for Logged {
    fn is_lossless(&self) -> bool {
        self.inner.is_lossless()
    }

    fn coupling(&self) -> Option<Transform> {
        self.inner.coupling()
    }

    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        let verdict = self.inner.accept(tree, draft, target, random)?;
        let emitted = verdict.path[1..].iter().map(|&node| tree.token(node)).chain([verdict.bonus]);
        let nodes = verdict.path.iter();
        let log: Result<_, TargetError> =
            nodes.zip(emitted).map(|(&node, token)| Ok(logprob(target.row(node)?, token, self.top))).collect();
        self.log.begin(log?);
        Ok(verdict)
    }

    fn next(&self, last: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        let token = self.inner.next(last, target, random)?;
        self.log.begin([logprob(target.row(0)?, token, self.top)].into());
        Ok(token)
    }
}

/// `ln p(token)` and the top tokens of a row.
fn logprob(row: Row<'_>, token: Token, top: usize) -> Logprob {
    let scores: Vec<f64> = match row {
        Row::Logits(row) => row.iter().map(|&logit| f64::from(logit)).collect(),
        Row::Probabilities(row) => row.iter().map(|&p| p.ln()).collect(),
    };
    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = greatest + scores.iter().map(|score| (score - greatest).exp()).sum::<f64>().ln();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let best = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    if top > 0 && top < order.len() {
        order.select_nth_unstable_by(top - 1, best);
    }
    order.truncate(top);
    order.sort_unstable_by(best);
    // Rounding would lift a certain token above 0.
    let of = |id: usize| scores.get(id).map_or(f64::NEG_INFINITY, |score| (score - total).min(0.0));
    let top = order.into_iter().map(|id| (id as Token, of(id))).collect();
    Logprob { token, logprob: of(token as usize), top }
}
