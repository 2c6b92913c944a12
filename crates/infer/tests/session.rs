//! A session lives across turns: it reads what it does not know, answers as a fresh one would, and keeps no more than
//! was emitted.

mod every_drafter;

use every_drafter::{builders, drafters, eagle, random_medusa};
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, Greedy, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, FixedTree, TreeBuilder, TreeShape};
use gorgon_draft::drafter::{DraftContext, DraftError, Drafter, Needs, NoDrafter, Proposal, VerifiedPass};
use gorgon_draft::fallback::FallbackDrafter;
use gorgon_draft::medusa::MedusaDrafter;
use gorgon_draft::oracle::OracleDrafter;
use gorgon_infer::{
    Batch, DecodeError, Drafts, Event, Feed, Finish, Generation, Limits, Method, Request, Session, decode,
};
use gorgon_model::decoder::{Decoder, ModelError};
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::hooks::Hooks;
use gorgon_model::pass::PassOutput;
use gorgon_model::random::LlamaShape;
use gorgon_model::target::{DecoderTarget, PREFILL_CHUNK, Target};
use std::ops::ControlFlow;
use std::sync::Arc;

const PROMPT: [Token; 7] = [256, 72, 105, 3, 72, 105, 9];
const NEW_TOKENS: usize = 13;

/// Drafters that forget the end of a text without reading its beginning again.
const GO_BACK: [&str; 4] = ["none", "ngram", "medusa", "model"];

fn rule(temperature: f64) -> Box<dyn AcceptanceRule> {
    RuleChoice::Auto.rule(Transform::new(temperature, None, None).unwrap())
}

fn limits(max_new_tokens: usize, end_tokens: &[Token]) -> Limits {
    Limits { max_new_tokens, end_tokens: end_tokens.to_vec() }
}

type Sessions = Session<DecoderTarget, Box<dyn Drafter>>;

/// What decodes: plainly, or with drafts in a tree.
struct Kind<'a> {
    name: &'static str,
    make: &'a dyn Fn() -> Box<dyn Drafter>,
    tree: &'a dyn TreeBuilder,
}

impl Kind<'_> {
    fn session(&self, decoder: &Arc<Decoder>, context: usize) -> Sessions {
        let drafter = (self.make)();
        Session::new(DecoderTarget::new(decoder.clone(), context, drafter.needs().hooks), drafter)
    }
}

/// Calls with plain decoding, and with every drafter and tree.
fn for_each_kind(decoder: &Arc<Decoder>, temperature: f64, check: impl Fn(&Kind<'_>)) {
    check(&Kind { name: "none", make: &|| Box::new(NoDrafter), tree: &ChainTree::ROOT });
    for (name, make) in drafters(decoder, temperature) {
        for tree in builders() {
            check(&Kind { name, make: make.as_ref(), tree: tree.as_ref() });
        }
    }
}

/// A continuation, with chance of a seed.
fn go_on(
    session: &mut Sessions,
    tree: &dyn TreeBuilder,
    rule: &dyn AcceptanceRule,
    text: &[Token],
    limits: &Limits,
    seed: u64,
) -> Result<Generation, DecodeError> {
    let request = Request::new(text, limits, SeededRandom::new(seed));
    session.generate(Method { tree, rule }, request, &mut |_| ControlFlow::Continue(()))
}

fn plain(decoder: &Arc<Decoder>, prompt: &[Token], new: usize) -> Vec<Token> {
    let mut target = DecoderTarget::new(decoder.clone(), prompt.len() + new, Hooks::none());
    let observe = &mut |_| ControlFlow::Continue(());
    decode(&mut target, prompt, &Greedy, &mut SeededRandom::new(0), &limits(new, &[]), observe).unwrap().ids
}

/// Text that extends what a session knows is read from there on, and the answer is that of a session that read it all.
#[test]
fn a_further_turn_reads_only_its_new_tokens() {
    let decoder = eagle::decoder();
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        for_each_kind(&decoder, temperature, |kind| {
            let mut session = kind.session(&decoder, 96);
            let (mut text, mut known) = (PROMPT.to_vec(), 0);
            // The third turn adds nothing: the last token that was emitted is read, and no more.
            for (turn, question) in [&[][..], &[5, 6, 7], &[], &[72]].into_iter().enumerate() {
                text.extend(question);
                let (name, limits) = (kind.name, limits(NEW_TOKENS, &[]));
                let found = go_on(&mut session, kind.tree, rule.as_ref(), &text, &limits, 3).unwrap();
                assert_eq!(found.read, text.len() - known, "{name}: turn {turn}");
                let mut fresh = kind.session(&decoder, 96);
                let want = go_on(&mut fresh, kind.tree, rule.as_ref(), &text, &limits, 3).unwrap();
                assert_eq!(want.read, text.len());
                assert_eq!((found.ids.len(), &found.ids), (NEW_TOKENS, &want.ids), "{name}: turn {turn}");
                assert_eq!(found.accepted, want.accepted, "{name}: turn {turn}");
                text.extend(&found.ids);
                known = text.len() - 1;
                assert_eq!((session.len(), session.target().len()), (known, known), "{name}: turn {turn}");
            }
        });
    }
}

