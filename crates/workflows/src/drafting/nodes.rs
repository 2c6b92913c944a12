//! Nodes of the trees that a drafter drafts.

use super::Drafting;
use gorgon_core::tree::TreeKind;
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::format::{HeadSpec, HeadsMethod};
use gorgon_draft::{handover, probes};

impl Drafting {
    /// Nodes of a drafted tree at most.
    pub fn max_nodes(&self) -> usize {
        let nodes = self.builder.max_nodes();
        let last = match self.choice.last() {
            _ if matches!(self.builder.kind(), TreeKind::Own(_)) => nodes,
            DrafterChoice::Heads(method) => self.nodes_of(*method, nodes),
            DrafterChoice::Composed(composed) => 1 + composed.trees() * (nodes - 1),
            DrafterChoice::Auto
            | DrafterChoice::Measured
            | DrafterChoice::None
            | DrafterChoice::TrainingFree(_)
            | DrafterChoice::Model(_)
            | DrafterChoice::Handover { .. }
            | DrafterChoice::Oracle(_) => nodes,
        };
        match self.choice {
            DrafterChoice::Handover { .. } => last.max(handover::LARGEST),
            _ => last,
        }
    }

    /// Rows of a tree of so many nodes that heads draft, at most: probes add some.
    fn nodes_of(&self, method: HeadsMethod, nodes: usize) -> usize {
        match (method, self.heads.as_ref().map(|folder| &folder.detected.spec)) {
            (HeadsMethod::Probes(kind), Some(HeadSpec::Probes(spec))) => {
                probes::most_rows(kind, spec.places * spec.members, nodes)
            }
            (
                HeadsMethod::Medusa
                | HeadsMethod::Hydra
                | HeadsMethod::Eagle
                | HeadsMethod::Mtp
                | HeadsMethod::Block
                | HeadsMethod::Probes(_)
                | HeadsMethod::Kangaroo,
                _,
            ) => nodes,
        }
    }
}
