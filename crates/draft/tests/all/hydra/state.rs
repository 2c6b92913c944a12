//! A drafter remembers committed tokens and nothing else.

use crate::hydra::random::{SHAPE, decoder, kinds, model};
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, DraftTree, DynamicTree, TokenTree};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::hydra::{HydraConfig, HydraDrafter};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;

const TEXT: [Token; 12] = [256, 12, 99, 3, 250, 77, 1, 8, 190, 33, 64, 5];

fn read(drafter: &mut HydraDrafter, target: &mut DecoderTarget, tokens: &[Token]) {
    let output = target.prefill(tokens).unwrap();
    let rows: Vec<usize> = (0..tokens.len()).collect();
    drafter.observe(VerifiedPass::prompt(tokens, &output, &rows)).unwrap();
}

fn propose(drafter: &mut HydraDrafter, root: Token) -> DraftTree {
    drafter.propose(root, &DynamicTree::new(20, 3, 4).unwrap()).unwrap().draft
}

/// The tree of a drafter that reads the text at once.
fn fresh(decoder: &Arc<Decoder>, config: HydraConfig, text: &[Token], root: Token) -> DraftTree {
    let mut drafter = HydraDrafter::new(model(decoder, config));
    read(&mut drafter, &mut DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none()), text);
    propose(&mut drafter, root)
}

/// Whatever was proposed and rejected on the way, the tree is that of the committed text, bit for bit.
#[test]
fn rejected_tokens_leave_no_trace() {
    let decoder = decoder();
    for config in kinds() {
        let mut drafter = HydraDrafter::new(model(&decoder, config));
        let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
        assert_eq!(propose(&mut drafter, 7), DraftTree::root(7), "nothing is known yet");
        read(&mut drafter, &mut target, &TEXT[..4]);
        let mut known = 4;
        for (step, accepted) in [0, 2, 1, 0].into_iter().enumerate() {
            let root = TEXT[known];
            // Not every step is drafted on: a drafter may rest.
            if step != 1 {
                assert_eq!(propose(&mut drafter, root), fresh(&decoder, config, &TEXT[..known], root));
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
        }
        let tree = fresh(&decoder, config, &TEXT[..known], 9);
        assert_eq!(propose(&mut drafter, 9), tree);
        assert_eq!(propose(&mut drafter, 9), tree, "a root may be asked about twice");
        assert_eq!(drafter.cached(), if config.prefix_attention { known } else { 0 });
        let none = drafter.propose(7, &ChainTree::new(0).unwrap()).unwrap();
        assert_eq!(none.draft, DraftTree::root(7));
        drafter.reset();
        target.reset();
        assert_eq!((drafter.cached(), propose(&mut drafter, 1)), (0, DraftTree::root(1)));
        read(&mut drafter, &mut target, &TEXT[..5]);
        assert_eq!(propose(&mut drafter, 7), fresh(&decoder, config, &TEXT[..5], 7));
    }
}

#[test]
fn a_trace_is_what_is_drafted_with() {
    let (decoder, all) = (decoder(), (0..SHAPE.vocab_size as Token).collect::<Vec<_>>());
    for config in kinds() {
        let heads = config.heads;
        let mut drafter = HydraDrafter::new(model(&decoder, config));
        crate::along::its_own_chain(&mut drafter, &decoder, &all);
        let known = drafter.trace(7, &[1; 20]).unwrap().unwrap();
        assert_eq!(known.guesses.len(), heads, "there are no more heads");
    }
}
