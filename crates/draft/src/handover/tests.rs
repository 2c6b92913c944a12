//! Tests of `handover`.

use super::gains::Followed;
use super::*;
use crate::choice::DrafterChoice;
use crate::drafter::VerifiedTree;
use crate::jacobi::JacobiDrafter;
use crate::step_costs::StepCosts;
use crate::suffix::{Suffix, SuffixDrafter};
use crate::toy::{Toy, choose};
use gorgon_core::PooledVec;
use gorgon_core::accept::random::enumerate;
use gorgon_core::accept::{AcceptanceRule, RandomSource, Sampling, SamplingScheme, TargetRows};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{Candidate, ChainTree, DraftTree};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn suffix(least: usize) -> Box<dyn Drafter> {
    Box::new(SuffixDrafter::new(Suffix { store: None, least }))
}

fn jacobi() -> Box<dyn Drafter> {
    Box::new(JacobiDrafter::new(4))
}

fn both(least: usize) -> HandoverDrafter {
    HandoverDrafter::new(suffix(least), jacobi(), tree().unwrap())
}

/// Without a match that is long enough, steps are the other drafter's.
#[test]
fn an_infinite_threshold_is_the_other_drafter() {
    let (mut both, mut alone) = (Toy::new(both(usize::MAX), &[3, 1, 4]), Toy::new(jacobi(), &[3, 1, 4]));
    for _ in 0..60 {
        let (one, other) = (both.step(), alone.step());
        assert_eq!((one.draft, one.emitted), (other.draft, other.emitted));
    }
}

/// A drafter that never declines hands over only where nothing matches at all.
#[test]
fn the_first_drafts_where_it_matches() {
    for least in [1, 2, 3] {
        let mut both = Toy::new(both(least), &[3, 1, 4, 1, 5]);
        let mut plain = both.text.clone();
        let (mut first, mut other) = (0, 0);
        for _ in 0..80 {
            // One that drafts alone, and reads the same text.
            let mut alone = Toy::new(suffix(least), &both.text);
            let (draft, wanted) = (both.step(), alone.step().draft);
            match wanted.tree().len() > 1 {
                true => {
                    first += 1;
                    // Toy's trees are larger than the first drafter's.
                    assert!(draft.draft.tree().len() <= 40);
                    assert_eq!(draft.draft.tree().token(1), wanted.tree().token(1));
                }
                false => {
                    other += 1;
                    assert_eq!(draft.draft.tree().len(), 5, "a guess of four tokens");
                }
            }
            draft.emitted.iter().for_each(|_| plain.push(choose(&plain)));
            assert_eq!(both.text, plain);
        }
        assert!(first > 0 && other > 0, "{least}: {first} {other}");
    }
}

#[test]
fn names_are_read_and_written() {
    for name in ["suffix,else=jacobi:4", "suffix:a/b,c,below=7,else=ngram:3", "rest:x,else=suffix,below=2,else=auto"] {
        let choice: DrafterChoice = name.parse().unwrap();
        assert_eq!(choice.to_string(), name);
    }
    let named = |text: &str| text.parse::<DrafterChoice>().unwrap().to_string();
    assert_eq!(named("suffix,below=5,else=ngram:2"), "suffix,below=5,else=ngram:2");
    for (wrong, words) in [
        ("jacobi:4,else=suffix", "jacobi:4 drafts in any case"),
        ("medusa,else=suffix", "\"medusa\" hands over to no other drafter"),
        ("suffix,else=nobody", "no drafter is called \"nobody\""),
        ("suffix,below=0,else=ngram:2", "below=0"),
        ("suffix,below=x,else=ngram:2", "below=x"),
        ("suffix,below=3", "end it with ,else=DRAFTER"),
        ("suffix:,else=ngram:2", "\"suffix:\": nothing follows the colon"),
        ("recycle:", "nothing follows the colon"),
        ("suffix,least=2", "is not of the form suffix[:STORE] or suffix[:STORE][,below=N],else=DRAFTER"),
        ("partial,small=DIR", "is not of the form partial:B,C"),
    ] {
        let message = wrong.parse::<DrafterChoice>().unwrap_err();
        assert!(message.contains(words), "{wrong}: {message}");
    }
    assert!("suffix,else=eagle".parse::<DrafterChoice>().unwrap().needs_heads());
}

/// Weights of three tokens after a text; both laws depend on its last two.
fn law(text: &[Token], salt: u32) -> [f64; 3] {
    let back = |i: usize| text.len().checked_sub(i).map_or(0, |at| text[at]);
    let weights = [0, 1, 2].map(|token: u32| f64::from(1 + (back(1) * 5 + back(2) * 3 + token * 7 + salt) % 4));
    weights.map(|weight| weight / weights.iter().sum::<f64>())
}

