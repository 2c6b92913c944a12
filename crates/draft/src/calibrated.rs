//! Correcting a drafter's probabilities while it drafts.

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use crate::trace::Trace;
use gorgon_core::tree::{
    BuildError, Candidate, CandidateRows, CandidateSource, DraftTree, NgramCounts, NgramTable, RowCalibration,
    SourceError, TokenTree, TreeBuilder, TreeKind,
};
use gorgon_core::{PooledVec, Token};
use gorgon_model::target::Target;
use std::sync::{Arc, Mutex};

/// Hands trees another drafter's candidates with corrected probabilities ([`RowCalibration`]), and learns the correction
/// from the rows of accepted paths. Evidence comes from n-grams ([`NgramCounts`]): those of the sequence's own text, and
/// of the answers that the heads were fitted to. Every sequence begins with the same start values, so its text depends on
/// nothing but itself. Under coupled sampling the probabilities are those given the noise.
pub struct CalibratedDrafter<D> {
    inner: D,
    start: RowCalibration,
    calibration: RowCalibration,
    counts: NgramCounts,
    /// Rows as the inner drafter named them in its last draft.
    shown: Shown,
    /// The numbers that the last draft's nodes had while it was drafted.
    source_nodes: PooledVec<usize>,
}

/// Rows of candidates by the node that they follow.
#[derive(Default)]
struct Shown {
    nodes: PooledVec<usize>,
    rows: CandidateRows,
}

impl<D> CalibratedDrafter<D> {
    /// Over a drafter, beginning with measured corrections and the n-grams of other texts.
    pub fn new(inner: D, start: RowCalibration, table: Option<Arc<NgramTable>>) -> Self {
        let calibration = start.clone();
        let (counts, shown) = (NgramCounts::starting_at(table), Shown::default());
        Self { inner, start, calibration, counts, shown, source_nodes: PooledVec::new() }
    }

    /// The corrections learned from the sequence so far.
    pub fn calibration(&self) -> &RowCalibration {
        &self.calibration
    }

    /// The next sequence begins with what this one and those before it have taught.
    pub fn begin_with_learned(&mut self) {
        self.start.clone_from(&self.calibration);
    }

    fn learn(&mut self, pass: &VerifiedPass<'_>) {
        let Some(verified) = pass.verified.filter(|verified| verified.tree.len() == self.source_nodes.len()) else {
            return;
        };
        for (i, &node) in verified.path.iter().enumerate() {
            let came = verified.path.get(i + 1).map_or(verified.next, |&next| verified.tree.token(next));
            let source = self.source_nodes[node];
            if let Some(row) = self.shown.nodes.iter().position(|&shown| shown == source) {
                let row = self.shown.rows.row(row);
                let evidence = evidence(&self.counts, verified.tree, node, row);
                self.calibration.learn(verified.tree.depths()[node], row, &evidence, came);
            }
        }
    }
}

impl<D: Drafter> Drafter for CalibratedDrafter<D> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
        self.calibration.clone_from(&self.start);
        self.counts.clear();
        self.source_nodes.clear();
    }

    fn truncate(&mut self, length: usize) -> bool {
        self.counts.truncate(length);
        self.inner.truncate(length)
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.learn(&pass);
        pass.tokens.iter().for_each(|&token| self.counts.push(token));
        self.source_nodes.clear();
        self.inner.observe(pass)
    }

    fn finished(&mut self, answer: &[Token]) {
        self.inner.finished(answer);
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        self.inner.trace(root, drafts)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let CoupledTree { tree, coupling } = context.tree;
        let (calibration, counts) = (&self.calibration, &self.counts);
        let tree = Corrected { tree, calibration, counts, shown: Mutex::default() };
        let target = context.target.as_mut().map(|target| &mut **target as &mut dyn Target);
        let mut inner =
            DraftContext { tree: CoupledTree { tree: &tree, coupling }, random: &mut *context.random, target };
        let proposal = self.inner.draft(root, &mut inner)?;
        self.shown = tree.shown.into_inner().unwrap_or_default();
        self.source_nodes = proposal.draft.source_nodes().iter().copied().collect();
        Ok(proposal)
    }
}

/// Another tree, which is shown corrected rows.
struct Corrected<'a> {
    tree: &'a dyn TreeBuilder,
    calibration: &'a RowCalibration,
    counts: &'a NgramCounts,
    shown: Mutex<Shown>,
}

impl TreeBuilder for Corrected<'_> {
    fn max_nodes(&self) -> usize {
        self.tree.max_nodes()
    }

    fn max_depth(&self) -> usize {
        self.tree.max_depth()
    }

    fn takes_in_order(&self) -> bool {
        self.tree.takes_in_order()
    }

    fn ranks_at(&self, depth: usize) -> Option<usize> {
        self.tree.ranks_at(depth)
    }

    fn kind(&self) -> TreeKind {
        self.tree.kind()
    }

    fn is_budget(&self) -> bool {
        self.tree.is_budget()
    }

    fn build(&self, root: Token, source: &mut dyn CandidateSource) -> Result<DraftTree, BuildError> {
        let mut shown = Shown::default();
        let (calibration, counts) = (self.calibration, self.counts);
        let drafted = self.tree.build(root, &mut Showing { source, calibration, counts, shown: &mut shown })?;
        if let Ok(mut kept) = self.shown.lock() {
            *kept = shown;
        }
        Ok(drafted)
    }
}

/// Another source, whose rows are kept and corrected.
struct Showing<'a> {
    source: &'a mut dyn CandidateSource,
    calibration: &'a RowCalibration,
    counts: &'a NgramCounts,
    shown: &'a mut Shown,
}

impl CandidateSource for Showing<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let rows = self.source.expand(tree, nodes, widths)?;
        let mut corrected = CandidateRows::default();
        for (row, &node) in rows.iter().zip(nodes) {
            let evidence = evidence(self.counts, tree, node, row);
            corrected.push(self.calibration.corrected(tree.depths()[node], row, &evidence).iter().copied());
            self.shown.nodes.push(node);
            self.shown.rows.push(row.iter().copied());
        }
        Ok(corrected)
    }
}

/// The evidence of a text for the candidates after a node of a tree whose root follows the text.
fn evidence(counts: &NgramCounts, tree: &TokenTree, node: usize, row: &[Candidate]) -> PooledVec<f64> {
    let before = if node == 0 { counts.last() } else { Some(tree.token(tree.parents()[node])) };
    let Some(before) = before else { return PooledVec::new() };
    let following = counts.after([before, tree.token(node)]);
    row.iter().map(|candidate| following.evidence(candidate.token)).collect()
}

#[cfg(test)]
mod tests;
