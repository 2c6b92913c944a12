//! A drafter remembers the context of committed tokens and nothing else.

use crate::block::random::{SHAPE, config, decoder, model};
use gorgon_core::Token;
use gorgon_core::tree::{
    ChainTree, DraftTree, DynamicTree, FixedTree, PublishedTree, TokenTree, TreeBuilder, TrellisTree,
};
use gorgon_draft::block::{BlockConfig, BlockDrafter};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_model::decoder::Decoder;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;

const TEXT: [Token; 12] = [256, 12, 99, 3, 250, 77, 1, 8, 190, 33, 64, 5];

fn target(decoder: &Arc<Decoder>, drafter: &BlockDrafter) -> DecoderTarget {
    DecoderTarget::new(decoder.clone(), SHAPE.max_positions, drafter.needs().hooks)
}

fn observe(drafter: &mut BlockDrafter, target: &mut DecoderTarget, tokens: &[Token]) {
    let output = target.prefill(tokens).unwrap();
    let rows: Vec<usize> = (0..tokens.len()).collect();
    drafter.observe(VerifiedPass::prompt(tokens, &output, &rows)).unwrap();
}

fn propose(drafter: &mut BlockDrafter, root: Token) -> DraftTree {
    drafter.propose(root, &TrellisTree::new(20, 4).unwrap()).unwrap().draft
}

/// The tree of a drafter that reads the text at once.
fn fresh(decoder: &Arc<Decoder>, config: &BlockConfig, text: &[Token], root: Token) -> DraftTree {
    let mut drafter = BlockDrafter::new(model(decoder, config));
    let mut target = target(decoder, &drafter);
    observe(&mut drafter, &mut target, text);
    propose(&mut drafter, root)
}

/// Whatever was proposed and rejected on the way, the tree is that of the committed text, bit for bit.
#[test]
fn rejected_tokens_leave_no_trace() {
    let decoder = decoder();
    for config in [config(), BlockConfig { causal: true, window: Some(6), ..config() }] {
        let mut drafter = BlockDrafter::new(model(&decoder, &config));
        let mut target = target(&decoder, &drafter);
        assert_eq!(propose(&mut drafter, 7), DraftTree::root(7), "nothing is known yet");
        observe(&mut drafter, &mut target, &TEXT[..4]);
        let mut known = 4;
        for (step, accepted) in [0, 2, 1, 0].into_iter().enumerate() {
            let root = TEXT[known];
            // Not every step is drafted on: a drafter may rest.
            if step != 1 {
                assert_eq!(propose(&mut drafter, root), fresh(&decoder, &config, &TEXT[..known], root));
            }
            let mut tree = TokenTree::root(root);
            let (mut node, mut path) = (0, vec![0]);
            for i in 1..=accepted {
                tree.push(node, 200 + i as Token);
                node = tree.push(node, TEXT[known + i]);
                tree.push(node, 100);
                path.push(node);
            }
            let output = target.verify_tree(&tree).unwrap();
            target.commit(&path).unwrap();
            let tokens: Vec<Token> = path.iter().map(|&node| tree.token(node)).collect();
            drafter.observe(VerifiedPass::prompt(&tokens, &output, &path)).unwrap();
            known += accepted + 1;
            assert_eq!(drafter.cached(), known);
        }
        let tree = fresh(&decoder, &config, &TEXT[..known], 9);
        assert_eq!(propose(&mut drafter, 9), tree);
        assert_eq!(propose(&mut drafter, 9), tree, "a root may be asked about twice");
        let none = drafter.propose(7, &ChainTree::new(0).unwrap()).unwrap();
        assert_eq!(none.draft, DraftTree::root(7));
        assert!(drafter.truncate(5));
        assert_eq!((drafter.cached(), propose(&mut drafter, 1)), (5, fresh(&decoder, &config, &TEXT[..5], 1)));
        drafter.reset();
        target.reset();
        assert_eq!((drafter.cached(), propose(&mut drafter, 1)), (0, DraftTree::root(1)));
        observe(&mut drafter, &mut target, &TEXT[..5]);
        assert_eq!(propose(&mut drafter, 7), fresh(&decoder, &config, &TEXT[..5], 7));
    }
}

/// One block serves every tree, down to its last slot, and what follows a node does not depend on its ancestors.
#[test]
fn every_tree_grows_from_one_block() {
    let decoder = decoder();
    let mut drafter = BlockDrafter::new(model(&decoder, &config()));
    let mut target = target(&decoder, &drafter);
    observe(&mut drafter, &mut target, &TEXT);
    let published: PublishedTree = "mc_sim_7b_63".parse().unwrap();
    let builders: [Box<dyn TreeBuilder>; 4] = [
        Box::new(ChainTree::new(9).unwrap()),
        Box::new(FixedTree::new(published.shape().clone())),
        Box::new(DynamicTree::new(30, 6, 4).unwrap()),
        Box::new(TrellisTree::new(30, 8).unwrap()),
    ];
    let chain = drafter.propose(7, &*builders[0]).unwrap().draft.into_tree();
    assert_eq!(chain.len(), config().slots, "the anchor and a token for each other slot");
    for builder in builders {
        let tree = drafter.propose(7, &*builder).unwrap().draft.into_tree();
        assert!(tree.len() > 1 && tree.depths().iter().all(|&depth| depth < config().slots));
        let first = tree.children(0).next().unwrap();
        assert_eq!(tree.token(first), chain.token(1), "{:?}", builder.kind());
    }
}
