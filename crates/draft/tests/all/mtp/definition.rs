//! Trees against their definition: every node's children from its path alone, pair by pair.

use crate::mtp::random::{SHAPE, decoder, model};
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, DynamicTree, FixedTree, TokenTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_draft::mtp::{MtpDrafter, MtpModel};
use gorgon_kernels::top_rows::top_rows;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::sync::Arc;

const ROOT: Token = 42;

fn prompt(n: usize) -> Vec<Token> {
    [256, 12, 99, 3, 250, 77, 1][..n].to_vec()
}

/// The children after a path from the root: every module reads the whole text up to the path's end at once, as in
/// fitting. Where there are fewer modules than the path is deep, the last one reads its own output.
fn children(
    decoder: &Arc<Decoder>,
    model: &MtpModel,
    prompt: &[Token],
    path: &[Token],
    count: usize,
) -> Vec<(Token, f64)> {
    let hidden =
        DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none()).prefill(prompt).unwrap().hidden;
    let text: Vec<Token> = [prompt, &[ROOT], path].concat();
    let n = prompt.len();
    let last = model.modules() - 1;
    let mut states = hidden;
    let mut cache = None;
    let mut guess: Option<HiddenStates> = None;
    for module in 0..=path.len().min(last) {
        // Pairs (h_i, x_{i + module + 1}) of all states.
        let (cache, tokens) = (cache.insert(model.new_cache(module)), &text[module + 1..][..n]);
        states = model.forward(module, tokens, &states, &AttentionMask::Causal { rows: n }, cache).unwrap();
        cache.commit(&(0..n).collect::<Vec<_>>()).unwrap();
        guess = Some(states.narrow(n - 1, 1));
    }
    for &token in path.iter().skip(last) {
        let (cache, visible) = (cache.as_mut().unwrap(), AttentionMask::Causal { rows: 1 });
        let output = model.forward(last, &[token], &guess.unwrap(), &visible, cache).unwrap();
        cache.commit(&[0]).unwrap();
        guess = Some(output);
    }
    let rows = top_rows(&model.logits(&guess.unwrap()), model.vocab_size(), &[count]);
    rows.row(0).iter().map(|&(token, p)| (token, f64::from(p))).collect()
}

fn drafted(decoder: &Arc<Decoder>, depths: usize, prompt: &[Token], builder: &dyn TreeBuilder) -> Vec<Vec<Token>> {
    let mut drafter = MtpDrafter::new(model(decoder, depths));
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let output = target.prefill(prompt).unwrap();
    let rows: Vec<usize> = (0..prompt.len()).collect();
    drafter.observe(VerifiedPass::prompt(prompt, &output, &rows)).unwrap();
    paths(&drafter.propose(ROOT, builder).unwrap().draft.into_tree())
}

fn paths(tree: &TokenTree) -> Vec<Vec<Token>> {
    (1..tree.len()).map(|node| tree.path(node)[1..].iter().map(|&node| tree.token(node)).collect()).collect()
}

#[test]
fn chains_and_fixed_trees_hold_what_each_path_makes_likely() {
    let decoder = decoder();
    let shape = TreeShape::new(vec![vec![0], vec![2], vec![0, 1], vec![2, 0], vec![2, 0, 3]]).unwrap();
    for (depths, known) in [(1, 7), (2, 7), (3, 7), (4, 7), (3, 5)] {
        let (model, prompt) = (model(&decoder, depths), prompt(known));
        let child = |path: &[Token], rank: usize| {
            let token = children(&decoder, &model, &prompt, path, rank + 1)[rank].0;
            [path, &[token]].concat()
        };
        let (first, third) = (child(&[], 0), child(&[], 2));
        let deep = child(&third, 0);
        let want = vec![first.clone(), third.clone(), child(&first, 1), deep.clone(), child(&deep, 3)];
        assert_eq!(drafted(&decoder, depths, &prompt, &FixedTree::new(shape.clone())), want, "{depths} modules");
        let chain = (0..6).fold(vec![], |path, _| child(&path, 0));
        let got = drafted(&decoder, depths, &prompt, &ChainTree::new(6).unwrap());
        assert_eq!(got.last(), Some(&chain), "{depths} modules");
    }
}

#[test]
fn dynamic_trees_are_what_they_are_defined_to_be() {
    let decoder = decoder();
    let prompt = prompt(7);
    for depths in [1, 3] {
        let model = model(&decoder, depths);
        for (total, depth, top_k) in [(12, 2, 3), (30, 4, 4), (8, 0, 5)] {
            let (mut all, mut level): (Vec<(Vec<Token>, f64)>, _) = (vec![], vec![(vec![], 0.0)]);
            for _ in 0..=depth {
                let mut next: Vec<(Vec<Token>, f64)> = vec![];
                for (path, value) in &level {
                    for (token, p) in children(&decoder, &model, &prompt, path, top_k) {
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
            assert_eq!(drafted(&decoder, depths, &prompt, &builder), want, "dynamic:{total},{depth},{top_k}");
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
