//! Tests of `coupled`.

use super::*;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{Coupled, Sampling};
use gorgon_core::tree::{ChainTree, TrellisTree};

const ROW: [f64; 4] = [0.4, 0.3, 0.2, 0.1];

/// Names one distribution, and notes how many candidates it was asked for.
struct Same(usize);

impl CandidateSource for Same {
    fn expand(&mut self, _: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        self.0 = widths[0];
        let row = (0..).zip(ROW).map(|(token, probability)| Candidate { token, probability });
        Ok(nodes.iter().map(|_| row.clone()).collect())
    }
}

fn coupling(random: &mut SeededRandom, position: usize, temperature: f64) -> Coupling {
    random.set_position(position);
    let transform = Transform::new(temperature, None, None).unwrap();
    Coupling::of(&Coupled { transform }, random).unwrap()
}

#[test]
fn a_drafter_whose_sharpened_rows_are_the_targets_drafts_what_it_emits() {
    let mut random = SeededRandom::new(3);
    for (position, temperature) in [0.3, 0.7, 1.0, 1.3].into_iter().cycle().take(200).enumerate() {
        let tempered = ROW.map(|p: f64| p.powf(SHARPNESS / temperature));
        let coupling = Some(coupling(&mut random, position, temperature));
        let chain = CoupledTree { tree: &ChainTree::new(3).unwrap(), coupling };
        let draft = chain.build(9, &mut Same(0)).unwrap();
        let emitted: Vec<Token> = (0..3).map(|depth| random.emit(depth, &tempered) as Token).collect();
        assert_eq!(draft.tree().tokens()[1..], emitted, "{position}");
        assert!(draft.probabilities().iter().all(|p| (0.0..=1.0).contains(p)));
        // The best tree is the path of what is emitted, since the drafter is right about it.
        let trellis = TrellisTree::new(3, 2).unwrap();
        let best = CoupledTree { tree: &trellis, coupling }.build(9, &mut Same(0)).unwrap();
        assert_eq!(best.tree().token(1), emitted[0]);
    }
}

#[test]
fn rules_that_make_choices_of_their_own_share_no_noise() {
    let (random, transform) = (SeededRandom::new(3), Transform::IDENTITY);
    assert_eq!(Coupling::of(&Sampling { transform }, &random), None);
    assert_eq!(Coupling::of(&Coupled { transform: Transform::GREEDY }, &random), None);
    let chain = ChainTree::new(2).unwrap();
    let mut source = Same(0);
    let draft = CoupledTree::plain(&chain).build(9, &mut source).unwrap();
    assert_eq!((draft.tree().tokens(), source.0), (&[9, 0, 0][..], 1), "the top-1 token, and no more is asked for");
    assert!(CoupledTree::plain(&chain).ranks_at(0).is_some());
}

#[test]
fn rows_without_a_distribution_keep_their_order() {
    let coupling = coupling(&mut SeededRandom::new(1), 0, 1.0);
    let row = [5, 2, 8].map(|token| Candidate { token, probability: 1.0 });
    assert_eq!(coupling.ranked(0, &row), row);
    let broken = [f64::NAN, 0.1].map(|probability| Candidate { token: 1, probability });
    assert_eq!(coupling.ranked(0, &broken).len(), 2);
    let none = [3, 1].map(|token| Candidate { token, probability: 0.0 });
    assert!(coupling.ranked(0, &none).iter().all(|candidate| candidate.probability == 0.0));
    assert!(coupling.ranked(0, &[]).is_empty());
}