/// Text that leaves what a session knows is read from where it does, or anew where the drafter cannot go back.
#[test]
fn a_diverging_text_is_answered_as_if_it_were_the_first() {
    let decoder = eagle::decoder();
    for temperature in [0.0, 1.0] {
        let rule = rule(temperature);
        for_each_kind(&decoder, temperature, |kind| {
            let (name, limits) = (kind.name, limits(NEW_TOKENS, &[]));
            let mut session = kind.session(&decoder, 96);
            let first = go_on(&mut session, kind.tree, rule.as_ref(), &PROMPT, &limits, 3).unwrap();
            let whole = [&PROMPT[..], &first.ids].concat();
            // Tokens in common, and tokens behind them.
            for (common, behind) in [(9, 4), (0, 5), (1, 9), (PROMPT.len(), 1), (12, 0), (whole.len() - 1, 2), (0, 1)] {
                session.reset();
                go_on(&mut session, kind.tree, rule.as_ref(), &PROMPT, &limits, 3).unwrap();
                assert_eq!(session.len(), whole.len() - 1);
                let other = |i: usize| (whole.get(common + i).map_or(11, |&token| (token + 13) % 300), i);
                let text: Vec<Token> = whole[..common].iter().copied().chain((0..behind).map(|i| other(i).0)).collect();
                let found = go_on(&mut session, kind.tree, rule.as_ref(), &text, &limits, 4).unwrap();
                let mut fresh = kind.session(&decoder, 96);
                let want = go_on(&mut fresh, kind.tree, rule.as_ref(), &text, &limits, 4).unwrap();
                let what = format!("{name} at {temperature}: {common} tokens in common, {behind} behind them");
                assert_eq!((&found.ids, &found.accepted), (&want.ids, &want.accepted), "{what}");
                let kept = common.min(text.len() - 1);
                let kept = if GO_BACK.contains(&name) || kept == whole.len() - 1 { kept } else { 0 };
                assert_eq!(found.read, text.len() - kept, "{what}");
                assert_eq!(session.len(), text.len() + NEW_TOKENS - 1, "{what}");
            }
        });
    }
}

/// What is left after a truncation is said, and it is a text's beginning or nothing.
#[test]
fn a_session_says_how_much_a_truncation_left() {
    let decoder = eagle::decoder();
    for_each_kind(&decoder, 0.0, |kind| {
        let mut session = kind.session(&decoder, 96);
        let want = go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits(NEW_TOKENS, &[]), 3).unwrap().ids;
        let most = session.len();
        session.truncate(most + 3);
        session.truncate(most);
        assert_eq!(session.len(), most);
        session.truncate(4);
        let left = if GO_BACK.contains(&kind.name) { 4 } else { 0 };
        assert_eq!((session.len(), session.target().len()), (left, left), "{}", kind.name);
        let found = go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits(NEW_TOKENS, &[]), 3).unwrap();
        assert_eq!((found.read, found.ids), (PROMPT.len() - left, want), "{}", kind.name);
        session.truncate(0);
        assert!(session.is_empty() && session.target().is_empty());
    });
}

