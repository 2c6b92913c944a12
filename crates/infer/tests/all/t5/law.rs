//! The law of an encoder-decoder model's text, by enumeration.

use super::{DRAFT, draft_model, load};
use crate::composed::law;
use crate::composed::models::{self, Misstating, TINY, as_draws, rule};
use crate::planted;
use crate::training_free::kinds::and_skip;
use gorgon_core::accept::SamplingScheme;
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::draft_model::{DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::Drafter;
use gorgon_model::decoder::Decoder;
use gorgon_model::random::T5Shape;
use gorgon_model::weights::Checkpoint;
use std::sync::Arc;

const TARGET: T5Shape = T5Shape { layers: 2, gated: true, ..DRAFT };
/// The first token is plain decoding's, two more come of drafted steps.
const NEW: usize = 3;
const RULES: [&str; 5] = ["sampling", "block", "traversal", "k-seq", "coupled"];

/// A random model with the rows of few enough tokens for every outcome to be tried.
fn tiny(shape: T5Shape, seed: u64) -> Arc<Decoder> {
    let (dir, vocab) = (tempfile::tempdir().unwrap(), TINY.vocab_size);
    shape.write(dir.path(), seed).unwrap();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let cut = checkpoint.entries().iter().map(|(name, entry)| {
        let (mut sizes, mut values) = (entry.shape.clone(), checkpoint.read_all(name).unwrap());
        if name == "shared.weight" || name == "lm_head.weight" {
            sizes[0] = vocab;
            values.truncate(vocab * shape.hidden_size);
        }
        (name.clone(), sizes, values)
    });
    let cut: Vec<planted::Values> = cut.collect();
    // The file is mapped until then.
    drop(checkpoint);
    planted::write(dir.path(), cut);
    let mut config = shape.config();
    for (key, value) in [("vocab_size", vocab), ("decoder_start_token_id", 0), ("pad_token_id", 0), ("eos_token_id", 1)]
    {
        config[key] = value.into();
    }
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    load(dir.path())
}

/// The error of a drafter's law, and how many of its drafts were accepted.
fn error(
    target: &Arc<Decoder>,
    drafter: &mut dyn Drafter,
    tree: &dyn TreeBuilder,
    (name, transform): (&str, Transform),
) -> (f64, usize) {
    let ((rule, _), mut accepted) = (rule(name, transform), 0);
    let error = law::error_of(target, &transform, NEW, &mut |random| {
        let ways = (tree, rule.as_ref() as _);
        let found = models::generate(target, &mut *drafter, ways, (law::PROMPT, NEW), random);
        accepted += found.accepted.iter().sum::<usize>();
        found.ids
    });
    (error, accepted)
}

/// Draft models with and without an encoder draw their drafts. Layers of the target list theirs.
#[test]
fn text_has_the_targets_law() {
    let (target, chain) = (tiny(TARGET, 3), ChainTree::new(2).unwrap());
    let pairs = FixedTree::new(TreeShape::cartesian(&[2]).unwrap());
    let two = Transform::new(0.8, Some(2), None).unwrap();
    let all = Transform::new(1.0, None, None).unwrap();
    for (number, draft) in [tiny(DRAFT, 5), target.clone(), models::decoder(TINY, 2)].iter().enumerate() {
        let chains = RULES.map(|name| (name, two, &chain as &dyn TreeBuilder));
        for (name, transform, tree) in chains.into_iter().chain([("sampling", all, &pairs as &dyn TreeBuilder)]) {
            let (_, sampling) = rule(name, transform);
            let mut drafter = DraftModelDrafter::new(draft_model(draft, &target), sampling);
            let (error, accepted) = error(&target, &mut drafter, tree, (name, transform));
            assert!(error < 1e-12, "draft model {number}, {name}: {error:e}");
            assert!(accepted > 0, "draft model {number}, {name}: nothing is shown");
        }
    }
    for method in and_skip(&["early-exit:1"]) {
        method.check(target.config()).unwrap();
        for name in RULES {
            let mut drafter = method.drafter_for(rule(name, all).1);
            let (error, accepted) = error(&target, drafter.as_mut(), &chain, (name, all));
            assert!(error < 1e-12, "{method}, {name}: {error:e}");
            assert!(accepted > 0, "{method}, {name}: nothing is shown");
        }
    }
}

/// The negative control.
#[test]
fn likely_drafts_that_count_as_draws_change_the_law() {
    let (target, draft) = (tiny(TARGET, 3), tiny(DRAFT, 5));
    let transform = Transform::new(1.0, None, None).unwrap();
    let (_, sampling) = rule("sampling", transform);
    let likely = DraftSampling { children: SamplingScheme::Deterministic, rows: true, ..sampling };
    let mut drafter = Misstating(DraftModelDrafter::new(draft_model(&draft, &target), likely), as_draws);
    let (error, _) = error(&target, &mut drafter, &ChainTree::new(2).unwrap(), ("sampling", transform));
    assert!(error > 1e-3, "{error:e}");
}
