//! Trees against their definition: every node's children from its own path alone.

use crate::hydra::random::{SHAPE, decoder, kinds, model};
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TokenTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::hydra::{HydraConfig, HydraDrafter, HydraModel};
use gorgon_kernels::top_rows::top_rows;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::sync::Arc;

const PROMPT: [Token; 7] = [256, 12, 99, 3, 250, 77, 1];
const ROOT: Token = 42;

/// The children after a path from the root, most probable first.
fn children(decoder: &Arc<Decoder>, model: &HydraModel, path: &[Token], count: usize) -> Vec<(Token, f64)> {
    if path.len() >= model.heads() {
        return vec![];
    }
    let hidden =
        DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none()).prefill(&PROMPT).unwrap().hidden;
    let state = model.state(&hidden, model.new_cache().as_mut()).unwrap();
    let path: Vec<Token> = [&[ROOT], path].concat();
    let logits = model.logits(&state, path.len() - 1, &path).unwrap();
    let rows = top_rows(&logits, model.vocab_size(), &[count]);
    rows.row(0).iter().map(|&(token, p)| (token, f64::from(p))).collect()
}

fn drafted(decoder: &Arc<Decoder>, config: HydraConfig, builder: &dyn TreeBuilder) -> Vec<Vec<Token>> {
    let mut drafter = HydraDrafter::new(model(decoder, config));
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let output = target.prefill(&PROMPT).unwrap();
    let rows: Vec<usize> = (0..PROMPT.len()).collect();
    drafter.observe(VerifiedPass::prompt(&PROMPT, &output, &rows)).unwrap();
    paths(&drafter.propose(ROOT, builder).unwrap().draft.into_tree())
}

fn paths(tree: &TokenTree) -> Vec<Vec<Token>> {
    (1..tree.len()).map(|node| tree.path(node)[1..].iter().map(|&node| tree.token(node)).collect()).collect()
}

#[test]
fn fixed_trees_hold_what_each_path_makes_likely() {
    let decoder = decoder();
    let shape = TreeShape::new(vec![vec![0], vec![2], vec![0, 1], vec![2, 0], vec![2, 0, 3]]).unwrap();
    for config in kinds() {
        let model = model(&decoder, config);
        let child = |path: &[Token], rank: usize| {
            let token = children(&decoder, &model, path, rank + 1)[rank].0;
            [path, &[token]].concat()
        };
        let (first, third) = (child(&[], 0), child(&[], 2));
        let deep = child(&third, 0);
        let want = vec![first.clone(), third.clone(), child(&first, 1), deep.clone(), child(&deep, 3)];
        assert_eq!(drafted(&decoder, config, &FixedTree::new(shape.clone())), want);
        // Siblings' children differ: heads know the path.
        assert_ne!(children(&decoder, &model, &first, 5), children(&decoder, &model, &third, 5));
        // A chain ends where the heads do.
        let (second, chain) = (child(&first, 0), drafted(&decoder, config, &ChainTree::new(6).unwrap()));
        assert_eq!(chain, [first.clone(), second.clone(), child(&second, 0)]);
    }
}

#[test]
fn dynamic_trees_are_what_they_are_defined_to_be() {
    let decoder = decoder();
    for config in kinds() {
        let model = model(&decoder, config);
        for (total, depth, top_k) in [(12, 2, 3), (30, 4, 4), (8, 0, 5)] {
            let (mut all, mut level): (Vec<(Vec<Token>, f64)>, _) = (vec![], vec![(vec![], 0.0)]);
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
            assert_eq!(drafted(&decoder, config, &builder), want, "dynamic:{total},{depth},{top_k}");
        }
    }
}

/// The nodes with the greatest values, ties to the earlier one.
fn best(nodes: &[(Vec<Token>, f64)], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by(|&a, &b| nodes[b].1.total_cmp(&nodes[a].1));
    order.truncate(count);
    order
}
