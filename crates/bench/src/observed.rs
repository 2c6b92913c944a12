//! A rule whose verdicts are counted.

use gorgon_core::Token;
use gorgon_core::accept::{AcceptanceRule, DraftRows, RandomSource, TargetError, TargetOutput, TargetRows, Verdict};
use gorgon_core::dist::Transform;
use gorgon_core::tree::TokenTree;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// Another rule, and counts of its verdicts. A token without drafts (that of a prefill, for one) is not counted.
pub(crate) struct Observed<R, C> {
    rule: R,
    counts: Mutex<C>,
    count: fn(&mut C, &TokenTree, &Verdict),
}

impl<R, C: Default> Observed<R, C> {
    /// `count` is called with the tree and the verdict of every step that had drafts.
    pub(crate) fn new(rule: R, count: fn(&mut C, &TokenTree, &Verdict)) -> Self {
        Self { rule, counts: Mutex::default(), count }
    }

    /// The rule itself.
    pub(crate) fn rule(&self) -> &R {
        &self.rule
    }

    /// The counts.
    pub(crate) fn into_counts(self) -> C {
        self.counts.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R, C> AcceptanceRule for Observed<R, C>
where
    R: Deref<Target: AcceptanceRule> + Send + Sync,
    C: Send,
{
    fn is_lossless(&self) -> bool {
        self.rule.is_lossless()
    }

    fn needs(&self) -> TargetOutput {
        self.rule.needs()
    }

    fn coupling(&self) -> Option<Transform> {
        self.rule.coupling()
    }

    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        let verdict = self.rule.accept(tree, draft, target, random)?;
        if tree.len() > 1 {
            (self.count)(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner), tree, &verdict);
        }
        Ok(verdict)
    }

    fn next(&self, last: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        self.rule.next(last, target, random)
    }
}
