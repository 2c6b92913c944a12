//! Several sources: the output has the target's distribution as long as every sample stays an entry.

use gorgon_core::Token;
use gorgon_core::accept::random::enumerate;
use gorgon_core::accept::{
    AcceptanceRule, Beta, Cascade, Coupled, Deferral, DraftRows, DraftSource, Entry, KSeq, Lossy, RandomSource, Rows,
    Sampling, SamplingScheme, TargetRows, Traversal, Verdict,
};
use gorgon_core::dist::{Transform, total_variation};
use gorgon_core::tree::{Candidate, DraftTree, NodeInput, TokenTree};

use crate::accept::lossless::ALL_SCHEMES;
use crate::accept::settings::{distance, random_distribution};

const VOCAB: usize = 3;
/// Tokens of which the joint distribution is compared: two drafted levels and the bonus.
const HORIZON: usize = 3;

/// A mistake in the entries.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    None,
    /// A child is tried once, whoever proposed it how often.
    Deduplicated,
    /// A child is tried once per source.
    DeduplicatedPerSource,
    /// Samples of the second source are said to be the first one's.
    WrongSource,
    /// Top-1 tokens are said to be samples.
    ArgmaxAsSample,
    /// Entries are tried in the order of their tokens.
    OrderedByToken,
}

/// Two sources that take two children each of the root and of one child of it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    seed: u64,
    schemes: [SamplingScheme; 2],
    /// The root's entry whose child has children.
    expanded: usize,
    /// Whether the sources take turns, or the second comes after the first.
    in_turns: bool,
    /// Levels that are drafted: 1 or 2.
    levels: usize,
    mistake: Mistake,
}

impl Pair {
    fn target(&self, prefix: &[Token]) -> Vec<f64> {
        random_distribution(3 * self.seed, prefix, VOCAB)
    }

    fn draft(&self, source: usize, prefix: &[Token]) -> Vec<f64> {
        random_distribution(3 * self.seed + 1 + source as u64, prefix, VOCAB)
    }

    /// Adds the children of a node to the tree, and an entry for every sample.
    fn expand(&self, draft: &mut DraftTree, node: usize, prefix: &[Token], random: &mut dyn RandomSource) {
        let mut tries: Vec<(Token, usize)> = Vec::new();
        for (source, scheme) in self.schemes.into_iter().enumerate() {
            let taken = match self.mistake {
                Mistake::ArgmaxAsSample => {
                    SamplingScheme::Deterministic.children(&self.draft(source, prefix), 1, random)
                }
                _ => scheme.children(&self.draft(source, prefix), 2, random),
            };
            for (index, &token) in taken.iter().enumerate() {
                let at = if self.in_turns { (2 * index + source).min(tries.len()) } else { tries.len() };
                tries.insert(at, (token, source));
            }
        }
        if self.mistake == Mistake::OrderedByToken {
            tries.sort_by_key(|&(token, _)| token);
        }
        for (token, source) in tries {
            let source = if self.mistake == Mistake::WrongSource { 0 } else { source };
            let known = draft.tree().children(node).find(|&child| draft.tree().token(child) == token);
            let entries = draft.entries().unwrap_or_default();
            let is_repeated = |entry: &Entry| match self.mistake {
                Mistake::Deduplicated => Some(entry.child) == known,
                Mistake::DeduplicatedPerSource => Some(entry.child) == known && entry.source == source,
                _ => false,
            };
            if !entries.iter().any(is_repeated) {
                draft.merge(node, Candidate { token, probability: 1.0 }, source);
            }
        }
    }

    /// The drafted tree, with probes among its nodes that nobody may accept.
    fn tree(&self, random: &mut dyn RandomSource) -> DraftTree {
        let mut draft = DraftTree::root(0);
        draft.push_probe(0, NodeInput::Token(1));
        self.expand(&mut draft, 0, &[], random);
        if self.levels == 1 {
            return draft;
        }
        let entries = draft.entries().unwrap();
        let child = entries[self.expanded.min(entries.len() - 1)].child;
        draft.push_probe(child, NodeInput::Embedding(0));
        let prefix = [draft.tree().token(child)];
        self.expand(&mut draft, child, &prefix, random);
        draft
    }

    /// The texts that one step can emit, with their probabilities.
    fn steps(&self, rule: &dyn AcceptanceRule) -> Vec<(f64, Vec<Token>)> {
        let trees = enumerate(|random| self.tree(random));
        trees.iter().flat_map(|(drafted, draft)| self.verdicts(rule, *drafted, draft)).collect()
    }

    /// Distribution for one drafted tree, which has probability `drafted`.
    fn verdicts(&self, rule: &dyn AcceptanceRule, drafted: f64, draft: &DraftTree) -> Vec<(f64, Vec<Token>)> {
        let tree = draft.tree();
        let rows = |of: &dyn Fn(&[Token]) -> Vec<f64>| -> Vec<f64> {
            (0..tree.len()).flat_map(|node| of(&tokens(tree, node))).collect()
        };
        let target = rows(&|prefix| self.target(prefix));
        let drafts = [0, 1].map(|source| rows(&|prefix| self.draft(source, prefix)));
        let source = |number: usize| {
            let rows = Rows::Probabilities { data: &drafts[number], vocab: VOCAB };
            DraftSource { rows: Some(rows), scheme: self.schemes[number] }
        };
        let sources = [source(0), source(1)];
        let rows = DraftRows::new(&sources, draft.entries());
        let target = TargetRows::Probabilities { data: &target, vocab: VOCAB };
        let outcomes = enumerate(|random| rule.accept(tree, rows, target, random).unwrap());
        let text = |(probability, verdict): (f64, Verdict)| {
            assert!(verdict.path.iter().all(|&node| !tree.is_probe(node)), "a probe was accepted");
            let accepted = verdict.path[1..].iter().map(|&node| tree.token(node));
            (drafted * probability, accepted.chain([verdict.bonus]).collect())
        };
        outcomes.into_iter().map(text).collect()
    }

