//! Phrases behind a draft model's drafts.

use crate::composed::law;
use crate::composed::models::{DRAFT, TARGET, TINY, decoder, draft_model, generate, ouroboros, phrases, plain, rule};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, SamplingScheme};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, OwnTree, TreeBuilder};
use gorgon_draft::draft_model::{DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass};
use gorgon_infer::ouroboros::OuroborosDrafter;
use gorgon_model::decoder::Decoder;
use gorgon_model::hooks::Hooks;
use gorgon_model::target::{DecoderTarget, Target};
use std::sync::Arc;
use std::sync::Mutex;

fn own() -> OwnTree {
    OwnTree::new(64, 16).unwrap()
}

/// A drafter that every text begins anew with the same phrases, so that all texts of a law have the same drafts. The
/// scheme that it claims for phrases is the negative control's.
struct Same<F> {
    make: F,
    drafter: OuroborosDrafter,
    claims: Option<SamplingScheme>,
    phrases: usize,
}

impl<F: Fn() -> OuroborosDrafter> Same<F> {
    fn new(make: F, claims: Option<SamplingScheme>) -> Self {
        let drafter = make();
        Self { make, drafter, claims, phrases: 0 }
    }
}

impl<F: Fn() -> OuroborosDrafter + Send> Drafter for Same<F> {
    fn name(&self) -> &str {
        self.drafter.name()
    }

    fn needs(&self) -> Needs {
        self.drafter.needs()
    }

    fn reset(&mut self) {
        self.drafter = (self.make)();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.drafter.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let mut proposal = self.drafter.draft(root, context)?;
        self.phrases += proposal.sources.len() - 1;
        let nodes = proposal.draft.tree().len();
        if let (Some(scheme), Some(source)) = (self.claims, proposal.sources.get_mut(1)) {
            source.scheme = scheme;
            source.rows = Some(gorgon_core::PooledVec::of(0.0, nodes * TINY.vocab_size));
        }
        Ok(proposal)
    }
}

/// Two output tokens come of drafted steps, with phrases behind every draft.
#[test]
fn phrases_keep_the_targets_law() {
    let (target, model) = (decoder(TINY, 1), decoder(TINY, 2));
    let two = Transform::new(0.8, Some(2), None).unwrap();
    for (name, settings) in [
        ("sampling", [1, 2, 1, 2, 2]),
        ("sampling", [1, 2, 2, 3, 2]),
        ("sampling", [2, 1, 1, 3, 1]),
        ("block", [1, 1, 1, 3, 1]),
        ("traversal", [1, 2, 1, 2, 2]),
        ("k-seq", [1, 1, 1, 2, 1]),
        ("coupled", [1, 2, 1, 2, 2]),
    ] {
        let (rule, sampling) = rule(name, two);
        let (mut drafter, fresh) = (warm(&target, &model, sampling, settings, None), settings);
        let found = law::error(&target, &mut drafter, &own(), (rule.as_ref(), &two));
        assert!(found < 1e-12, "{name} {fresh:?}: {found:e}");
        assert!(drafter.phrases > 0, "{name}: phrases are tried");
    }
}

/// The negative control: phrases that pass for draws.
#[test]
fn phrases_that_count_as_draws_change_the_law() {
    let (target, model) = (decoder(TINY, 1), decoder(TINY, 2));
    let two = Transform::new(0.8, Some(2), None).unwrap();
    let (rule, sampling) = rule("sampling", two);
    let claims = Some(SamplingScheme::Independent);
    let mut drafter = warm(&target, &model, sampling, [1, 2, 1, 2, 2], claims);
    let found = law::error(&target, &mut drafter, &own(), (rule.as_ref(), &two));
    assert!(found > 1e-3, "{found:e}");
}

