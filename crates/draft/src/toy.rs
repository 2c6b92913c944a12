//! A target that is a function of the text, for tests of drafters that need no network.

use crate::drafter::{DraftContext, Drafter, VerifiedPass, VerifiedTree};
use gorgon_core::Token;
use gorgon_core::accept::TargetRows;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{DraftTree, OwnTree};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::{HookedStates, PassOutput};

/// Target's choice after a text: it depends on the last three tokens, and repeats itself often enough.
pub fn choose(text: &[Token]) -> Token {
    let back = |i: usize| text.len().checked_sub(i).map_or(0, |at| u64::from(text[at]));
    ((back(1) * 5 + back(2) * 3 + back(3) + 1) % 11) as Token
}

/// A text that is decoded greedily with drafts.
pub struct Toy<D> {
    pub drafter: D,
    /// All tokens, the root last.
    pub text: Vec<Token>,
    pub most_nodes: usize,
}

/// One step.
pub struct ToyStep {
    pub draft: DraftTree,
    pub accepted: usize,
    pub emitted: Vec<Token>,
}

/// A pass without states.
pub fn nothing() -> PassOutput {
    let hidden = HiddenStates::Host { values: vec![].into(), width: 1 };
    PassOutput { hidden, hooks: HookedStates::new(), stream: None }
}

impl<D: Drafter> Toy<D> {
    /// A text whose last token is the root.
    pub fn new(mut drafter: D, prompt: &[Token]) -> Self {
        let before = &prompt[..prompt.len() - 1];
        let rows: Vec<usize> = (0..before.len()).collect();
        drafter.observe(VerifiedPass::prompt(before, &nothing(), &rows)).unwrap();
        Self { drafter, text: prompt.to_vec(), most_nodes: 0 }
    }

    /// Drafts, verifies and learns.
    pub fn step(&mut self) -> ToyStep {
        let (tree, root) = (OwnTree::new(512, 64).unwrap(), self.text[self.text.len() - 1]);
        let mut context = DraftContext {
            tree: crate::coupled::CoupledTree::plain(&tree),
            random: &mut SeededRandom::new(0),
            target: None,
        };
        let proposal = self.drafter.draft(root, &mut context).unwrap();
        let nodes = proposal.draft.tree();
        self.most_nodes = self.most_nodes.max(nodes.len());
        let behind = |node: usize| {
            let path = nodes.path(node);
            let tokens: Vec<Token> = path[1..].iter().map(|&node| nodes.tokens()[node]).collect();
            choose(&[&self.text[..], &tokens].concat())
        };
        let argmax: Vec<Token> = (0..nodes.len()).map(behind).collect();
        let mut path = vec![0];
        while let Some(child) =
            nodes.children(path[path.len() - 1]).find(|&child| nodes.token(child) == argmax[path[path.len() - 1]])
        {
            path.push(child);
        }
        let next = argmax[path[path.len() - 1]];
        let read: Vec<Token> = path.iter().map(|&node| nodes.token(node)).collect();
        let verified = Some(VerifiedTree { tree: nodes, path: &path, next, target: Some(TargetRows::Argmax(&argmax)) });
        let pass = VerifiedPass { tokens: &read, output: &nothing(), rows: &path, verified, is_source: false };
        self.drafter.observe(pass).unwrap();
        let emitted: Vec<Token> = read[1..].iter().copied().chain([next]).collect();
        self.text.extend(&emitted);
        ToyStep { accepted: path.len() - 1, emitted, draft: proposal.draft }
    }
}
