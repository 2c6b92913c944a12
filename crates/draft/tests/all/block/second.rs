//! The parts of DFlash 2: they start as nothing, and trees follow the selector's pairs.

use crate::block::random::{SHAPE, config, decoder, load, model, shape, values, write};
use gorgon_core::Token;
use gorgon_core::tree::{ChainTree, FixedTree, TokenTree, TreeBuilder, TreeShape, TrellisTree};
use gorgon_draft::block::{BlockConfig, BlockDrafter, BlockModel, SelectorConfig};
use gorgon_draft::drafter::{Drafter, VerifiedPass};
use gorgon_model::decoder::Decoder;
use gorgon_model::target::DecoderTarget;
use serde_json::json;
use std::sync::Arc;

const TEXT: [Token; 6] = [256, 12, 99, 3, 250, 77];
const ROOT: Token = 42;

fn both() -> BlockConfig {
    BlockConfig { conv: true, selector: Some(SelectorConfig { k: 6, rank: 3 }), ..config() }
}

fn reading(decoder: &Arc<Decoder>, model: BlockModel) -> BlockDrafter {
    let mut drafter = BlockDrafter::new(model);
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, drafter.needs().hooks);
    let output = target.prefill(&TEXT).unwrap();
    drafter.observe(VerifiedPass::prompt(&TEXT, &output, &[0, 1, 2, 3, 4, 5])).unwrap();
    drafter
}

fn tree(drafter: &mut BlockDrafter, builder: &dyn TreeBuilder) -> TokenTree {
    drafter.propose(ROOT, builder).unwrap().draft.into_tree()
}

/// Convolutions that start as the identity and a selector that starts with no pairs change no bit of a state, and no
/// token of a tree.
#[test]
fn both_parts_start_as_nothing() {
    // As many candidates as the widest of these trees takes after a node.
    let config = BlockConfig { selector: Some(SelectorConfig { k: 16, rank: 3 }), ..both() };
    let (decoder, shape) = (decoder(), shape(&decoder(), &config));
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(second.path(), &shape, |tensors, _| {
        for (name, _, values) in tensors {
            if name.ends_with("base_kernel") {
                let side = SHAPE.hidden_size * 2;
                values.iter_mut().enumerate().for_each(|(i, v)| *v = f32::from(u8::from(i % side < side / 2)));
            } else if name.ends_with("kernel_projection.weight") || name.ends_with("successor_codebook") {
                values.fill(0.0);
            }
        }
    });
    write(first.path(), &shape, |tensors, document| {
        tensors.retain(|(name, ..)| !name.contains("_conv.") && !name.starts_with("candidate_selector."));
        let own = json!({"mask_token_id": 7, "target_layer_ids": [0, 1], "causal": false});
        (document["architectures"], document["dflash_config"]) = (json!(["DFlashDraftModel"]), own);
    });
    let load = |dir: &tempfile::TempDir| reading(&decoder, load(dir.path(), &decoder).unwrap());
    let (mut first, mut second) = (load(&first), load(&second));
    let states = |drafter: &mut BlockDrafter| drafter.trace(ROOT, &[1, 2, 3]).unwrap().unwrap();
    assert_eq!(states(&mut first), states(&mut second));
    let narrow = TreeShape::cartesian(&[3, 2, 2]).unwrap();
    for builder in
        [&ChainTree::new(4).unwrap() as &dyn TreeBuilder, &FixedTree::new(narrow), &TrellisTree::new(12, 4).unwrap()]
    {
        assert_eq!(tree(&mut first, builder), tree(&mut second, builder), "{:?}", builder.kind());
    }
}

/// Children of a node are the best of the slot's candidates by `U(b) + ⟨A[a] ∘ (P h), B[b]⟩`, `a` the node's token.
#[test]
fn children_follow_the_scores_of_pairs() {
    let (decoder, config) = (decoder(), both());
    let mut drafter = reading(&decoder, model(&decoder, &config));
    let shape = shape(&decoder, &config);
    let weights = |name: &str| -> Vec<f32> {
        let all = shape.parameters();
        let at = all.iter().position(|spec| spec.name.starts_with(name)).unwrap();
        values(at, &all[at])
    };
    let [predecessor, successor, projection] = ["predecessor_codebook", "successor_codebook", "hidden_projection"]
        .map(|name| weights(&format!("candidate_selector.{name}")));
    let slots = drafter.trace(ROOT, &[1, 2, 3]).unwrap().unwrap().guesses;
    let (k, rank) = (6, 3);
    let children = |depth: usize, parent: Token| -> Vec<Token> {
        let guess = &slots[depth];
        let mut order: Vec<usize> = (0..guess.logits.len()).collect();
        order.sort_by(|&a, &b| guess.logits[b].total_cmp(&guess.logits[a]));
        order.truncate(k);
        let score = |b: usize| {
            let pair = |r: usize| {
                let projected = &projection[r * SHAPE.hidden_size..][..SHAPE.hidden_size];
                let h: f32 = projected.iter().zip(&guess.state).map(|(p, h)| p * h).sum();
                predecessor[parent as usize * rank + r] * h * successor[b * rank + r]
            };
            guess.logits[b] + (0..rank).map(pair).sum::<f32>()
        };
        order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        order.into_iter().map(|token| token as Token).collect()
    };
    let wide = tree(&mut drafter, &FixedTree::new(TreeShape::cartesian(&[3, 2, 2]).unwrap()));
    for node in (0..wide.len()).filter(|&node| wide.depths()[node] < 3) {
        let width = [3, 2, 2][wide.depths()[node]];
        let found: Vec<Token> = wide.children(node).map(|child| wide.token(child)).collect();
        assert_eq!(found, children(wide.depths()[node], wide.token(node))[..width], "node {node}");
    }
    let chain = tree(&mut drafter, &ChainTree::new(9).unwrap());
    for depth in 0..config.slots - 1 {
        assert_eq!(chain.token(depth + 1), children(depth, chain.token(depth))[0]);
    }
}