fn warm<'a>(
    target: &'a Arc<Decoder>,
    model: &'a Arc<Decoder>,
    sampling: DraftSampling,
    settings: [usize; 5],
    claims: Option<SamplingScheme>,
) -> Same<impl Fn() -> OuroborosDrafter + Send + 'a> {
    let settings = phrases(settings);
    let make = move || {
        let mut drafter = ouroboros(model, target, sampling, settings);
        for token in 0..3 {
            for first in 0..3 {
                drafter.lookahead().insert(token, (0..settings.phrase()).map(|i| (first + i as Token) % 3).collect());
            }
        }
        drafter
    };
    Same::new(make, claims)
}

/// Without a pool the text, its steps and its draws are those of the draft model alone.
#[test]
fn without_phrases_it_is_its_draft_model() {
    let (target, model) = (decoder(TARGET, 3), decoder(DRAFT, 5));
    for temperature in [0.0, 0.7, 1.0] {
        let transform = Transform::new(temperature, None, Some(0.95)).unwrap();
        for name in ["auto", "sampling", "k-seq", "block", "lossy:0.2", "typical"] {
            let (rule, sampling) = rule(name, transform);
            let run = |drafter: &mut dyn Drafter, tree: &dyn TreeBuilder| {
                let random = &mut SeededRandom::new(4);
                generate(&target, drafter, (tree, rule.as_ref()), (&[256, 72, 105], 40), random)
            };
            let found = run(&mut ouroboros(&model, &target, sampling, phrases([5, 0, 3, 4, 0])), &own());
            let mut alone = DraftModelDrafter::new(draft_model(&model, &target), sampling);
            let alone = run(&mut alone, &ChainTree::new(5).unwrap());
            assert_eq!((found.ids, found.accepted), (alone.ids, alone.accepted), "{name} at {temperature}");
        }
    }
}

/// Phrases of earlier texts change no greedy text.
#[test]
fn a_warm_pool_changes_no_text() {
    let target = decoder(TARGET, 3);
    let (rule, sampling) = rule("greedy", Transform::GREEDY);
    let mut drafter = ouroboros(&target, &target, sampling, phrases([3, 2, 3, 4, 4]));
    for prompt in [&[256, 72, 105][..], &[256, 72, 105], &[7, 8, 9], &[256, 72, 105]] {
        let random = &mut SeededRandom::new(0);
        let found = generate(&target, &mut drafter, (&own(), rule.as_ref()), (prompt, 60), random);
        assert_eq!(found.ids, plain(&target, rule.as_ref(), prompt, 60));
        drafter.reset();
        assert!(drafter.lookahead().pool().count() > 5, "phrases outlive the text");
    }
}

/// The text that a drafter drafts for, as its target sees it.
struct Text {
    target: Arc<Decoder>,
    tokens: Vec<Token>,
}

impl Text {
    /// Argmax after the text and more tokens, by a pass of its own.
    fn argmax(&self, more: &[Token]) -> Token {
        let read = [&self.tokens[..], more].concat();
        let mut alone = DecoderTarget::new(self.target.clone(), 160, Hooks::none());
        let hidden = alone.prefill(&read).unwrap().hidden.narrow(read.len() - 1, 1);
        alone.top_tokens(&hidden, &[1]).map_or_else(
            || {
                let logits = alone.logits(&hidden);
                (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a))).unwrap() as Token
            },
            |top| top[0].0,
        )
    }
}

type Drafted = (Vec<Token>, Vec<Vec<Token>>);

/// Keeps what the drafter proposed: the chain with its root, and the phrases behind it.
struct Watched<'a> {
    drafter: &'a mut OuroborosDrafter,
    text: Text,
    chain: usize,
    last: Option<Drafted>,
    found: &'a Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// Phrases behind a rejected draft that changed the pool.
    rejected: usize,
    refined: usize,
    local: usize,
}

