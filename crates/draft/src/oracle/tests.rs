//! Tests of `oracle`.

use super::*;
use gorgon_core::tree::{Candidate, ChainTree, DraftTree, NodeInput};
use gorgon_model::hidden_states::HiddenStates;
use std::sync::Arc;

/// Drafts a probe in front of a chain of two.
struct Probing;

impl Drafter for Probing {
    fn name(&self) -> &str {
        "probing"
    }

    fn reset(&mut self) {}

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, _: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let mut draft = DraftTree::root(root);
        draft.push_probe(0, NodeInput::Embedding(0));
        let child = draft.push(0, Candidate { token: 7, probability: 1.0 });
        draft.push(child, Candidate { token: 7, probability: 1.0 });
        let table = HiddenStates::Host { values: vec![0.5].into(), width: 1 };
        Ok(Proposal { probes: Some(Arc::new(table)), ..Proposal::list(draft) })
    }

    fn trace(&mut self, root: Token, drafts: &[Token]) -> Result<Option<Trace>, DraftError> {
        Ok(Some(Trace { input: vec![root as f32, drafts.len() as f32], guesses: vec![] }))
    }
}

#[test]
fn the_trace_is_the_inner_drafters() {
    let mut oracle = OracleDrafter::new(Box::new(Probing), vec![1.0], 40, 0);
    assert_eq!(oracle.trace(3, &[1, 1]).unwrap(), Probing.trace(3, &[1, 1]).unwrap());
}

#[test]
fn probes_stay_as_they_are() {
    let mut oracle = OracleDrafter::new(Box::new(Probing), vec![1.0, 1.0], 40, 0);
    oracle.reveal(vec![5, 6, 8]);
    let proposal = oracle.propose(5, &ChainTree::ROOT).unwrap();
    let tree = proposal.draft.tree();
    assert_eq!((tree.input(1), tree.token(2), tree.token(3)), (NodeInput::Embedding(0), 6, 8));
    assert_eq!(proposal.probe_rows().unwrap().unwrap().table.on_host(), Some(&[0.5][..]));
}
