//! Trees against their definition: every node's distribution from a pass over its path alone.

use crate::eagle::random::{SHAPE, decoder, model};
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TokenTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::eagle::{EagleDrafter, EagleModel, FeatureLayer};
use gorgon_kernels::top_rows::top_rows;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::sync::Arc;

const PROMPT: [Token; 7] = [256, 12, 99, 3, 250, 77, 1];
const ROOT: Token = 42;

/// The children after a path from the root, most probable first: features are guessed one pair at a time in a cache of
/// its own.
fn children(decoder: &Arc<Decoder>, model: &EagleModel, path: &[Token], count: usize) -> Vec<(Token, f64)> {
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let hidden = target.prefill(&PROMPT).unwrap().hidden;
    let mut cache = model.new_cache(64);
    let mut step = |token: Token, feature: HiddenStates| {
        let guessed = model.forward(&[token], &feature, &AttentionMask::Causal { rows: 1 }, &mut cache).unwrap();
        cache.commit(&[0]).unwrap();
        guessed
    };
    let after: Vec<Token> = PROMPT[1..].iter().copied().chain([ROOT]).collect();
    let mut guessed = None;
    for (i, &token) in after.iter().enumerate() {
        guessed = Some(step(token, hidden.narrow(i, 1)));
    }
    for &token in path {
        guessed = Some(step(token, guessed.unwrap()));
    }
    let rows = top_rows(&model.logits(&guessed.unwrap()), model.vocab_size(), &[count]);
    rows.row(0).iter().map(|&(token, p)| (token, f64::from(p))).collect()
}

fn drafted(decoder: &Arc<Decoder>, builder: &dyn TreeBuilder) -> TokenTree {
    let mut drafter = EagleDrafter::new(model(decoder, true));
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let output = target.prefill(&PROMPT).unwrap();
    let rows: Vec<usize> = (0..PROMPT.len()).collect();
    drafter.observe(VerifiedPass::prompt(&PROMPT, &output, &rows)).unwrap();
    drafter.propose(ROOT, builder).unwrap().draft.into_tree()
}

fn paths(tree: &TokenTree) -> Vec<Vec<Token>> {
    (1..tree.len()).map(|node| tree.path(node)[1..].iter().map(|&node| tree.token(node)).collect()).collect()
}

/// Paths of the nodes with the greatest values, ties to the earlier one, in the order of the list.
fn best(nodes: &[(Vec<Token>, f64)], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by(|&a, &b| nodes[b].1.total_cmp(&nodes[a].1));
    order.truncate(count);
    order
}

#[test]
fn dynamic_trees_are_what_they_are_defined_to_be() {
    let decoder = decoder();
    let model = model(&decoder, true);
    for (total, depth, top_k) in [(12, 2, 3), (30, 4, 4), (8, 0, 5), (60, 3, 6), (2, 3, 2)] {
        let (mut all, mut level) = (vec![], vec![(vec![], 0.0)]);
        for _ in 0..=depth {
            let mut next: Vec<(Vec<Token>, f64)> = vec![];
            for (path, value) in &level {
                for (token, p) in children(&decoder, &model, path, top_k) {
                    next.push(([&path[..], &[token]].concat(), value + p.ln()));
                }
            }
            level = best(&next, top_k).into_iter().map(|i| next[i].clone()).collect();
            all.extend(next);
        }
        let mut kept = best(&all, total - 1);
        kept.sort_unstable();
        let want: Vec<Vec<Token>> = kept.into_iter().map(|i| all[i].0.clone()).collect();
        let builder = DynamicTree::new(total, depth, top_k).unwrap();
        assert_eq!(paths(&drafted(&decoder, &builder)), want, "dynamic:{total},{depth},{top_k}");
    }
}

#[test]
fn chains_and_fixed_trees_hold_the_top_tokens() {
    let decoder = decoder();
    let model = model(&decoder, true);
    let mut chain: Vec<Token> = vec![];
    for _ in 0..6 {
        chain.push(children(&decoder, &model, &chain, 1)[0].0);
    }
    let builder = ChainTree::new(6).unwrap();
    assert_eq!(paths(&drafted(&decoder, &builder)).pop(), Some(chain));
    let shape = TreeShape::new(vec![vec![0], vec![2], vec![0, 1], vec![2, 0], vec![2, 0, 3]]).unwrap();
    let child = |path: &[Token], rank: usize| {
        let token = children(&decoder, &model, path, rank + 1)[rank].0;
        [path, &[token]].concat()
    };
    let (first, third) = (child(&[], 0), child(&[], 2));
    let deep = child(&third, 0);
    let want = vec![first.clone(), third.clone(), child(&first, 1), deep.clone(), child(&deep, 3)];
    assert_eq!(paths(&drafted(&decoder, &FixedTree::new(shape))), want);
}
