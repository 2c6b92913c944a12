//! Passes without some sub-layers are those of a model in which these add nothing, and leave the cache as it was.

use crate::planted;
use crate::training_free::by_hand::{ByHand, cached, read_at_once};
use crate::training_free::kinds::{and_skip, trees};
use gorgon_core::Token;
use gorgon_core::dist::Row;
use gorgon_core::tree::{ChainTree, TokenTree, TreeBuilder};
use gorgon_draft::skip::{SkipDrafter, Sublayers};
use gorgon_draft::training_free::TrainingFree;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::linear::Loader;
use gorgon_model::norm::Norm;
use gorgon_model::pass::{PassPlan, SkippedSublayers};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use gorgon_model::weights::Checkpoint;
use std::sync::Arc;

const SHAPE: LlamaShape = LlamaShape {
    hidden_size: 32,
    intermediate_size: 48,
    layers: 5,
    heads: 4,
    kv_heads: 2,
    vocab_size: 300,
    max_positions: 256,
};
const SEED: u64 = 7;

fn text(tokens: usize) -> Vec<Token> {
    (0..tokens).map(|i| (i * 37 + 11) as Token % 300).collect()
}

/// Attentions and feed-forward networks that are left out.
fn sets() -> Vec<SkippedSublayers> {
    let few: [(&[usize], &[usize]); 6] =
        [(&[], &[]), (&[2], &[]), (&[], &[3]), (&[0, 4], &[0]), (&[1, 2, 3], &[2, 4]), (&[0, 1, 2, 3, 4], &[])];
    let of = |(attention, mlp): (&[usize], &[usize])| SkippedSublayers::new(SHAPE.layers, attention, mlp).unwrap();
    few.map(of).into_iter().chain([planted::everything(SHAPE.layers)]).collect()
}

fn whole() -> Arc<Decoder> {
    planted::random(SHAPE, SEED, &SkippedSublayers::none(SHAPE.layers))
}

/// States after the final norm and logits of rows behind an empty cache, bit for bit.
fn rows(
    decoder: &Arc<Decoder>,
    tokens: &[Token],
    mask: &AttentionMask,
    set: Option<&SkippedSublayers>,
) -> [Vec<u32>; 2] {
    let mut target = DecoderTarget::new(decoder.clone(), SHAPE.max_positions, Hooks::none());
    let hidden = target.verify(&PassPlan { skipped: set, ..PassPlan::of_tokens(tokens, mask) }).unwrap().hidden;
    let logits = target.logits(&hidden);
    [bits(hidden.on_host().unwrap()), bits(&logits)]
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Behind an empty cache no row was computed with the sub-layers that are left out.
#[test]
fn leaving_sublayers_out_is_zeroing_what_they_add() {
    let (whole, tokens) = (whole(), text(40));
    let mut tree = TokenTree::root(tokens[0]);
    for (before, &token) in tokens[1..].iter().enumerate() {
        tree.push(before / 3, token);
    }
    let masks = [AttentionMask::Causal { rows: 40 }, AttentionMask::in_tree(tree.parents())];
    for set in sets() {
        let zeroed = planted::random(SHAPE, SEED, &set);
        for mask in &masks {
            let found = rows(&whole, &tokens, mask, Some(&set));
            assert_eq!(found, rows(&zeroed, &tokens, mask, None), "{:?}", set.lists());
            // Or the comparison would show nothing.
            assert_eq!(found == rows(&whole, &tokens, mask, None), set.count() == 0, "{:?}", set.lists());
        }
    }
}

/// Drafts behind an empty cache are the greedy text of the model in which the sub-layers add nothing.
#[test]
fn drafts_behind_an_empty_cache_are_the_zeroed_models_text() {
    let whole = whole();
    for set in sets() {
        let zeroed = planted::random(SHAPE, SEED, &set);
        let [attention, mlp] = set.lists();
        let mut drafter = SkipDrafter::new("skip".into(), Sublayers { attention, mlp }, Some(0.0));
        for root in [3, 77, 299] {
            let mut target = DecoderTarget::new(zeroed.clone(), SHAPE.max_positions, Hooks::none());
            let mut want = vec![root];
            for at in 0..12 {
                let hidden = target.extend(&want[at..]).unwrap().hidden;
                want.push(Row::Logits(&target.logits(&hidden)).argmax() as Token);
            }
            let found = ByHand::new(&whole, &[root], &mut drafter).draft(&ChainTree::new(12).unwrap());
            assert_eq!(found.draft.tree().tokens(), want, "{:?}", set.lists());
        }
    }
}

/// Without all sub-layers a token's logits are those of its embedding.
#[test]
fn without_all_sublayers_the_lm_head_reads_embeddings() {
    let (dir, compute) = (tempfile::tempdir().unwrap(), Compute::cpu(FloatFormat::F32));
    SHAPE.write(dir.path(), FloatFormat::F32, SEED).unwrap();
    // Norms of a random model are ones, which would hide one that is left out.
    planted::rewrite(dir.path(), |name, values| {
        if name == "model.norm.weight" {
            values.iter_mut().enumerate().for_each(|(i, weight)| *weight = 0.5 + (i % 5) as f32 * 0.3);
        }
    });
    let (decoder, tokens) = (planted::decoder(dir.path()), text(40));
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let norm = Norm::load(&Loader { checkpoint: &checkpoint, compute: &compute }, "model.norm.weight", false).unwrap();
    let states = norm.forward(&decoder.embed(&tokens).unwrap(), decoder.config().norm_eps);
    let logits = DecoderTarget::new(decoder.clone(), 1, Hooks::none()).logits(&states);
    let want = [bits(states.on_host().unwrap()), bits(&logits)];
    let (mask, all) = (AttentionMask::Causal { rows: 40 }, planted::everything(SHAPE.layers));
    assert_eq!(rows(&decoder, &tokens, &mask, Some(&all)), want);
}

/// Steps until there are so many tokens, each after drafts that were taken back; what is cached is compared with what a
/// target caches that never drafted.
fn keeps_the_cache(decoder: &Arc<Decoder>, method: &TrainingFree, tree: &dyn TreeBuilder, tokens: usize) {
    let mut text: Vec<Token> = text(9);
    let mut drafter = method.drafter();
    let mut by_hand = ByHand::new(decoder, &text, &mut drafter);
    while text.len() < tokens {
        let (what, want) = (format!("{method}, {:?}", tree.kind()), read_at_once(decoder, &text[..text.len() - 1]));
        assert!(cached(&mut by_hand.target) == want, "{what}: after {} tokens", text.len());
        by_hand.draft(tree);
        by_hand.target.roll_back();
        assert!(cached(&mut by_hand.target) == want, "{what}: drafts after {} tokens", text.len());
        text.extend(by_hand.step(tree).emitted);
    }
}

/// Of SWIFT the text is long enough for its search to run.
#[test]
fn the_cache_is_that_of_a_target_that_never_drafted() {
    let decoder = whole();
    for method in and_skip(&["swift:50", "early-exit:2", "pipelined:1,3", "partial:16,3"]) {
        for tree in trees(&method).into_iter().step_by(2) {
            keeps_the_cache(&decoder, &method, tree.as_ref(), 50);
        }
    }
}
