//! A drafter remembers committed tokens with the backbone's own features, and nothing else.

use crate::eagle::random::{SHAPE, decoder, model, model_three};
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, DraftTree, DynamicTree, TokenTree};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::eagle::EagleDrafter;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;

const TEXT: [Token; 12] = [256, 12, 99, 3, 250, 77, 1, 8, 190, 33, 64, 5];

fn target(decoder: &Arc<Decoder>) -> DecoderTarget {
    DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none())
}

fn read(drafter: &mut EagleDrafter, target: &mut DecoderTarget, tokens: &[Token]) {
    let output = target.prefill(tokens).unwrap();
    let rows: Vec<usize> = (0..tokens.len()).collect();
    drafter.observe(VerifiedPass::prompt(tokens, &output, &rows)).unwrap();
}

fn propose(drafter: &mut EagleDrafter, root: Token) -> DraftTree {
    drafter.propose(root, &DynamicTree::new(20, 3, 4).unwrap()).unwrap().draft
}

/// The tree of a drafter that reads the text at once.
fn fresh(decoder: &Arc<Decoder>, text: &[Token], root: Token) -> DraftTree {
    let mut drafter = EagleDrafter::new(model(decoder, false));
    read(&mut drafter, &mut target(decoder), text);
    propose(&mut drafter, root)
}

/// Whatever was proposed and rejected on the way, the tree is that of the committed text, bit for bit.
#[test]
fn rejected_tokens_leave_no_trace() {
    let decoder = decoder();
    let (mut drafter, mut target) = (EagleDrafter::new(model(&decoder, false)), target(&decoder));
    read(&mut drafter, &mut target, &TEXT[..4]);
    let mut known = 4;
    for accepted in [0, 2, 1, 0] {
        let root = TEXT[known];
        assert_eq!(propose(&mut drafter, root), fresh(&decoder, &TEXT[..known], root));
        // A tree with the text's next tokens among others, of which `accepted` are taken.
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
        assert!(drafter.cached() < known, "only pairs of committed tokens are kept");
    }
    assert_eq!(propose(&mut drafter, 9), fresh(&decoder, &TEXT[..known], 9));
    assert_eq!(drafter.cached(), known);
}

#[test]
fn a_root_may_be_asked_about_twice_or_changed() {
    let decoder = decoder();
    let (mut drafter, mut target) = (EagleDrafter::new(model(&decoder, false)), target(&decoder));
    assert_eq!(propose(&mut drafter, 7), DraftTree::root(7), "nothing is known yet");
    read(&mut drafter, &mut target, &TEXT[..5]);
    let first = propose(&mut drafter, 7);
    assert_eq!(first, fresh(&decoder, &TEXT[..5], 7));
    assert_eq!(propose(&mut drafter, 8), fresh(&decoder, &TEXT[..5], 8));
    assert_eq!(propose(&mut drafter, 7), first);
    assert_eq!(drafter.cached(), 5);
    // Another token than the one drafted on is committed, then two at once without a proposal between.
    read(&mut drafter, &mut target, &TEXT[5..6]);
    read(&mut drafter, &mut target, &TEXT[6..9]);
    assert_eq!(propose(&mut drafter, 1), fresh(&decoder, &TEXT[..9], 1));
    drafter.reset();
    target.reset();
    assert_eq!((drafter.cached(), propose(&mut drafter, 1)), (0, DraftTree::root(1)));
    read(&mut drafter, &mut target, &TEXT[..5]);
    assert_eq!(propose(&mut drafter, 7), first);
    let none = drafter.propose(7, &ChainTree::new(0).unwrap()).unwrap();
    assert_eq!(none.draft, DraftTree::root(7));
}

#[test]
fn a_trace_is_what_is_drafted_with() {
    let (decoder, all) = (decoder(), (0..SHAPE.vocab_size as Token).collect::<Vec<_>>());
    crate::along::its_own_chain(&mut EagleDrafter::new(model(&decoder, true)), &decoder, &all);
    let three = model_three(&decoder);
    let drafted = three.vocabulary().tokens().to_vec();
    crate::along::its_own_chain(&mut EagleDrafter::new(three), &decoder, &drafted);
}
