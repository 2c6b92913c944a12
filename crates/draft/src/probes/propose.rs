//! Probes as a drafter.

use super::arrange::{Arrangement, arranged, gains};
use super::config::ProbeShape;
use super::model::ProbeModel;
use crate::by_depth::LogitsByDepth;
use crate::drafter::{DraftContext, DraftError, Drafter, Proposal, VerifiedPass, VerifiedTree};
use crate::format::ProbeKind;
use gorgon_core::Token;
use gorgon_core::tree::{DraftTree, NodeInput, TokenTree, TreeBuilder};
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Drafts with the states at the probes behind the last committed token: place `k` names the tokens of depth `k`,
/// whatever their parents are. After a prompt, or a token without probes, there is no candidate: that step looks ahead.
#[derive(Debug)]
pub struct ProbeDrafter {
    model: Arc<ProbeModel>,
    /// After the final norm at the probes behind the last committed token, `[places, d]`.
    states: Option<HiddenStates>,
}

impl ProbeDrafter {
    /// A drafter with these probes.
    pub fn new(model: ProbeModel) -> Self {
        Self::sharing(Arc::new(model))
    }

    /// A drafter with probes that others draft with too, for sequences of their own.
    pub fn sharing(model: Arc<ProbeModel>) -> Self {
        Self { model, states: None }
    }

    /// The states at the probes behind the last node of the committed path.
    fn probed(&self, pass: &VerifiedPass<'_>, verified: &VerifiedTree<'_>) -> Option<HiddenStates> {
        let (&last, &row) = (verified.path.last()?, pass.rows.last()?);
        let probes = behind(verified.tree, last);
        // Trees of other drafters may hold anything.
        if probes == 0 || !probes.is_multiple_of(self.model.shape().members) {
            return None;
        }
        Some(self.model.mean(pass.output.hidden.narrow(row + 1, probes)))
    }

    /// The tree with probes, within the budget of its builder.
    fn probing(&self, grown: &DraftTree, tree: &dyn TreeBuilder) -> DraftTree {
        let ProbeShape { kind, places, members, two_pass, .. } = *self.model.shape();
        let drops = tree.is_budget();
        let looks_ahead = !two_pass || grown.tree().len() == 1;
        let gains = gains(grown, if looks_ahead { places } else { 0 });
        let rows = match kind {
            _ if drops => tree.max_nodes(),
            ProbeKind::Ppd => tree.max_nodes().max(places * members),
            ProbeKind::Pass | ProbeKind::Space => usize::MAX,
        };
        let how = Arrangement { gains: &gains, members, rows, drops };
        arranged(grown, &how, |place, member| NodeInput::Embedding(self.model.shape().row(place, member)))
    }
}

/// Number of probes that follow a node directly.
fn behind(tree: &TokenTree, node: usize) -> usize {
    (node + 1..tree.len()).take_while(|&next| tree.is_probe(next)).count()
}

impl Drafter for ProbeDrafter {
    fn name(&self) -> &str {
        self.model.kind().name()
    }

    fn reset(&mut self) {
        self.states = None;
    }

    fn truncate(&mut self, _: usize) -> bool {
        self.states = None;
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.states = pass.verified.as_ref().and_then(|verified| self.probed(&pass, verified));
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let tree = &context.tree;
        if tree.max_depth() == 0 {
            return Ok(Proposal::root(root));
        }
        let logits = self
            .states
            .as_ref()
            .map(|states| self.model.logits(&states.narrow(0, states.rows().min(tree.max_depth()))));
        let logits = logits.as_ref().map_or(&[][..], |logits| &logits[..]);
        let grown = match logits.is_empty() {
            true => DraftTree::root(root),
            false => tree.build(root, &mut LogitsByDepth { logits, vocab: self.model.vocab_size() })?,
        };
        let draft = self.probing(&grown, tree);
        Ok(Proposal { probes: Some(self.model.table().clone()), ..Proposal::list(draft) })
    }
}
