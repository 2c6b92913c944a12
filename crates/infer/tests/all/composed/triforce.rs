//! The target over a part of its cache, for which a small model with a streaming cache drafts.

use crate::composed::law;
use crate::composed::models::{DRAFT, Misstating, TARGET, TINY, as_draws, decoder, draft_model, generate, plain, rule};
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RandomSource, SamplingScheme};
use gorgon_core::dist::{Row, Transform, residual};
use gorgon_core::tree::{Candidate, ChainTree, DraftTree, TreeBuilder};
use gorgon_core::{PooledVec, Token};
use gorgon_draft::draft_model::{DraftModelDrafter, DraftSampling, StreamingWindow};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, Proposal, VerifiedPass};
use gorgon_infer::cascade::inner_sampling;
use gorgon_infer::triforce::TriForceDrafter;
use gorgon_infer::{Limits, Method, Request, Session};
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::cache::{Picked, Retrieval, RetrievedCache};
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassPlan;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, Target};
use std::ops::ControlFlow;
use std::sync::Arc;

fn retrieval(rows: usize, chunk: usize) -> Retrieval {
    Retrieval { rows, chunk, picked: Picked::Score }
}

fn window(sinks: usize, recent: usize) -> StreamingWindow {
    StreamingWindow { sinks, recent }
}

fn chain(drafts: usize) -> ChainTree {
    ChainTree::new(drafts).unwrap()
}

/// Rows of the part, rows of the small model, its drafts at a time.
type Sizes = (Retrieval, StreamingWindow, usize);

fn triforce(
    (target, small): (&Decoder, &Arc<Decoder>),
    (part, window, ahead): Sizes,
    sampling: DraftSampling,
) -> TriForceDrafter {
    let small = draft_model(small, target).within(target.config().vocab_size);
    let small = DraftModelDrafter::streaming(small, inner_sampling(&sampling), window);
    TriForceDrafter::new("partial".into(), part, (small, chain(ahead)), sampling)
}

/// A part that is the whole cache drafts what the target says: every draft is accepted, whatever the small model is.
#[test]
fn over_the_whole_cache_every_draft_is_right() {
    let (target, small) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let text: Vec<Token> = (0..30).map(|i| (i * 37 + 11) % 300).collect();
    for (temperature, ahead, recent) in [(0.0, 1, 200), (0.8, 1, 16), (0.8, 3, 8), (0.0, 2, 9)] {
        let (rule, sampling) = rule("sampling", Transform::new(temperature, None, Some(0.9)).unwrap());
        let sizes = (retrieval(160, 4), window(2, recent), ahead);
        let mut drafter = triforce((&target, &small), sizes, sampling);
        let ways = (&chain(5) as &dyn TreeBuilder, rule.as_ref() as &dyn AcceptanceRule);
        let found = generate(&target, &mut drafter, ways, (&text, 40), &mut SeededRandom::new(4));
        assert!(found.accepted.iter().all(|&accepted| accepted == 5), "{:?}", found.accepted);
    }
}

/// Greedy and coupled text is plain text: short parts, short windows, texts longer than either, a small model whose
/// positions end before the text does, and one with other tokens.
#[test]
fn neither_part_nor_window_changes_a_text() {
    let target = decoder(TARGET, 3);
    let smalls = [
        decoder(DRAFT, 5),
        target.clone(),
        decoder(LlamaShape { max_positions: 20, ..DRAFT }, 5),
        decoder(LlamaShape { vocab_size: 260, ..DRAFT }, 5),
        decoder(LlamaShape { vocab_size: 320, ..DRAFT }, 5),
    ];
    let prompt: Vec<Token> = (0..45).map(|i| (i * i * 31 + 7) % 300).collect();
    for (name, temperature) in [("greedy", 0.0), ("sampling", 0.0), ("coupled", 0.7)] {
        let (rule, sampling) = rule(name, Transform::new(temperature, None, Some(0.95)).unwrap());
        for prompt in [&prompt[..], &prompt[..1], &prompt[..5]] {
            let text = plain(&target, rule.as_ref(), prompt, 90);
            for (small, sizes) in smalls.iter().zip([
                (retrieval(16, 4), window(4, 12), 1),
                (retrieval(9, 1), window(0, 8), 3),
                (retrieval(2, 1), window(1, 16), 2),
                (Retrieval { picked: Picked::Random(3), ..retrieval(12, 5) }, window(2, 9), 1),
                (retrieval(40, 8), window(4, 252), 4),
            ]) {
                for drafts in [1, 4] {
                    let mut drafter = triforce((&target, small), sizes, sampling);
                    let random = &mut SeededRandom::new(1);
                    let ways = (&chain(drafts) as &dyn TreeBuilder, rule.as_ref() as &dyn AcceptanceRule);
                    let found = generate(&target, &mut drafter, ways, (prompt, 90), random);
                    assert_eq!(found.ids, text, "{sizes:?} after {}, {name}", prompt.len());
                    assert!(drafter.part().len() <= sizes.0.rows && drafter.part().kept() == 0);
                }
            }
        }
    }
}

