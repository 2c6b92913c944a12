//! The rows in front of emitted tokens.

use gorgon_core::PooledVec;
use gorgon_core::Token;
use gorgon_core::accept::TargetRows;
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass};

/// Another drafter, beside which the target's rows are kept: those at committed nodes, from which the tokens after them
/// were accepted or drawn.
pub(crate) struct Recording<D> {
    inner: D,
    /// The rows since they were taken last, if any are asked for.
    rows: Option<EmittedRows>,
}

/// Rows of logits, one per emitted token.
#[derive(Clone, Debug, Default)]
pub(crate) struct EmittedRows {
    data: PooledVec<f32>,
    vocab: usize,
}

impl EmittedRows {
    /// The row from which token number `index` was taken.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.data[index * self.vocab..(index + 1) * self.vocab]
    }
}

impl<D> Recording<D> {
    pub fn new(inner: D, keeps_rows: bool) -> Self {
        Self { inner, rows: keeps_rows.then(EmittedRows::default) }
    }

    /// The other drafter.
    pub fn inner(&mut self) -> &mut D {
        &mut self.inner
    }

    /// The rows of the last step.
    pub fn take_rows(&mut self) -> Option<EmittedRows> {
        self.rows.as_mut().map(std::mem::take)
    }
}

impl<D: Drafter> Drafter for Recording<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        let needs = self.inner.needs();
        let feedback = if self.rows.is_some() { Feedback::Logits } else { needs.feedback };
        Needs { feedback, ..needs }
    }

    fn reset(&mut self) {
        self.take_rows();
        self.inner.reset();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if let (Some(rows), Some(verified)) = (&mut self.rows, pass.verified)
            && let Some(TargetRows::Logits { data, vocab }) = verified.target
        {
            rows.vocab = vocab;
            verified.path.iter().for_each(|node| rows.data.extend_from_slice(&data[node * vocab..(node + 1) * vocab]));
        }
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.inner.draft(root, context)
    }
}