/// One request and its result.
struct Once<'q> {
    text: Option<&'q [Token]>,
    new: usize,
    slot: usize,
    found: Option<Generation>,
}

impl Feed<'static> for Once<'_> {
    type Error = DecodeError;

    fn next(&mut self, slot: usize, _: usize) -> Result<Option<Request<'static>>, DecodeError> {
        let text = self.text.take_if(|_| slot == self.slot);
        Ok(text.map(|text| Request::new(text, &limits(self.new, &[]), SeededRandom::new(0))))
    }

    fn event(&mut self, _: usize, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finished(&mut self, _: usize, generation: Generation) -> Result<(), DecodeError> {
        self.found = Some(generation);
        Ok(())
    }

    fn failed(&mut self, error: DecodeError) -> DecodeError {
        error
    }
}

/// A text may fill its context to the last token, which is emitted but not read; one more is refused. Trees may reach
/// beyond it.
#[test]
fn contexts_are_exact_to_the_token() {
    let decoder = eagle::decoder();
    // Less than the model's context, and all of it.
    for context in [24usize, 96] {
        for prompt in [1, 5, context - 1, context, context + 1] {
            let text: Vec<Token> = (0..prompt).map(|i| (i * 37 + 11) as Token % 300).collect();
            let most = (context + 1).saturating_sub(prompt);
            let want = if most > 0 { plain(&decoder, &text, most) } else { vec![] };
            let is_refused = |error: &DecodeError, asked: usize| match *error {
                DecodeError::Context { prompt: p, new, context: c } => (p, new, c) == (prompt, asked, context),
                _ => false,
            };
            for_each_kind(&decoder, 0.0, |kind| {
                let what = format!("{}: {prompt} tokens of {context}", kind.name);
                let drafts = Drafts { drafter: kind.make, tree: kind.tree };
                let drafts = Some(drafts).filter(|_| kind.name != "none");
                let mut batch = Batch::new(&decoder, 3, context, drafts).unwrap();
                let mut session = kind.session(&decoder, context);
                for new in [0, most + 1] {
                    let error = go_on(&mut session, kind.tree, &Greedy, &text, &limits(new, &[]), 0).unwrap_err();
                    assert!(is_refused(&error, new), "{what}: {error}");
                    let mut feed = Once { text: Some(&text), new, slot: 1, found: None };
                    let error = batch.serve(&Greedy, &mut feed).unwrap_err();
                    assert!(is_refused(&error, new), "{what}: {error}");
                }
                assert!(session.is_empty(), "{what}: read before it was refused");
                if most > 0 {
                    let found = go_on(&mut session, kind.tree, &Greedy, &text, &limits(most, &[]), 0).unwrap();
                    assert_eq!((found.ids, found.finish), (want.clone(), Finish::Length), "{what}");
                    assert_eq!(session.len(), context, "{what}");
                    let mut feed = Once { text: Some(&text), new: most, slot: 1, found: None };
                    batch.serve(&Greedy, &mut feed).unwrap();
                    assert_eq!(feed.found.unwrap().ids, want, "{what}, in a batch");
                    assert_eq!(batch.session(1).len(), context, "{what}, in a batch");
                }
            });
        }
    }
}

