//! The threshold of Draft & Verify in the decode loop: recomputed from what every step drafted and accepted, measured
//! at the drafter itself, and seen in where its paths end.

use crate::composed::models::{generate, rule};
use crate::planted;
use crate::training_free::kinds::and_skip;
use gorgon_core::Token;
use gorgon_core::accept::AcceptanceRule;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::dist::{Row, Transform};
use gorgon_core::tree::{ChainTree, TokenTree, TreeBuilder};
use gorgon_draft::coupled::CoupledTree;
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::decoder::Decoder;
use gorgon_model::device::FloatFormat;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::{PassPlan, SkippedSublayers};
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
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
const PROMPTS: [&[Token]; 3] = [&[256, 3, 9, 40], &[7, 250, 100, 11, 4], &[299]];
const NEW: usize = 40;
/// Drafts of a chain.
const DEPTH: usize = 4;
/// The width and the vocabulary of a ladder.
const RUNGS: usize = 256;
const LADDER: LlamaShape =
    LlamaShape { hidden_size: RUNGS, intermediate_size: 16, layers: 2, vocab_size: RUNGS, ..SHAPE };
/// More than the rounding of probabilities, and far less than a step of the threshold.
const CLOSE: f64 = 5e-5;

/// The sub-layers that [`and_skip`] leaves out.
fn left_out() -> SkippedSublayers {
    SkippedSublayers::new(SHAPE.layers, &[1], &[0]).unwrap()
}

/// A random model that is sure of some of its tokens. Where `is_right` says so, its drafter leaves out nothing that
/// matters: the sub-layers add nothing.
fn sharp(is_right: bool) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    SHAPE.write(dir.path(), FloatFormat::F32, 7).unwrap();
    if is_right {
        planted::silence(dir.path(), &left_out());
    }
    planted::rewrite(dir.path(), |name, values| {
        if name == "lm_head.weight" {
            values.iter_mut().for_each(|weight| *weight *= 8.0);
        }
    });
    planted::decoder(dir.path())
}

/// Probabilities around a first threshold, a step of which, 0.001, is more than two of their distances.
fn rung(start: f64, token: usize) -> f64 {
    start + 0.0004 * (token as f64 - RUNGS as f64 / 2.0)
}

/// A model whose most likely token after `t` is 0, with the probability of rung `t`. States are one-hot: no layer adds
/// anything.
fn ladder(start: f64) -> Arc<Decoder> {
    let dir = tempfile::tempdir().unwrap();
    LADDER.write(dir.path(), FloatFormat::F32, 1).unwrap();
    planted::silence(dir.path(), &planted::everything(LADDER.layers));
    let norm = (RUNGS as f64).sqrt();
    planted::rewrite(dir.path(), |name, values| match name {
        "model.embed_tokens.weight" => {
            values.fill(0.0);
            values.iter_mut().step_by(RUNGS + 1).for_each(|x| *x = norm as f32);
        }
        "lm_head.weight" => {
            values.fill(0.0);
            for (token, weight) in values[..RUNGS].iter_mut().enumerate() {
                let probability = rung(start, token);
                let odds = probability * (RUNGS as f64 - 1.0) / (1.0 - probability);
                *weight = (odds.ln() / norm) as f32;
            }
        }
        _ => (),
    });
    planted::decoder(dir.path())
}

/// Draft & Verify, with its threshold by the definition.
struct Recomputed {
    inner: Box<dyn Drafter>,
    left_out: SkippedSublayers,
    ladder: DecoderTarget,
    start: f64,
    threshold: f64,
    /// Running acceptance, which begins as it is wanted.
    acceptance: f64,
    /// Steps after which the threshold rose, stayed and fell.
    moves: [usize; 3],
    /// Paths that it ended.
    ended: usize,
}

impl Recomputed {
    fn new(inner: Box<dyn Drafter>, ladder: &Arc<Decoder>, start: f64) -> Self {
        let ladder = DecoderTarget::new(ladder.clone(), LADDER.max_positions, Hooks::none());
        let (left_out, threshold, acceptance) = (left_out(), start, 0.9);
        Self { inner, left_out, ladder, start, threshold, acceptance, moves: [0; 3], ended: 0 }
    }

    fn learn(&mut self, drafted: usize, accepted: usize) {
        self.acceptance = 0.5 * self.acceptance + 0.5 * accepted as f64 / drafted as f64;
        let (kind, wanted) = match () {
            () if self.acceptance < 0.9 => (0, self.threshold + 0.01),
            () if drafted == DEPTH => (1, self.threshold),
            () => (2, self.threshold - 0.01),
        };
        self.moves[kind] += 1;
        self.threshold = 0.9 * self.threshold + 0.1 * wanted;
    }

