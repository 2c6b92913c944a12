//! Several draft models whose trees are merged.

use crate::composed::law;
use crate::composed::models::{DRAFT, TARGET, TINY, decoder, draft_model, generate, rule, specinfer};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{FixedTree, OwnTree, TokenTree, TreeBuilder, TreeShape};
use gorgon_draft::coupled::CoupledTree;
use gorgon_draft::draft_model::{DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::{DraftContext, Drafter, Proposal, VerifiedPass};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target, read};
use std::sync::Arc;

const BUDGET: (usize, usize) = (64, 8);

fn budget() -> OwnTree {
    OwnTree::new(BUDGET.0, BUDGET.1).unwrap()
}

/// Whole steps of real models over three tokens.
#[test]
fn merged_trees_emit_the_targets_law() {
    let (target, models) = (decoder(TINY, 1), [decoder(TINY, 2), decoder(TINY, 3)]);
    let two = Transform::new(0.8, Some(2), None).unwrap();
    for (name, widths) in
        [("sampling", &[2][..]), ("sampling", &[1, 1]), ("k-seq", &[2]), ("traversal", &[2]), ("block", &[1, 1])]
    {
        let (rule, sampling) = rule(name, two);
        let mut drafter = specinfer(&models, &target, sampling, widths);
        let found = law::error(&target, &mut drafter, &budget(), (rule.as_ref(), &two));
        assert!(found < 1e-12, "{name}: {found:e}");
    }
}

/// One draft model is merged with nothing: it drafts as it would alone.
#[test]
fn one_model_drafts_as_alone() {
    let (target, model) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let shape = TreeShape::cartesian(&[2, 1, 2]).unwrap();
    for temperature in [0.0, 0.8] {
        let transform = Transform::new(temperature, None, Some(0.95)).unwrap();
        for name in ["auto", "sampling", "block", "traversal", "typical"] {
            let (rule, sampling) = rule(name, transform);
            let run = |drafter: &mut dyn Drafter, tree: &dyn TreeBuilder| {
                let random = &mut SeededRandom::new(4);
                generate(&target, drafter, (tree, rule.as_ref()), (&[256, 72, 105], 40), random)
            };
            let found = run(&mut specinfer(std::slice::from_ref(&model), &target, sampling, &[2, 1, 2]), &budget());
            let mut alone = DraftModelDrafter::new(draft_model(&model, &target), sampling);
            let alone = run(&mut alone, &FixedTree::new(shape.clone()));
            assert_eq!((found.ids, found.accepted), (alone.ids, alone.accepted), "{name} at {temperature}");
        }
    }
}

const TEXT: &[Token] = &[256, 72, 105, 32];
const WIDTHS: &[usize] = &[3, 2, 2];

/// The trees of draft models that draw one after the other from one stream, unmerged and merged.
fn drafted(
    target: &Arc<Decoder>,
    models: &[Arc<Decoder>],
    sampling: DraftSampling,
    pass: VerifiedPass<'_>,
) -> (Vec<Proposal>, Proposal) {
    let random = &mut SeededRandom::new(7);
    let alone = |model: &Arc<Decoder>| {
        let mut alone = DraftModelDrafter::new(draft_model(model, target), sampling);
        alone.observe(pass).unwrap();
        let tree = FixedTree::new(TreeShape::cartesian(WIDTHS).unwrap());
        let tree = CoupledTree::plain(&tree);
        alone.draft(9, &mut DraftContext { tree, random: &mut *random, target: None }).unwrap()
    };
    let forest: Vec<Proposal> = models.iter().map(alone).collect();
    let mut merged = specinfer(models, target, sampling, WIDTHS);
    merged.observe(pass).unwrap();
    let tree = budget();
    let (tree, random) = (CoupledTree::plain(&tree), &mut SeededRandom::new(7));
    (forest, merged.draft(9, &mut DraftContext { tree, random, target: None }).unwrap())
}

/// The node of a trie with the path that `node` has in another tree.
fn place(trie: &TokenTree, own: &TokenTree, node: usize) -> usize {
    let step = |at: usize, &on: &usize| trie.children(at).find(|&child| trie.token(child) == own.token(on)).unwrap();
    own.path(node)[1..].iter().fold(0, step)
}

/// The target's rows of the merged tree are those of the trees alone, bit for bit, and so are the sources' rows.
#[test]
fn rows_of_the_merged_tree_are_those_of_the_forest() {
    let (target, models) = (decoder(TARGET, 3), [decoder(DRAFT, 5), decoder(DRAFT, 6)]);
    for (name, temperature) in [("sampling", 0.4), ("k-seq", 0.4), ("greedy", 0.0)] {
        let (_, sampling) = rule(name, Transform::new(temperature, Some(4), None).unwrap());
        let mut whole = DecoderTarget::new(target.clone(), 100, Hooks::none());
        let output = whole.prefill(TEXT).unwrap();
        let pass = VerifiedPass::prompt(TEXT, &output, &[0, 1, 2, 3]);
        let (forest, found) = drafted(&target, &models, sampling, pass);
        let trie = found.draft.tree();
        let mut states = |tree: &TokenTree| {
            let hidden = whole.verify_tree(tree).unwrap().hidden;
            whole.roll_back();
            let values = read(hidden.into_tensor());
            values.chunks(TARGET.hidden_size).map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
        };
        let rows: Vec<Vec<u32>> = states(trie);
        let drafts: usize = forest.iter().map(|proposal| proposal.draft.tree().len() - 1).sum();
        assert_eq!(found.draft.entries().unwrap().len(), drafts, "{name}: every draft is an entry");
        assert!(name != "k-seq" || trie.len() <= drafts, "independent draws repeat");
        for (source, proposal) in forest.iter().enumerate() {
            let own = proposal.draft.tree();
            let own_rows: Vec<Vec<u32>> = states(own);
            for node in 0..own.len() {
                let at = place(trie, own, node);
                assert_eq!(rows[at], own_rows[node], "{name}: node {node} of source {source}");
                let rows = (&found.sources[source].rows, &proposal.sources[0].rows);
                if let (Some(all), Some(alone)) = rows
                    && own.children(node).next().is_some()
                {
                    assert_eq!(all[at * 300..][..300], alone[node * 300..][..300], "{name}: {node} of {source}");
                }
            }
        }
    }
}