/// Nothing beyond the last emitted token is kept, whatever ended the text: the root of a next step that never comes is
/// not read either.
#[test]
fn nothing_is_committed_beyond_the_end() {
    let decoder = eagle::decoder();
    let text = plain(&decoder, &PROMPT, NEW_TOKENS);
    for_each_kind(&decoder, 0.0, |kind| {
        for at in 0..NEW_TOKENS {
            // Behind an end token, and where no token is left.
            let end = text.iter().position(|&token| token == text[at]).unwrap() + 1;
            let ends = [
                (limits(NEW_TOKENS + 5, &[text[at]]), end, Finish::EndToken),
                (limits(at + 1, &[]), at + 1, Finish::Length),
                (limits(end, &[text[at]]), end, Finish::EndToken),
            ];
            for (limits, emitted, finish) in ends {
                let what = format!("{}: {limits:?}", kind.name);
                let mut session = kind.session(&decoder, 96);
                let found = go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits, 0).unwrap();
                assert_eq!((&found.ids[..], found.finish), (&text[..emitted], finish), "{what}");
                let kept = PROMPT.len() + emitted - 1;
                assert_eq!((session.len(), session.target().len()), (kept, kept), "{what}");
            }
        }
        // The drafter kept no more either: the text goes on as it would have.
        for at in 1..NEW_TOKENS {
            let mut session = kind.session(&decoder, 96);
            go_on(&mut session, kind.tree, &Greedy, &PROMPT, &limits(at, &[]), 0).unwrap();
            let so_far = [&PROMPT[..], &text[..at]].concat();
            let found = go_on(&mut session, kind.tree, &Greedy, &so_far, &limits(NEW_TOKENS - at, &[]), 0).unwrap();
            assert_eq!((found.read, &found.ids[..]), (1, &text[at..]), "{}", kind.name);
        }
    });
}