/// Draws a chain of two tokens from a law of its own, and shows it.
struct Drawing(Vec<Token>);

impl Drafter for Drawing {
    fn name(&self) -> &str {
        "drawing"
    }

    fn reset(&mut self) {
        self.0.clear();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.0.extend(pass.tokens);
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let (mut draft, mut text) = (DraftTree::root(root), [&self.0[..], &[root]].concat());
        let mut rows = PooledVec::<f32>::new();
        for node in 0..3 {
            let q = law(&text, 2);
            rows.extend(q.iter().map(|q| q.ln() as f32));
            if node < 2 {
                let token = context.random.pick(&q) as Token;
                draft.push(node, Candidate { token, probability: q[token as usize] });
                text.push(token);
            }
        }
        Ok(Proposal::drawn(draft, Some(rows), SamplingScheme::Independent))
    }
}

/// Chooses as nothing may: by a token that the other drafter has drawn already.
struct Peeking(Box<dyn Drafter>, Drawing);

impl Drafter for Peeking {
    fn name(&self) -> &str {
        "peeking"
    }

    fn reset(&mut self) {
        self.0.reset();
        self.1.reset();
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        self.0.observe(pass)?;
        self.1.observe(pass)
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let drawn = self.1.draft(root, context)?;
        if drawn.draft.tree().token(1) == 0 { Ok(drawn) } else { self.0.draft(root, context) }
    }
}

/// A drafter in front of draws: with a threshold, or by the measured gains.
fn before_draws(least: Option<usize>) -> Box<dyn Drafter> {
    let (first, tree) = (suffix(least.unwrap_or(1)), OwnTree::new(4, 2).unwrap());
    let both = HandoverDrafter::new(first, Box::new(Drawing(vec![])), tree);
    Box::new(if least.is_none() { both.measured(StepRatios::alike()) } else { both })
}

/// The first tokens that are emitted after a text, and the steps of both drafters.
fn sampled(
    mut drafter: Box<dyn Drafter>,
    prompt: &[Token],
    count: usize,
    random: &mut dyn RandomSource,
) -> (Vec<Token>, [usize; 2]) {
    let transform = Transform::new(1.0, None, None).unwrap();
    let (tree, output) = (OwnTree::new(4, 2).unwrap(), crate::toy::nothing());
    let (mut text, mut steps) = (prompt.to_vec(), [0, 0]);
    drafter.observe(VerifiedPass::prompt(&prompt[..prompt.len() - 1], &output, &[])).unwrap();
    while text.len() < prompt.len() + count {
        let root = text[text.len() - 1];
        let context = &mut DraftContext { tree: CoupledTree::plain(&tree), random: &mut *random, target: None };
        let proposal = drafter.draft(root, context).unwrap();
        steps[usize::from(proposal.sources[0].rows.is_some())] += 1;
        let nodes = proposal.draft.tree();
        let behind = |node: usize| {
            let path: Vec<Token> = nodes.path(node)[1..].iter().map(|&node| nodes.token(node)).collect();
            law(&[&text[..], &path].concat(), 0)
        };
        let data: Vec<f64> = (0..nodes.len()).flat_map(behind).collect();
        let rows = TargetRows::Probabilities { data: &data, vocab: 3 };
        let verdict =
            proposal.with_draft_rows(|drafts| Sampling { transform }.accept(nodes, drafts, rows, random)).unwrap();
        let read: Vec<Token> = verdict.path.iter().map(|&node| nodes.token(node)).collect();
        let path = &verdict.path[..];
        let verified = Some(VerifiedTree { tree: nodes, path, next: verdict.bonus, target: None });
        let pass = VerifiedPass { tokens: &read, output: &output, rows: path, verified, is_source: false };
        drafter.observe(pass).unwrap();
        text.extend(read[1..].iter().copied().chain([verdict.bonus]));
    }
    (text[prompt.len()..prompt.len() + count].to_vec(), steps)
}

/// Largest error of the law of three tokens after a text, and the steps of both drafters in all branches.
fn error(make: &dyn Fn() -> Box<dyn Drafter>) -> (f64, [usize; 2]) {
    let prompt = [0, 1, 2, 0, 1];
    let runs = enumerate(|random| sampled(make(), &prompt, 3, random));
    let steps = runs.iter().fold([0, 0], |sum, (_, (_, steps))| [sum[0] + steps[0], sum[1] + steps[1]]);
    let mut found = BTreeMap::<Vec<Token>, f64>::new();
    runs.into_iter().for_each(|(probability, (tokens, _))| *found.entry(tokens).or_default() += probability);
    let wrong = |(a, b, c): (Token, Token, Token)| {
        let step = |text: &[Token], token: Token| law(&[&prompt[..], text].concat(), 0)[token as usize];
        let want = step(&[], a) * step(&[a], b) * step(&[a, b], c);
        (found.get(&vec![a, b, c]).copied().unwrap_or(0.0) - want).abs()
    };
    let largest = (0..27).map(|i| wrong((i / 9, i / 3 % 3, i % 3))).fold(0.0, f64::max);
    (largest, steps)
}