    /// Every draft but the last one of a path is likely enough, and the last one of a path that ends early is not.
    /// Under a coupling the likeliest token in a draft's place counts: the draft is the one that the noise prefers.
    fn check_path(&mut self, tree: &TokenTree, logits: &[f32], is_coupled: bool) {
        let (last, uncut) = (tree.len() - 1, Transform::new(1.0, None, None).unwrap());
        assert!((1..=DEPTH).contains(&last) && tree.max_depth() == last);
        for (before, row) in logits.chunks_exact(SHAPE.vocab_size).take(last).enumerate() {
            let (node, row) = (before + 1, Row::Logits(row));
            let likeliest = row.argmax();
            assert!(is_coupled || tree.token(node) as usize == likeliest);
            let (probability, threshold) = (uncut.apply(row)[likeliest], self.threshold);
            if node < last {
                assert!(probability > threshold - CLOSE, "{probability} at {node} of {last}, {threshold}");
            } else if last < DEPTH {
                assert!(probability < threshold + CLOSE, "{probability} at {last}, {threshold}");
                self.ended += 1;
            }
        }
    }

    /// Whether the drafter drafts a second token where the first one has this rung's probability.
    fn goes_on(&mut self, rung: usize) -> bool {
        let chain = ChainTree::new(DEPTH).unwrap();
        let (tree, mut random) = (CoupledTree::plain(&chain), SeededRandom::new(0));
        let mut context = DraftContext { tree, random: &mut random, target: Some(&mut self.ladder) };
        let drafted = self.inner.draft(rung as Token, &mut context).unwrap().draft.tree().max_depth();
        self.ladder.roll_back();
        drafted > 1
    }

    /// The drafter's threshold lies between the rungs around that of the definition.
    fn check_threshold(&mut self) {
        let (threshold, start) = (self.threshold, self.start);
        let below = (0..RUNGS).rev().find(|&token| rung(start, token) < threshold - CLOSE).unwrap();
        let above = (0..RUNGS).find(|&token| rung(start, token) > threshold + CLOSE).unwrap();
        assert!(!self.goes_on(below), "the threshold is below {}, {threshold} expected", rung(start, below));
        assert!(self.goes_on(above), "the threshold is above {}, {threshold} expected", rung(start, above));
    }
}

impl Drafter for Recomputed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reset(&mut self) {
        (self.threshold, self.acceptance) = (self.start, 0.9);
        self.inner.reset();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if let Some(verified) = pass.verified {
            self.learn(verified.tree.max_depth(), verified.path.len() - 1);
        }
        self.inner.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.inner.draft(root, context)?;
        let (tree, is_coupled) = (proposal.draft.tree(), context.tree.coupling.is_some());
        let target = context.target.as_deref_mut().unwrap();
        target.roll_back();
        let mask = AttentionMask::in_tree(tree.parents());
        let plan = PassPlan { skipped: Some(&self.left_out), ..PassPlan::of_tokens(tree.tokens(), &mask) };
        let hidden = target.verify(&plan)?.hidden;
        let logits = target.logits(&hidden);
        target.roll_back();
        self.check_path(tree, &logits, is_coupled);
        self.check_threshold();
        Ok(proposal)
    }
}

/// Each text begins anew at the first threshold: that of greedy or of sampled text.
#[test]
fn the_threshold_is_that_of_the_definition() {
    let [method] = &and_skip(&[])[..] else { panic!() };
    let (chain, ladders) = (ChainTree::new(DEPTH).unwrap(), [0.8, 0.5].map(ladder));
    let mut moves = [0; 3];
    for target in [sharp(false), sharp(true)] {
        for (name, temperature) in [("greedy", 0.0), ("sampling", 0.8), ("coupled", 0.8)] {
            let (rule, sampling) = rule(name, Transform::new(temperature, None, None).unwrap());
            let (ladder, start) = if name == "greedy" { (&ladders[0], 0.8) } else { (&ladders[1], 0.5) };
            let mut drafter = Recomputed::new(method.drafter_for(sampling), ladder, start);
            for prompt in PROMPTS {
                let ways = (&chain as &dyn TreeBuilder, rule.as_ref() as &dyn AcceptanceRule);
                let found = generate(&target, &mut drafter, ways, (prompt, NEW), &mut SeededRandom::new(1));
                assert_eq!(found.ids.len(), NEW);
                // Or the next text would not show that it begins anew.
                assert_ne!(drafter.threshold, start, "{name}: it learns");
            }
            moves.iter_mut().zip(drafter.moves).for_each(|(all, own)| *all += own);
            assert!(drafter.ended > 0, "{name}: it ends paths");
        }
    }
    assert!(moves.iter().all(|&steps| steps > 0), "it rises, stays and falls: {moves:?}");
}
