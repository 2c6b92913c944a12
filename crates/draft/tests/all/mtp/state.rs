//! A drafter remembers pairs of committed tokens and nothing else.

use crate::mtp::random::{SHAPE, decoder, decoder_of, model};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{ChainTree, DraftTree, DynamicTree, TokenTree};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::mtp::MtpDrafter;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;

const TEXT: [Token; 12] = [256, 12, 99, 3, 250, 77, 1, 8, 190, 33, 64, 5];

fn read(drafter: &mut MtpDrafter, target: &mut DecoderTarget, tokens: &[Token]) {
    let output = target.prefill(tokens).unwrap();
    let rows: Vec<usize> = (0..tokens.len()).collect();
    drafter.observe(VerifiedPass::prompt(tokens, &output, &rows)).unwrap();
}

fn propose(drafter: &mut MtpDrafter, root: Token) -> DraftTree {
    drafter.propose(root, &DynamicTree::new(20, 3, 4).unwrap()).unwrap().draft
}

/// The tree of a drafter that reads the text at once.
fn fresh(decoder: &Arc<Decoder>, depths: usize, text: &[Token], root: Token) -> DraftTree {
    let mut drafter = MtpDrafter::new(model(decoder, depths));
    read(&mut drafter, &mut DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none()), text);
    propose(&mut drafter, root)
}

/// Whatever was proposed and rejected on the way, the tree is that of the committed text, bit for bit; texts shorter
/// than there are modules included.
#[test]
fn rejected_tokens_leave_no_trace() {
    let decoder = decoder();
    for (depths, start) in [(1, 4), (3, 4), (3, 1), (4, 2)] {
        let mut drafter = MtpDrafter::new(model(&decoder, depths));
        let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
        assert_eq!(propose(&mut drafter, 7), DraftTree::root(7), "nothing is known yet");
        read(&mut drafter, &mut target, &TEXT[..start]);
        let mut known = start;
        for (step, accepted) in [0, 2, 1, 0].into_iter().enumerate() {
            let root = TEXT[known];
            // Not every step is drafted on: a drafter may rest.
            if step != 1 {
                assert_eq!(propose(&mut drafter, root), fresh(&decoder, depths, &TEXT[..known], root));
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
        let tree = fresh(&decoder, depths, &TEXT[..known], 9);
        assert_eq!(propose(&mut drafter, 9), tree);
        assert_eq!(propose(&mut drafter, 9), tree, "a root may be asked about twice");
        assert_eq!(drafter.cached(), (0..depths).map(|module| known - module).collect::<Vec<_>>());
        let none = drafter.propose(7, &ChainTree::new(0).unwrap()).unwrap();
        assert_eq!(none.draft, DraftTree::root(7));
        drafter.reset();
        target.reset();
        assert_eq!((drafter.cached(), propose(&mut drafter, 1)), (vec![0; depths], DraftTree::root(1)));
        read(&mut drafter, &mut target, &TEXT[..5]);
        assert_eq!(propose(&mut drafter, 7), fresh(&decoder, depths, &TEXT[..5], 7));
    }
}

/// A tree asks as many modules as it is deep. The others read what they missed when a deeper tree comes.
#[test]
fn modules_beyond_a_trees_depth_are_left_alone() {
    let decoder = decoder();
    let chain = ChainTree::new(1).unwrap();
    let mut drafter = MtpDrafter::new(model(&decoder, 4));
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    for (known, &token) in TEXT.iter().enumerate().take(9) {
        read(&mut drafter, &mut target, &[token]);
        let root = TEXT[known + 1];
        let shallow = drafter.propose(root, &chain).unwrap().draft;
        assert_eq!(drafter.cached(), [known + 1, 0, 0, 0]);
        if known == 8 {
            let deep = fresh(&decoder, 4, &TEXT[..=known], root);
            assert_eq!(shallow.tree().token(1), deep.tree().token(1));
            assert_eq!(propose(&mut drafter, root), deep);
            assert_eq!(drafter.cached(), [9, 8, 7, 6]);
        }
    }
}

/// Trees of any depth, other roots than those that are committed, steps without a proposal, long prompts, a fresh
/// start: the tree is that of the committed text.
#[test]
fn any_course_of_proposals_leaves_no_trace() {
    let decoder = decoder_of(&LlamaShape { max_positions: 1024, ..SHAPE });
    let text: Vec<Token> = (0..1000u32).map(|i| (i * i * 31 + i * 7) % 300).collect();
    for seed in 0..4 {
        let mut random = SeededRandom::new(seed);
        let mut below = |n: usize| (random.uniform() * n as f64) as usize;
        let depths = 1 + below(4);
        let mut drafter = MtpDrafter::new(model(&decoder, depths));
        let mut target = DecoderTarget::new(decoder.clone(), 1024, Hooks::none());
        for long in [false, true] {
            let mut known = 0;
            while known < if long { 640 } else { 30 } {
                let new = if long && below(6) == 0 { 100 + below(250) } else { 1 + below(4) };
                read(&mut drafter, &mut target, &text[known..known + new]);
                known += new;
                for _ in 0..below(3) {
                    let root = if below(3) == 0 { 5 } else { text[known] };
                    let chain = ChainTree::new(below(depths + 2)).unwrap();
                    let mut alone = MtpDrafter::new(model(&decoder, depths));
                    read(&mut alone, &mut DecoderTarget::new(decoder.clone(), 1024, Hooks::none()), &text[..known]);
                    let [got, want] = [&mut drafter, &mut alone].map(|one| one.propose(root, &chain).unwrap().draft);
                    assert_eq!(got, want, "{depths} modules, {known} tokens, {} drafts", chain.drafts());
                }
            }
            drafter.reset();
            target.reset();
        }
    }
}

#[test]
fn a_trace_is_what_is_drafted_with() {
    let (decoder, all) = (decoder(), (0..SHAPE.vocab_size as Token).collect::<Vec<_>>());
    for depths in [1, 2, 4] {
        let mut drafter = MtpDrafter::new(model(&decoder, depths));
        crate::along::its_own_chain(&mut drafter, &decoder, &all);
        assert_eq!(drafter.trace(7, &[1; 20]).unwrap().map(|trace| trace.guesses.len()), Some(21));
    }
}