/// The law of sampled text is the target's own, whoever drafts a step.
#[test]
fn the_law_of_the_text_is_exact() {
    for least in [Some(1), Some(2), Some(3), None] {
        let (wrong, steps) = error(&|| before_draws(least));
        assert!(steps[0] > 0 && (least == Some(1) || steps[1] > 0), "{least:?}: {steps:?}");
        assert!(wrong < 1e-6, "{least:?}: {wrong}");
    }
}

/// The negative control.
#[test]
fn a_choice_by_what_was_drawn_changes_the_law() {
    let (wrong, steps) = error(&|| -> Box<dyn Drafter> { Box::new(Peeking(suffix(1), Drawing(vec![]))) });
    assert!(steps[0] > 0 && steps[1] > 0 && wrong > 1e-3, "{steps:?}: {wrong}");
}

/// Drafts so many tokens, of which the first `right` are what follows in a text that repeats itself every `period`.
struct Periodic {
    period: u32,
    right: usize,
    drafts: usize,
    /// Microseconds that have passed, and those that a draft takes.
    clock: (Arc<AtomicU64>, u64),
}

impl Periodic {
    fn new(period: u32, right: usize, drafts: usize) -> Self {
        Self { period, right, drafts, clock: (Arc::default(), 0) }
    }
}

impl Drafter for Periodic {
    fn name(&self) -> &str {
        "periodic"
    }

    fn reset(&mut self) {}

    fn observe(&mut self, _: VerifiedPass<'_>) -> Result<(), DraftError> {
        Ok(())
    }

    fn draft(&mut self, root: Token, _: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        self.clock.0.fetch_add(self.clock.1, Relaxed);
        let mut draft = DraftTree::root(root);
        for node in 0..self.drafts {
            let token = if node < self.right { (root + 1 + node as u32) % self.period } else { Token::MAX };
            draft.push(node, Candidate { token, probability: 1.0 });
        }
        Ok(Proposal::list(draft))
    }
}

/// Microseconds of a verification.
const VERIFIED: u64 = 1000;

/// Steps of both drafters, and the tokens of all, on `count` steps of a text of period `period`.
fn periodic(period: u32, other: Periodic, ratios: StepRatios, count: usize) -> ([usize; 2], usize) {
    let (other_rows, passed) = (other.drafts + 1, other.clock.0.clone());
    let read = passed.clone();
    let clock = Box::new(move || Duration::from_micros(read.load(Relaxed)));
    let mut drafter = HandoverDrafter::new(suffix(1), Box::new(other), tree().unwrap()).timed_by(ratios, clock);
    let (mut at, mut steps) = (0, [0, 0]);
    let token = |at: usize| (at % period as usize) as Token;
    let own = OwnTree::new(512, 64).unwrap();
    for _ in 0..count {
        let random = &mut gorgon_core::accept::random::SeededRandom::new(0);
        let context = &mut DraftContext { tree: CoupledTree::plain(&own), random, target: None };
        let proposal = drafter.draft(token(at), context).unwrap();
        passed.fetch_add(VERIFIED, Relaxed);
        let tree = proposal.draft.tree();
        let mut path = vec![0];
        while let Some(child) = tree.children(path[path.len() - 1]).find(|&c| tree.token(c) == token(at + path.len())) {
            path.push(child);
        }
        steps[usize::from(proposal.matched == 0 && tree.len() == other_rows)] += 1;
        let read: Vec<Token> = path.iter().map(|&node| tree.token(node)).collect();
        at += path.len();
        let verified = VerifiedTree { tree, path: &path, next: token(at), target: None };
        let output = crate::toy::nothing();
        let pass =
            VerifiedPass { tokens: &read, output: &output, rows: &path, verified: Some(verified), is_source: false };
        drafter.observe(pass).unwrap();
    }
    (steps, at)
}

