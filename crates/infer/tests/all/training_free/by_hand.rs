//! Steps taken by hand, to look at what a drafter drafts and learns.

use gorgon_core::accept::TargetRows;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{DraftTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_draft::coupled::CoupledTree;
use gorgon_draft::drafter::{DraftContext, Drafter, Proposal, VerifiedPass, VerifiedTree};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::{Picked, Retrieval, RetrievedCache};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{Inputs, PassPlan};
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;

/// A sequence whose root is the last token of its prompt: fixtures begin there.
pub struct ByHand<'a, D> {
    pub target: DecoderTarget,
    pub drafter: &'a mut D,
    pub root: Token,
}

/// Drafts of one step, and their fate.
pub struct Step {
    pub draft: DraftTree,
    /// The state after the final norm at every node, `[nodes, d]`.
    pub hidden: Vec<f32>,
    /// The target's logits at every node, `[nodes, V]`.
    pub logits: Vec<f32>,
    /// The target's argmax at every node.
    pub argmax: Vec<Token>,
    pub accepted: usize,
    /// Accepted drafts and the bonus.
    pub emitted: Vec<Token>,
}

impl<'a, D: Drafter> ByHand<'a, D> {
    pub fn new(decoder: &Arc<Decoder>, prompt: &[Token], drafter: &'a mut D) -> Self {
        let mut target = DecoderTarget::new(decoder.clone(), decoder.config().max_positions, drafter.needs().hooks);
        let (root, before) = prompt.split_last().unwrap();
        if !before.is_empty() {
            let output = target.extend(before).unwrap();
            let rows: Vec<usize> = (0..before.len()).collect();
            drafter.observe(VerifiedPass::prompt(before, &output, &rows)).unwrap();
        }
        Self { target, drafter, root: *root }
    }

    /// Drafts on the root, and leaves uncommitted what that wrote into the target's cache.
    pub fn draft(&mut self, tree: &dyn TreeBuilder) -> Proposal {
        let mut random = SeededRandom::new(0);
        let mut context =
            DraftContext { tree: CoupledTree::plain(tree), random: &mut random, target: Some(&mut self.target) };
        self.drafter.draft(self.root, &mut context).unwrap()
    }

    /// One greedy step.
    pub fn step(&mut self, tree: &dyn TreeBuilder) -> Step {
        let proposal = self.draft(tree);
        let nodes = proposal.draft.tree();
        let mask = AttentionMask::in_tree(nodes.parents());
        let plan = PassPlan::of_tokens(nodes.tokens(), &mask);
        let output = match &proposal.resume {
            None => {
                self.target.roll_back();
                self.target.verify(&plan).unwrap()
            }
            Some(resume) => {
                let layers = Some(resume.layer..self.target.layers());
                self.target.verify(&PassPlan { inputs: Inputs::States(&resume.stream), layers, ..plan }).unwrap()
            }
        };
        let logits = self.target.logits(&output.hidden);
        let vocab = self.target.vocab_size();
        let known = TargetRows::Logits { data: &logits, vocab };
        let argmax: Vec<Token> = (0..nodes.len()).map(|node| known.argmax(node).unwrap()).collect();
        let mut path = PooledVec::of(0, 1);
        while let Some(child) =
            nodes.children(path[path.len() - 1]).find(|&child| nodes.token(child) == argmax[path[path.len() - 1]])
        {
            path.push(child);
        }
        let next = argmax[path[path.len() - 1]];
        self.target.commit(&path).unwrap();
        let read: Vec<Token> = path.iter().map(|&node| nodes.token(node)).collect();
        let verified = Some(VerifiedTree { tree: nodes, path: &path, next, target: Some(TargetRows::Argmax(&argmax)) });
        let pass = VerifiedPass { tokens: &read, output: &output, rows: &path, verified, is_source: false };
        self.drafter.observe(pass).unwrap();
        self.root = next;
        let emitted = read[1..].iter().copied().chain([next]).collect();
        let hidden = output.hidden.into_values().into_vec();
        Step { hidden, logits: logits.into_vec(), argmax, accepted: path.len() - 1, emitted, draft: proposal.draft }
    }
}

/// The committed rows of a target's cache, bit for bit: keys and values of every layer and head.
pub fn cached(target: &mut DecoderTarget) -> Vec<Vec<u32>> {
    // A part of as many rows as there are is all of them, in their order.
    let mut all = RetrievedCache::new(Retrieval { rows: target.context(), chunk: 1, picked: Picked::Random(0) });
    target.retrieve(&mut all).unwrap();
    let (layers, heads, rows) = (target.layers(), target.decoder().config().kv_heads, target.len());
    assert_eq!(all.len(), rows);
    let places = (0..layers).flat_map(|layer| (0..heads).map(move |head| (layer, head)));
    let row = |layer, head, at| {
        let (key, value) = all.row(layer, head, at).unwrap();
        key.iter().chain(value).map(|x| x.to_bits()).collect()
    };
    places
        .flat_map(|(layer, head)| (0..rows).map(move |at| (layer, head, at)))
        .map(|(l, h, at)| row(l, h, at))
        .collect()
}

/// The rows of a target that reads a text at once.
pub fn read_at_once(decoder: &Arc<Decoder>, text: &[Token]) -> Vec<Vec<u32>> {
    let mut target = DecoderTarget::new(decoder.clone(), decoder.config().max_positions, Hooks::none());
    target.prefill(text).unwrap();
    cached(&mut target)
}