/// A caller that stops within a step's tokens has got fewer than were kept; the next turn goes by what it was given.
#[test]
fn a_text_that_was_stopped_goes_on() {
    let decoder = eagle::decoder();
    let text = plain(&decoder, &PROMPT, NEW_TOKENS);
    for_each_kind(&decoder, 0.0, |kind| {
        for stop in 1..NEW_TOKENS {
            let (mut session, mut seen) = (kind.session(&decoder, 96), vec![]);
            let limits = limits(NEW_TOKENS, &[]);
            let found = session
                .generate(
                    Method { tree: kind.tree, rule: &Greedy },
                    Request::new(&PROMPT, &limits, SeededRandom::new(0)),
                    &mut |event| {
                        seen.extend(event.token());
                        if seen.len() < stop { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                    },
                )
                .unwrap();
            assert_eq!((&found.ids[..], &seen[..], found.finish), (&text[..stop], &text[..stop], Finish::Stopped));
            assert_eq!(session.len(), session.target().len());
            let other = [&PROMPT[..], &text[..stop], &[33, 44]].concat();
            let found = go_on(&mut session, kind.tree, &Greedy, &other, &limits, 0).unwrap();
            assert_eq!(found.ids, plain(&decoder, &other, NEW_TOKENS), "{} stopped at {stop}", kind.name);
        }
    });
}

/// A text that cannot be read is an error, and the session answers the next one.
#[test]
fn a_text_that_cannot_be_read_leaves_the_session_usable() {
    let decoder = eagle::decoder();
    let text = plain(&decoder, &PROMPT, NEW_TOKENS);
    for_each_kind(&decoder, 0.0, |kind| {
        let mut session = kind.session(&decoder, 96);
        let mut ask = |text: &[Token]| go_on(&mut session, kind.tree, &Greedy, text, &limits(NEW_TOKENS, &[]), 0);
        for _ in 0..2 {
            let error = ask(&[]).unwrap_err();
            assert!(matches!(error, DecodeError::Model(ModelError::EmptyPrompt)), "{error}");
            assert!(ask(&[256, 72, 300]).is_err(), "300 is no token");
            assert_eq!(ask(&PROMPT).unwrap().ids, text, "{}", kind.name);
        }
    });
}

/// Shows a prompt that comes in pieces to another drafter at once.
struct AtOnce {
    inner: Box<dyn Drafter>,
    tokens: Vec<Token>,
    hidden: Vec<HiddenStates>,
    /// Pieces of the prompt that were seen.
    pieces: usize,
}

impl Drafter for AtOnce {
    fn name(&self) -> &str {
        "at once"
    }

    fn needs(&self) -> Needs {
        assert!(self.inner.needs().hooks.layers().is_empty());
        self.inner.needs()
    }

    fn reset(&mut self) {
        self.inner.reset();
        self.tokens.clear();
        self.hidden.clear();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if pass.verified.is_some() {
            return self.inner.observe(pass);
        }
        self.tokens.extend(pass.tokens);
        self.hidden.push(pass.output.hidden.clone());
        self.pieces += 1;
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        if !self.tokens.is_empty() {
            let hidden = HiddenStates::concat(&std::mem::take(&mut self.hidden));
            let output = PassOutput { hidden, hooks: Default::default(), stream: None };
            let tokens = std::mem::take(&mut self.tokens);
            let rows: Vec<usize> = (0..tokens.len()).collect();
            self.inner.observe(VerifiedPass::prompt(&tokens, &output, &rows))?;
        }
        self.inner.draft(root, context)
    }
}

/// A long prompt comes in pieces. What counts steps, or emitted tokens, counts none of them.
#[test]
fn wrappers_take_no_piece_of_a_prompt_for_a_step() {
    let shape = LlamaShape { max_positions: 4 * PREFILL_CHUNK, ..eagle::SHAPE };
    let dir = tempfile::tempdir().unwrap();
    shape.write(dir.path(), FloatFormat::F32, 3).unwrap();
    let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
    let heads = Arc::new(random_medusa::model(&decoder, false, None));
    let medusa = || Box::new(MedusaDrafter::sharing(heads.clone())) as Box<dyn Drafter>;
    let tree = FixedTree::new(TreeShape::cartesian(&[2, 2, 1]).unwrap());
    for length in [2 * PREFILL_CHUNK + 40, 2 * PREFILL_CHUNK, PREFILL_CHUNK + 1, PREFILL_CHUNK, 9] {
        let prompt: Vec<Token> = (0..length).map(|i| (i * 37 + i / 7 + 11) as Token % 300).collect();
        let text = plain(&decoder, &prompt, 40);
        let oracle = |rates: &[f64]| {
            let mut oracle = OracleDrafter::new(medusa(), rates.to_vec(), 300, 7);
            oracle.reveal(text.clone());
            Box::new(oracle) as Box<dyn Drafter>
        };
        let wrappers: [(&str, &dyn Fn() -> Box<dyn Drafter>); 4] = [
            ("fallback", &|| Box::new(FallbackDrafter::new(medusa(), 1.5))),
            ("fallback of drafts that pay", &|| Box::new(FallbackDrafter::new(oracle(&[0.6, 0.5]), 1.5))),
            ("oracle", &|| oracle(&[0.9, 0.8, 0.7])),
            ("oracle that is right", &|| oracle(&[1.0, 1.0, 1.0])),
        ];
        for (name, make) in wrappers {
            let run = |drafter: Box<dyn Drafter>| {
                let target = DecoderTarget::new(decoder.clone(), length + 40, Hooks::none());
                let mut session: Sessions = Session::new(target, drafter);
                go_on(&mut session, &tree, &Greedy, &prompt, &limits(40, &[]), 0).unwrap()
            };
            let mut at_once = AtOnce { inner: make(), tokens: vec![], hidden: vec![], pieces: 0 };
            let want = {
                let target = DecoderTarget::new(decoder.clone(), length + 40, Hooks::none());
                let method = Method { tree: &tree, rule: &Greedy };
                let request = Request::new(&prompt, &limits(40, &[]), SeededRandom::new(0));
                let go_on = &mut |_| ControlFlow::Continue(());
                Session::new(target, &mut at_once).generate(method, request, go_on).unwrap()
            };
            assert_eq!(at_once.pieces, length.div_ceil(PREFILL_CHUNK));
            let found = run(make());
            assert_eq!((&found.ids, &want.ids), (&text, &text), "{name} after {length}");
            assert_eq!((&found.accepted, found.nodes), (&want.accepted, want.nodes), "{name} after {length}");
            match name {
                // Random heads may be right or not.
                "fallback" => {}
                "oracle that is right" => assert!(found.accepted.iter().rev().skip(1).all(|&n| n == 3)),
                _ => assert!(found.accepted.iter().sum::<usize>() > 0, "{name} after {length}"),
            }
        }
    }
}