/// Where a text repeats itself, long matches draft; nearly all steps of one that does not are the other drafter's.
#[test]
fn the_drafter_that_gains_more_drafts() {
    let poor = |period| Periodic::new(period, 1, 2);
    let (steps, tokens) = periodic(50, poor(50), StepRatios::alike(), 300);
    assert!(steps[0] > 250 && steps[1] > 3 && tokens > 30 * 250, "{steps:?} {tokens}");
    // Every token of a text without repetitions is new.
    let (steps, tokens) = periodic(1_000_000, poor(1_000_000), StepRatios::alike(), 300);
    assert_eq!((steps, tokens), ([0, 300], 600));
}

/// A few drafts that go on for long are not trusted, many are; a few that do not go on end the trust.
#[test]
fn few_drafts_tell_little_and_the_last_ones_most() {
    let mut short = Followed::begun(1.0, 5);
    assert!(short.tokens() < 2.0, "{short:?}");
    [5.0, 1.0, 5.0, 1.0, 5.0].iter().for_each(|&tokens| short.add(1.0, tokens));
    assert!((2.0..3.0).contains(&short.tokens()), "{short:?}");
    let mut long = Followed::begun(1.0, 33);
    assert!(long.tokens() > 5.0, "{long:?}");
    (0..200).for_each(|_| long.add(1.0, 33.0));
    assert!(long.tokens() > 32.0, "{long:?}");
    (0..8).for_each(|_| long.add(1.0, 1.0));
    assert!(long.tokens() < 5.0, "{long:?}");
    long.add(1.0, 33.0);
    assert!(long.tokens() > 8.0, "{long:?}");
}

/// Where rows are so dear that 39 drafts cost more than they bring, small trees are drafted or the other drafter's.
#[test]
fn steps_are_as_large_as_they_pay() {
    let times = [(1, 1.0), (3, 1.0), (4, 2.0), (40, 400.0)];
    let ratios = || StepRatios { verified: StepCosts::known(times), drafted: Some(StepCosts::known(times)) };
    let (steps, tokens) = periodic(50, Periodic::new(50, 2, 2), ratios(), 300);
    assert!(steps[1] > 280 && tokens < 3 * 300 + 40 * 20, "{steps:?} {tokens}");
}

/// Both drafters emit nearly as many tokens per step. The time that the other takes to draft decides, whatever it is.
#[test]
fn the_time_of_the_other_drafters_drafts_counts() {
    let other = |takes: u64| Periodic { clock: (Arc::default(), takes), ..Periodic::new(50, 38, 38) };
    let steps = |takes: u64, ratios: StepRatios| periodic(50, other(takes), ratios, 600).0;
    assert_eq!(steps(VERIFIED, StepRatios::alike())[0], 0);
    let free = steps(0, StepRatios::default());
    assert_eq!(free[0], 0, "{free:?}");
    let dear = steps(VERIFIED, StepRatios::default());
    assert!(dear[0] > 400, "{dear:?}");
    // Known costs of rows count beside the measured time.
    let rows = StepRatios { verified: StepCosts::known([(1, 1.0), (40, 3.0)]), drafted: None };
    let dear = steps(9 * VERIFIED, rows);
    assert!(dear[0] > 400, "{dear:?}");
}

/// Many sequences are decoded with short chains: the first drafter keeps within them too.
#[test]
fn a_step_with_a_smaller_tree_than_usual_bounds_both() {
    let (usual, short) = (OwnTree::new(24, 20).unwrap(), ChainTree::new(3).unwrap());
    for least in [Some(2), None] {
        let drafter = HandoverDrafter::new(suffix(2), Box::new(Periodic::new(50, 1, 2)), tree().unwrap());
        let drafter = drafter.usually(usual.max_nodes());
        let mut drafter = if least.is_none() { drafter.measured(StepRatios::alike()) } else { drafter };
        let mut largest = [0; 3];
        for step in 0..40 {
            let kind = step % 4 % 3;
            let tree: &dyn TreeBuilder = [&usual as &dyn TreeBuilder, &short, &ChainTree::ROOT][kind];
            let random = &mut gorgon_core::accept::random::SeededRandom::new(0);
            let context = &mut DraftContext { tree: CoupledTree::plain(tree), random, target: None };
            let draft = drafter.draft(9, context).unwrap().draft;
            largest[kind] = largest[kind].max(draft.tree().len());
            let (text, output) = ([9, 1, 2, 3, 4, 5, 6, 7, 8], crate::toy::nothing());
            let tree = draft.tree();
            let verified = VerifiedTree { tree, path: &[0], next: 9, target: None };
            let pass =
                VerifiedPass { tokens: &text, output: &output, rows: &[0], verified: Some(verified), is_source: false };
            drafter.observe(pass).unwrap();
        }
        assert!(largest[0] > 8 && largest[1] <= 4 && largest[2] == 1, "{least:?}: {largest:?}");
    }
}