    /// The distribution of the first [`HORIZON`] tokens, shorter steps continued by the target.
    fn emitted(&self, rule: &dyn AcceptanceRule) -> Vec<f64> {
        let mut joint = vec![0.0; VOCAB.pow(HORIZON as u32)];
        for (probability, text) in self.steps(rule) {
            self.extend(&text[..text.len().min(HORIZON)], probability, &mut joint);
        }
        joint
    }

    fn extend(&self, text: &[Token], probability: f64, joint: &mut [f64]) {
        if text.len() == HORIZON {
            joint[text.iter().fold(0, |index, &token| index * VOCAB + token as usize)] += probability;
            return;
        }
        for (token, p) in (0..).zip(self.target(text)) {
            self.extend(&[text, &[token]].concat(), probability * p, joint);
        }
    }

    /// How far the output is from plain decoding.
    fn error(&self, rule: &dyn AcceptanceRule) -> f64 {
        let mut plain = vec![0.0; VOCAB.pow(HORIZON as u32)];
        self.extend(&[], 1.0, &mut plain);
        distance(&self.emitted(rule), &plain)
    }
}

fn tokens(tree: &TokenTree, node: usize) -> Vec<Token> {
    tree.path(node)[1..].iter().map(|&at| if tree.is_probe(at) { 0 } else { tree.token(at) }).collect()
}

/// All pairs of schemes in both orders, with either of two children expanded.
fn pairs(mistake: Mistake) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (index, schemes) in ALL_SCHEMES.into_iter().flat_map(|a| ALL_SCHEMES.map(|b| [a, b])).enumerate() {
        for (expanded, in_turns) in [(0, false), (3, true)] {
            pairs.push(Pair { seed: index as u64, schemes, expanded, in_turns, levels: 2, mistake });
        }
    }
    pairs
}

const SAMPLING: Sampling = Sampling { transform: Transform::IDENTITY };

#[test]
fn two_sources_emit_the_targets_distribution() {
    let transform = Transform::IDENTITY;
    let rules: [&dyn AcceptanceRule; 5] = [
        &SAMPLING,
        &KSeq { transform },
        &Lossy { alpha: 0.0, beta: Beta::Fixed(1.0), transform },
        &Coupled { transform },
        &Traversal { transform },
    ];
    for (number, rule) in rules.into_iter().enumerate() {
        // Two independent sources have by far the most outcomes; all rules but the first repeat its rounds there.
        let is_quick = |pair: &Pair| number == 0 || pair.schemes != [SamplingScheme::Independent; 2];
        for pair in pairs(Mistake::None).into_iter().filter(is_quick) {
            let error = pair.error(rule);
            assert!(error < 1e-12, "rule {number}: error {error:e} in {pair:?}");
        }
    }
}

/// Whether some pair whose schemes satisfy `is_meant` shows the mistake.
fn is_noticed(mistake: Mistake, is_meant: impl Fn([SamplingScheme; 2]) -> bool) -> bool {
    pairs(mistake).into_iter().filter(|pair| is_meant(pair.schemes)).any(|pair| pair.error(&SAMPLING) > 1e-6)
}

#[test]
fn mistakes_in_entries_change_the_distribution() {
    let all = |wanted| move |schemes: [SamplingScheme; 2]| schemes == [wanted; 2];
    assert!(is_noticed(Mistake::Deduplicated, all(SamplingScheme::Independent)));
    assert!(is_noticed(Mistake::DeduplicatedPerSource, all(SamplingScheme::Independent)));
    assert!(is_noticed(Mistake::Deduplicated, all(SamplingScheme::WithoutReplacement)));
    assert!(is_noticed(Mistake::WrongSource, all(SamplingScheme::Independent)));
    assert!(is_noticed(Mistake::OrderedByToken, all(SamplingScheme::Independent)));
    assert!(is_noticed(Mistake::ArgmaxAsSample, all(SamplingScheme::Independent)));
    assert!(!is_noticed(Mistake::ArgmaxAsSample, all(SamplingScheme::Deterministic)), "a list may hold argmaxes");
    assert!(!is_noticed(Mistake::Deduplicated, all(SamplingScheme::Deterministic)), "a list may drop repetitions");
}

#[test]
fn a_cascade_of_two_sources_aims_at_the_first_ones_mixture() {
    for (deferral, alpha) in [(Deferral::TokenV2, 0.2), (Deferral::Opt, 0.3), (Deferral::TokenV3, 0.4)] {
        let rule = Cascade { deferral, alpha, transform: Transform::IDENTITY };
        for pair in pairs(Mistake::None).into_iter().map(|pair| Pair { levels: 1, ..pair }) {
            let (p, q) = (pair.target(&[]), pair.draft(0, &[]));
            let aim = Deferral::mix(&deferral.defers(alpha, &p, &q, total_variation(&p, &q)), &p, &q);
            let mut first = vec![0.0; VOCAB];
            for (probability, text) in pair.steps(&rule) {
                first[text[0] as usize] += probability;
            }
            assert!(distance(&first, &aim) < 1e-12, "{deferral:?} in {pair:?}");
        }
    }
}
