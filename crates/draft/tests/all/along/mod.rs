//! A drafter's trace along given tokens is the network that it drafts with.

use gorgon_core::Token;
use gorgon_core::tree::ChainTree;
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_model::decoder::Decoder;
use gorgon_model::target::DecoderTarget;
use std::sync::Arc;

const TEXT: [Token; 8] = [256, 12, 99, 3, 250, 77, 1, 8];
/// Drafts of the chain.
const DRAFTS: usize = 3;

/// Along its own chain, each guess puts the chain's next token first and at its probability; along other tokens it says
/// something else; neither is remembered. `drafted` are the tokens behind the rows' columns.
pub fn its_own_chain(drafter: &mut dyn Drafter, decoder: &Arc<Decoder>, drafted: &[Token]) {
    let chain = ChainTree::new(DRAFTS).unwrap();
    let mut target = DecoderTarget::new(decoder.clone(), TEXT.len(), drafter.needs().hooks);
    let output = target.prefill(&TEXT).unwrap();
    assert_eq!(drafter.trace(7, &[]).unwrap(), None, "nothing is known yet");
    for known in [1, TEXT.len()] {
        drafter.reset();
        let rows: Vec<usize> = (0..known).collect();
        drafter.observe(VerifiedPass::prompt(&TEXT[..known], &output, &rows)).unwrap();
        let proposed = drafter.propose(7, &chain).unwrap().draft;
        let tokens = &proposed.tree().tokens()[1..];
        let trace = drafter.trace(7, &tokens[..DRAFTS - 1]).unwrap().unwrap();
        assert_eq!(trace.guesses.len(), DRAFTS);
        for ((guess, token), probability) in trace.guesses.iter().zip(tokens).zip(&proposed.probabilities()[1..]) {
            let largest = guess.logits.iter().copied().fold(f32::MIN, f32::max);
            let place = guess.logits.iter().position(|x| *x == largest).unwrap();
            assert_eq!((guess.logits.len(), drafted[place]), (drafted.len(), *token));
            let sum: f64 = guess.logits.iter().map(|x| f64::from(x - largest).exp()).sum();
            assert!((1.0 / sum - probability).abs() < 1e-5, "{} and {probability}", 1.0 / sum);
            assert_eq!(guess.state.len(), trace.input.len());
        }
        let other = drafter.trace(7, &[5, 6]).unwrap().unwrap();
        assert_eq!((&other.input, &other.guesses[0]), (&trace.input, &trace.guesses[0]));
        if !["medusa", "block"].contains(&drafter.name()) {
            assert!(other.guesses[1..] != trace.guesses[1..], "the drafts before a guess are read");
        }
        assert_eq!(drafter.propose(7, &chain).unwrap().draft, proposed, "nothing is kept");
    }
}
