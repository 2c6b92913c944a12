//! Tests of `calibrated`.

use super::*;
use crate::drafter::VerifiedTree;
use gorgon_core::tree::{Candidate, TreeBuilder, TrellisTree};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};

/// Says of token 1 that it is nearly sure, and of token 2 that it is unlikely.
struct Sure;

impl CandidateSource for Sure {
    fn expand(&mut self, _: &TokenTree, nodes: &[usize], _: &[usize]) -> Result<CandidateRows, SourceError> {
        let row = [(1, 0.9), (2, 0.05)].map(|(token, probability)| Candidate { token, probability });
        Ok(nodes.iter().map(|_| row).collect())
    }
}

impl Drafter for Sure {
    fn name(&self) -> &str {
        "sure"
    }
    fn reset(&mut self) {}
    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }
    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        Ok(Proposal::list(context.tree.build(root, self)?))
    }
}

fn step(drafter: &mut CalibratedDrafter<Sure>, output: &PassOutput, next: Token) -> Proposal {
    let proposal = drafter.propose(7, &TrellisTree::new(3, 2).unwrap()).unwrap();
    let verified = VerifiedTree { tree: proposal.draft.tree(), path: &[0], next, target: None };
    drafter
        .observe(VerifiedPass { tokens: &[7], output, rows: &[0], verified: Some(verified), is_source: false })
        .unwrap();
    proposal
}

#[test]
fn a_drafter_that_is_wrong_is_believed_less_until_the_sequence_ends() {
    let hidden = HiddenStates::Host { values: vec![0.0].into(), width: 1 };
    let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
    let mut drafter = CalibratedDrafter::new(Sure, RowCalibration::new(), None);
    let paths = |proposal: &Proposal| proposal.draft.tree().parents().to_vec();
    let first = step(&mut drafter, &output, 2);
    // The second draft follows the first, which is nearly sure.
    assert_eq!(paths(&first), [0, 0, 1]);
    assert!((first.draft.probabilities()[1] - 0.9).abs() < 1e-9);
    (0..60).for_each(|_| drop(step(&mut drafter, &output, 2)));
    let later = step(&mut drafter, &output, 2);
    assert!(later.draft.probabilities()[1] < 0.7, "{:?}", later.draft.probabilities());
    assert_ne!(drafter.calibration(), &RowCalibration::new());
    drafter.reset();
    assert_eq!(drafter.calibration(), &RowCalibration::new());
    assert_eq!(step(&mut drafter, &output, 2).draft, first.draft);
}

#[test]
fn a_drafter_that_is_right_is_not_changed_much() {
    let hidden = HiddenStates::Host { values: vec![0.0].into(), width: 1 };
    let output = PassOutput { hidden, hooks: HookedStates::new(), stream: None };
    let mut drafter = CalibratedDrafter::new(Sure, RowCalibration::new(), None);
    // Nine times the first token, and then another one.
    (0..200).for_each(|i| drop(step(&mut drafter, &output, if i % 10 == 0 { 2 } else { 1 })));
    let last = step(&mut drafter, &output, 1);
    assert!((last.draft.probabilities()[1] - 0.9).abs() < 0.05, "{:?}", last.draft.probabilities());
}