/// Every outcome of two drafted tokens, with parts and windows that leave out some of the prompt.
#[test]
fn the_law_is_the_targets_whatever_is_left_out() {
    let (target, small) = (decoder(TINY, 1), decoder(TINY, 2));
    let two = Transform::new(0.8, Some(2), None).unwrap();
    let all = Transform::new(1.0, None, None).unwrap();
    for (name, transform, drafts) in [
        ("sampling", all, 2),
        ("sampling", two, 3),
        ("block", two, 2),
        ("traversal", two, 2),
        ("k-seq", two, 2),
        ("coupled", two, 2),
    ] {
        let (rule, sampling) = rule(name, transform);
        for sizes in [(retrieval(4, 2), window(1, 8), 1), (retrieval(2, 1), window(0, 8), 2)] {
            let mut drafter = triforce((&target, &small), sizes, sampling);
            let found = law::error(&target, &mut drafter, &chain(drafts), (rule.as_ref(), &transform));
            assert!(found < 1e-12, "{name}, {sizes:?}: {found:e}");
        }
    }
}

/// The negative control: what the law's test would find.
#[test]
fn likely_drafts_that_count_as_draws_change_the_law() {
    let (target, small) = (decoder(TINY, 1), decoder(TINY, 2));
    let transform = Transform::new(1.0, None, None).unwrap();
    let (rule, sampling) = rule("sampling", transform);
    let likely = DraftSampling { children: SamplingScheme::Deterministic, rows: true, ..sampling };
    let mut drafter = Misstating(triforce((&target, &small), (retrieval(4, 2), window(1, 8), 1), likely), as_draws);
    let found = law::error(&target, &mut drafter, &chain(2), (rule.as_ref(), &transform));
    assert!(found > 1e-3, "{found:e}");
}

const VOCAB: usize = TINY.vocab_size;

/// The hierarchy written out, with a small model that drafts one token at a time and reads all of the text.
struct WrittenOut {
    small: Arc<Decoder>,
    part: RetrievedCache,
    transform: Transform,
    /// If true, the token after a rejection is drawn from `p`, as in the authors' code; if false, from the residual.
    is_theirs: bool,
    text: Vec<Token>,
}

impl WrittenOut {
    /// The small model's law of the token behind a chain.
    fn small_law(&self, chain: &[Token]) -> PooledVec<f64> {
        let read = [&self.text[..], chain].concat();
        let mut alone = DecoderTarget::new(self.small.clone(), 16, Hooks::none());
        let hidden = alone.prefill(&read).unwrap().hidden.narrow(read.len() - 1, 1);
        let logits = alone.logits(&hidden);
        self.transform.apply(Row::Logits(&logits))
    }

    /// Rows of the target over its part behind each token of a chain.
    fn rows(&mut self, target: &mut dyn Target, chain: &[Token]) -> Result<PooledVec<f32>, DraftError> {
        let mask = AttentionMask::Causal { rows: chain.len() };
        let output = target.verify_retrieved(&mut self.part, &PassPlan::of_tokens(chain, &mask))?;
        self.part.roll_back();
        Ok(target.logits(&output.hidden))
    }
}

impl Drafter for WrittenOut {
    fn name(&self) -> &str {
        "written out"
    }

