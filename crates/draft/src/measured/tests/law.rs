//! The law of text that `auto` drafts, enumerated: whoever drafts a step, it is the target's own.

use super::*;
use crate::toy::nothing;
use gorgon_core::accept::random::enumerate;
use gorgon_core::accept::{AcceptanceRule, RandomSource, RuleChoice, TargetRows, Verdict};
use gorgon_core::dist::Transform;
use std::collections::BTreeMap;

/// The target's distribution after a token.
fn after(token: Token) -> [f64; 3] {
    [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.25, 0.3, 0.45]][token as usize]
}

/// Steps by who drafted them, and accepted drafts.
#[derive(Clone, Copy, Default)]
struct Counts {
    plain: usize,
    suffix: usize,
    tried: usize,
    accepted: usize,
}

/// Decoding by a clock that each step moves by `cost(rows)`.
struct Decoding {
    drafter: MeasuredDrafter,
    time: Arc<Mutex<Duration>>,
    cost: fn(usize) -> f64,
    counts: Counts,
}

impl Decoding {
    /// One step; `accept` gives the verdict on a proposal. Returns the emitted tokens.
    fn step(
        &mut self,
        root: Token,
        random: &mut dyn RandomSource,
        accept: impl FnOnce(&Proposal, &mut dyn RandomSource) -> Verdict,
    ) -> Vec<Token> {
        let budget = OwnTree::new(64, 63).unwrap();
        let mut context = DraftContext { tree: CoupledTree::plain(&budget), random: &mut *random, target: None };
        let proposal = self.drafter.draft(root, &mut context).unwrap();
        let tree = proposal.draft.tree();
        *self.time.lock().unwrap() += Duration::from_secs_f64(1e-3 * (self.cost)(tree.len()));
        match self.drafter.under_way.unwrap().source {
            _ if tree.len() == 1 => self.counts.plain += 1,
            Source::Plain => self.counts.plain += 1,
            Source::Suffix => self.counts.suffix += 1,
            Source::Tried { .. } => self.counts.tried += 1,
        }
        let verdict = accept(&proposal, random);
        self.counts.accepted += verdict.path.len() - 1;
        let read: Vec<Token> = verdict.path.iter().map(|&node| tree.token(node)).collect();
        let (path, output) = (&verdict.path[..], nothing());
        let verified = Some(VerifiedTree { tree, path, next: verdict.bonus, target: None });
        let pass = VerifiedPass { tokens: &read, output: &output, rows: path, verified, is_source: false };
        self.drafter.observe(pass).unwrap();
        read[1..].iter().copied().chain([verdict.bonus]).collect()
    }
}

/// Three tokens after a text of ones, of which the drafters have seen `steps` steps.
fn sampled(
    case: (Chains, Chains, fn(usize) -> f64, usize),
    rule: &dyn AcceptanceRule,
    random: &mut dyn RandomSource,
) -> (Vec<Token>, Counts) {
    let (followed, tried, cost, steps) = case;
    let time = Arc::new(Mutex::new(Duration::ZERO));
    let drafter = drafter(followed, tried, &time);
    let mut decoding = Decoding { drafter, time, cost, counts: Counts::default() };
    for _ in 0..steps {
        decoding.step(1, &mut SeededRandom::new(0), |proposal, _| {
            let tree = proposal.draft.tree();
            let right = (1..tree.len()).take_while(|&node| tree.token(node) == 1).count();
            Verdict { path: (0..=right).collect(), bonus: 1 }
        });
    }
    decoding.counts = Counts::default();
    let mut text = vec![1];
    while text.len() < 4 {
        let root = text[text.len() - 1];
        text.extend(decoding.step(root, random, |proposal, random| {
            let tree = proposal.draft.tree();
            let data: Vec<f64> = tree.tokens().iter().flat_map(|&token| after(token)).collect();
            let rows = TargetRows::Probabilities { data: &data, vocab: 3 };
            proposal.with_draft_rows(|drafts| rule.accept(tree, drafts, rows, random)).unwrap()
        }));
    }
    (text[1..4].to_vec(), decoding.counts)
}

/// The largest error of the law of three tokens, and the counts of all branches.
fn error(case: (Chains, Chains, fn(usize) -> f64, usize), rule: &dyn AcceptanceRule) -> (f64, Counts) {
    let (mut found, mut counts) = (BTreeMap::<Vec<Token>, f64>::new(), Counts::default());
    for (probability, (tokens, of)) in enumerate(|random| sampled(case, rule, random)) {
        *found.entry(tokens).or_default() += probability;
        counts.plain += of.plain;
        counts.suffix += of.suffix;
        counts.tried += of.tried;
        counts.accepted += of.accepted;
    }
    let wrong = |tokens: [Token; 3]| {
        let want = [1, tokens[0], tokens[1]].into_iter().zip(tokens).map(|(last, token)| after(last)[token as usize]);
        (found.get(tokens.as_slice()).copied().unwrap_or(0.0) - want.product::<f64>()).abs()
    };
    let all = (0..27).map(|i| wrong([i / 9, i / 3 % 3, i % 3]));
    (all.fold(0.0, f64::max), counts)
}

const TWO: fn(usize) -> usize = |_| 2;

#[test]
fn the_law_of_the_text_is_exact() {
    let transform = Transform::new(1.0, None, None).unwrap();
    let exact = RuleChoice::Sampling.rule(transform);
    let lossy = RuleChoice::Typical { epsilon: 0.3, delta: 0.3 }.rule(transform);
    let mut counts = Counts::default();
    let mut furthest = 0.0f64;
    for steps in [0, 1, 5, 60, 61, 62, 63, 64, 65, 66, 130, 300] {
        for (followed, second) in [
            (chains(3, 1, TWO), tried(3, NEVER)),
            (chains(3, 1, NEVER), tried(3, TWO)),
            (chains(2, 3, TWO), tried(2, TWO)),
        ] {
            let flat: fn(usize) -> f64 = |_| 1.0;
            let case = (followed, second, flat, steps);
            let (wrong, of) = error(case, exact.as_ref());
            assert!(wrong < 1e-9, "{steps}: {wrong}");
            furthest = furthest.max(error(case, lossy.as_ref()).0);
            counts.plain += of.plain;
            counts.suffix += of.suffix;
            counts.tried += of.tried;
            counts.accepted += of.accepted;
        }
    }
    let Counts { plain, suffix, tried, accepted } = counts;
    assert!(plain > 0 && suffix > 0 && tried > 0 && accepted > 0, "{plain} {suffix} {tried} {accepted}");
    // A rule that is not exact is seen.
    assert!(furthest > 0.05, "{furthest}");
}