impl Drafter for Watched<'_> {
    fn name(&self) -> &str {
        "watched"
    }

    fn needs(&self) -> Needs {
        assert_eq!(self.drafter.needs().feedback, Feedback::Argmax);
        self.drafter.needs()
    }

    fn reset(&mut self) {
        self.drafter.reset();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        let before: Vec<Vec<Token>> = match &self.last {
            Some((chain, _)) => self.drafter.lookahead().guesses(chain[self.chain]).to_vec(),
            None => vec![],
        };
        self.drafter.observe(pass)?;
        if let (Some((chain, phrases)), Some(verified)) = (self.last.take(), pass.verified) {
            self.check(&chain, &phrases, verified.path.len() - 1, &before);
        }
        self.text.tokens.extend_from_slice(pass.tokens);
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let proposal = self.drafter.draft(root, context)?;
        let tree = proposal.draft.tree();
        if tree.len() > self.chain {
            let chain = (0..=self.chain).map(|node| tree.token(node)).collect();
            let leaves = (self.chain + 1..tree.len()).filter(|&node| tree.children(node).next().is_none());
            let phrase = |leaf| tree.path(leaf)[self.chain + 1..].iter().map(|&node| tree.token(node)).collect();
            self.last = Some((chain, leaves.map(phrase).collect()));
        }
        Ok(proposal)
    }
}

impl Watched<'_> {
    /// Every phrase that was tried is now what the target says along it, and every long enough run in which the target
    /// agrees with the rejected drafts is a phrase.
    fn check(&mut self, chain: &[Token], tried: &[Vec<Token>], accepted: usize, before: &[Vec<Token>]) {
        let length = tried.first().map_or(3, Vec::len);
        for phrase in tried {
            let refined: Vec<Token> = (0..length).map(|i| self.text.argmax(&[chain, &phrase[..i]].concat())).collect();
            let after = self.drafter.lookahead().guesses(chain[self.chain]);
            assert!(after.contains(&refined), "{phrase:?} became {refined:?} in {after:?}");
            let mut found = self.found.lock().unwrap();
            found.refined += usize::from(refined != *phrase);
            found.rejected += usize::from(accepted < self.chain && before != after);
        }
        for from in accepted.min(self.chain) + 1..=self.chain {
            let said = |at: usize| self.text.argmax(&chain[..=at]);
            let mut phrase = vec![said(from)];
            let mut at = from;
            while phrase.len() < length && at < self.chain && said(at) == chain[at + 1] {
                at += 1;
                phrase.push(said(at));
            }
            if phrase.len() == length {
                let known = self.drafter.lookahead().guesses(chain[from]);
                assert!(known.contains(&phrase), "{phrase:?} behind draft {from} in {known:?}");
                self.found.lock().unwrap().local += 1;
            }
        }
    }
}

/// Against passes of their own over the text, the chain and the phrase.
#[test]
fn phrases_become_what_the_target_says() {
    let found = Mutex::new(Found::default());
    for (target, model) in [(decoder(TARGET, 3), decoder(DRAFT, 5)), (decoder(TARGET, 3), decoder(TARGET, 4))] {
        let (rule, sampling) = rule("greedy", Transform::GREEDY);
        for settings in [[3, 2, 3, 3, 4], [5, 3, 4, 4, 6], [6, 2, 3, 2, 4]] {
            let mut drafter = ouroboros(&model, &target, sampling, phrases(settings));
            for prompt in [&[256, 72, 105][..], &[7, 8, 9, 7, 8]] {
                let text = Text { target: target.clone(), tokens: vec![] };
                let mut watched =
                    Watched { drafter: &mut drafter, text, chain: settings[0], last: None, found: &found };
                let rule: &dyn AcceptanceRule = rule.as_ref();
                generate(&target, &mut watched, (&own(), rule), (prompt, 40), &mut SeededRandom::new(0));
            }
        }
    }
    let found = found.lock().unwrap();
    let Found { refined, rejected, local } = *found;
    assert!(refined > 20 && rejected > 20 && local > 20, "{refined} {rejected} {local}");
}