    fn needs(&self) -> Needs {
        Needs { lends_target: true, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.part.forget();
        self.text.clear();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.text.extend_from_slice(pass.tokens);
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let DraftContext { tree, random, target } = context;
        let target = target.as_deref_mut().unwrap();
        target.retrieve(&mut self.part)?;
        let (mut chain, mut rows) = (vec![root], PooledVec::<f32>::new());
        while chain.len() <= tree.max_depth() {
            let q = self.small_law(&chain);
            let guess = random.pick(&q);
            let known = self.rows(&mut *target, &[&chain[..], &[guess as Token]].concat())?;
            let (before, behind) = known[(chain.len() - 1) * VOCAB..].split_at(VOCAB);
            let p = self.transform.apply(Row::Logits(before));
            rows.extend_from_slice(before);
            if !random.flip(p[guess] / q[guess]) {
                let left = if self.is_theirs { None } else { residual(&p, &q) };
                chain.push(random.pick(&left.unwrap_or(p)) as Token);
                continue;
            }
            chain.push(guess as Token);
            if chain.len() <= tree.max_depth() {
                rows.extend_from_slice(behind);
                chain.push(random.pick(&self.transform.apply(Row::Logits(behind))) as Token);
            }
        }
        let mut draft = DraftTree::root(root);
        for (parent, &token) in chain[1..].iter().enumerate() {
            draft.push(parent, Candidate { token, probability: 1.0 });
        }
        rows.resize(chain.len() * VOCAB, 0.0);
        Ok(Proposal::drawn(draft, Some(rows), SamplingScheme::Independent))
    }
}

/// The negative control that is the authors' code: after a rejection within, a token of `p` and not of the residual is
/// emitted, so drafts have another law than `p`, which their rows claim.
#[test]
fn a_token_of_p_in_place_of_a_rejected_one_changes_the_law() {
    let (target, small) = (decoder(TINY, 1), decoder(TINY, 2));
    let transform = Transform::new(0.8, Some(2), None).unwrap();
    let (rule, _) = rule("sampling", transform);
    let error = |is_theirs: bool| {
        let part = RetrievedCache::new(retrieval(4, 2));
        let mut drafter = WrittenOut { small: small.clone(), part, transform, is_theirs, text: vec![] };
        law::error(&target, &mut drafter, &chain(2), (rule.as_ref(), &transform))
    };
    let (ours, theirs) = (error(false), error(true));
    assert!(ours < 1e-12 && theirs > 1e-3, "{ours:e} {theirs:e}");
}

/// With a window longer than the text the small model drafts what it drafts with a whole cache.
#[test]
fn a_window_beyond_the_text_is_a_whole_cache() {
    let (target, small) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let (rule, sampling) = rule("sampling", Transform::new(0.9, None, None).unwrap());
    let prompt: Vec<Token> = (0..40).map(|i| (i * 7 + 1) % 300).collect();
    let model = || draft_model(&small, &target);
    let mut whole = DraftModelDrafter::new(model(), sampling);
    let mut streaming = DraftModelDrafter::streaming(model(), sampling, window(4, 120));
    let mut short = DraftModelDrafter::streaming(model(), sampling, window(4, 12));
    let mut texts = vec![];
    for drafter in [&mut whole, &mut streaming, &mut short] {
        let ways = (&chain(3) as &dyn TreeBuilder, rule.as_ref() as &dyn AcceptanceRule);
        texts.push(generate(&target, drafter, ways, (&prompt, 50), &mut SeededRandom::new(2)));
    }
    assert_eq!((&texts[0].ids, &texts[0].accepted), (&texts[1].ids, &texts[1].accepted));
    assert!(streaming.cached() > 80 && short.cached() <= 16, "{} {}", streaming.cached(), short.cached());
}

/// A conversation goes on, and back, where it was.
#[test]
fn a_conversation_goes_on() {
    let (target, small) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    let limits = Limits { max_new_tokens: 12, end_tokens: vec![] };
    let (rule, sampling) = rule("coupled", Transform::new(0.7, None, None).unwrap());
    let tree = chain(4);
    let method = Method { tree: &tree, rule: rule.as_ref() };
    let drafter = triforce((&target, &small), (retrieval(12, 4), window(2, 10), 2), sampling);
    let mut session = Session::new(DecoderTarget::new(target.clone(), 120, Hooks::none()), drafter);
    let mut text: Vec<Token> = (0..25).collect();
    for turn in 0..5 {
        if turn == 2 {
            text.truncate(9);
        }
        let request = Request::new(&text, &limits, SeededRandom::new(1));
        let found = session.generate(method, request, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(found.ids, plain(&target, rule.as_ref(), &text, 12), "turn {turn}");
        text.extend(&found.ids);
        text.extend([7, 8, 7 + turn]);
    }
}
