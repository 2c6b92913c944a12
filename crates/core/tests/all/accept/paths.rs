//! Rules that accept a whole path at once, against their definition over root-to-leaf candidates.

use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{
    AcceptanceRule, Bild, DraftRows, Greedy, RandomSource, TargetRows, TopBeta, Typical, Verdict,
};
use gorgon_core::dist::Transform;
use gorgon_core::tree::TokenTree;

use crate::accept::settings::random_distribution;
use crate::accept::wrong::Rule;

const VOCAB: usize = 7;

/// A random tree of 14 nodes (siblings may repeat a token) and its target rows `[nodes, vocab]`.
fn random_tree(seed: u64) -> (TokenTree, Vec<f64>) {
    let mut random = SeededRandom::new(seed);
    let mut tree = TokenTree::root(0);
    let mut prefixes: Vec<Vec<Token>> = vec![Vec::new()];
    for _ in 1..14 {
        let parent = (random.uniform() * tree.len() as f64) as usize;
        let prefix = prefixes[parent].clone();
        let likely = random_distribution(seed, &prefix, VOCAB).iter().map(|p| p * p).collect::<Vec<f64>>();
        let token = random.pick(&likely) as Token;
        tree.push(parent, token);
        prefixes.push([&prefix[..], &[token]].concat());
    }
    let rows = prefixes.iter().flat_map(|prefix| random_distribution(seed, prefix, VOCAB)).collect();
    (tree, rows)
}

/// The verdict by definition: of all root-to-leaf candidates the one with the most drafts accepted before the first
/// rejection, then with the greatest summed log-probability of those, then the first by its last accepted node.
fn by_definition(tree: &TokenTree, rows: &[f64], accepts: &dyn Fn(&[f64], usize) -> bool, scored: bool) -> Verdict {
    let row = |node: usize| &rows[node * VOCAB..(node + 1) * VOCAB];
    let mut best: Option<(usize, f64, usize)> = None;
    for node in 0..tree.len() {
        let path = tree.path(node);
        let token = |node: usize| tree.token(node) as usize;
        let is_accepted = path.windows(2).all(|edge| accepts(row(edge[0]), token(edge[1])));
        let score: f64 = path.windows(2).map(|edge| row(edge[0])[token(edge[1])].ln()).sum();
        let score = if scored { score } else { 0.0 };
        let is_better = |(length, other, _): (usize, f64, usize)| {
            path.len() > length || (path.len() == length && score > other + 1e-12)
        };
        if is_accepted && best.is_none_or(is_better) {
            best = Some((path.len(), score, node));
        }
    }
    let (_, _, node) = best.expect("the root alone is always a candidate");
    let bonus = (0..VOCAB).rev().max_by(|&a, &b| row(node)[a].total_cmp(&row(node)[b])).unwrap();
    Verdict { path: tree.path(node), bonus: bonus as Token }
}

/// The first tree on which `rule` does not do what the definition says.
fn first_failure(
    rule: &dyn AcceptanceRule,
    accepts: &dyn Fn(&[f64], usize) -> bool,
    scored: bool,
) -> Option<(u64, Verdict)> {
    let mut accepted = 0;
    let failure = (0..300).find_map(|seed| {
        let (tree, rows) = random_tree(seed);
        let target = TargetRows::Probabilities { data: &rows, vocab: VOCAB };
        let verdict = rule.accept(&tree, DraftRows::NONE, target, &mut SeededRandom::new(seed)).unwrap();
        accepted += verdict.path.len() - 1;
        (verdict != by_definition(&tree, &rows, accepts, scored)).then_some((seed, verdict))
    });
    assert!(failure.is_some() || accepted > 100, "the check needs accepted drafts, but there were {accepted}");
    failure
}

/// Medusa's entropy.
fn entropy(row: &[f64]) -> f64 {
    row.iter().map(|p| -p * (p + 1e-5).ln()).sum()
}

/// Medusa's reference: `p > min(ε, δ·exp(-H))`.
fn typical(row: &[f64], token: usize, epsilon: f64, delta: f64) -> bool {
    row[token] > epsilon.min(delta * (-entropy(row)).exp())
}

/// Parameters with which either threshold is the smaller one on some rows.
const EPSILON: f64 = 0.12;
const DELTA: f64 = 0.6;

#[test]
fn typical_takes_the_longest_then_most_probable_path() {
    for (epsilon, delta) in [(0.09, 0.3), (0.2, 0.45), (EPSILON, DELTA)] {
        let rule = Typical { epsilon, delta, transform: Transform::IDENTITY };
        assert_eq!(first_failure(&rule, &|row, token| typical(row, token, epsilon, delta), true), None);
    }
}

#[test]
fn typical_at_temperature_0_is_greedy() {
    let is_best = |row: &[f64], token: usize| row.iter().all(|&p| p <= row[token]);
    let rule = Typical { epsilon: 0.09, delta: 0.3, transform: Transform::GREEDY };
    assert_eq!(first_failure(&rule, &is_best, false), None);
    assert_eq!(first_failure(&Greedy, &is_best, false), None);
}

#[test]
fn bild_rolls_back_to_the_first_distant_position() {
    for rollback in [1.2, 1.6, 2.5] {
        let is_near = |row: &[f64], token: usize| -row[token].ln() <= rollback;
        assert_eq!(first_failure(&Bild { rollback }, &is_near, true), None);
    }
}

/// SpecDec's criterion, from a full sort.
fn in_top_beta(row: &[f64], token: usize, beta: usize, gap: f64) -> bool {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
    order[..beta].contains(&token) && (row[order[0]] / row[token]).ln() <= gap
}

#[test]
fn top_beta_needs_both_the_rank_and_the_gap() {
    for (beta, gap) in [(1, 0.0), (2, 9.0), (3, 0.7), (7, 1.0)] {
        let rule = TopBeta { beta, gap };
        assert_eq!(first_failure(&rule, &|row, token| in_top_beta(row, token, beta, gap), true), None);
    }
}

#[test]
fn planted_threshold_bugs_are_noticed() {
    let reference = |row: &[f64], token: usize| typical(row, token, EPSILON, DELTA);
    let rule = |epsilon, delta, temperature| Typical {
        epsilon,
        delta,
        transform: Transform::new(temperature, None, None).unwrap(),
    };
    // One of the two thresholds left out, the two swapped, a temperature where there should be none.
    for wrong in [
        rule(EPSILON, f64::INFINITY, 1.0),
        rule(f64::INFINITY, DELTA, 1.0),
        rule(DELTA, EPSILON, 1.0),
        rule(EPSILON, DELTA, 0.7),
    ] {
        assert!(first_failure(&wrong, &reference, true).is_some(), "{wrong:?} went unnoticed");
    }
    // max(ε, δ·exp(-H)) in place of min.
    let max = |row: &[f64], token: usize| row[token] > EPSILON.max(DELTA * (-entropy(row)).exp());
    assert!(first_failure(&rule(EPSILON, DELTA, 1.0), &max, true).is_some());
    assert_eq!(first_failure(&rule(EPSILON, DELTA, 1.0), &reference, true), None, "the control has no bug");
    let in_top_3 = |row: &[f64], token: usize| in_top_beta(row, token, 3, 0.7);
    assert!(first_failure(&TopBeta { beta: 4, gap: 0.7 }, &in_top_3, true).is_some());
    assert!(first_failure(&TopBeta { beta: 3, gap: 9.0 }, &in_top_3, true).is_some());
    let is_near = |row: &[f64], token: usize| -row[token].ln() <= 1.5;
    // A threshold on the probability instead of on the distance.
    assert!(first_failure(&Bild { rollback: (-1.5_f64).exp() }, &is_near, true).is_some());
}

#[test]
fn planted_path_bugs_are_noticed() {
    let is_near = |row: &[f64], token: usize| -row[token].ln() <= 1.5;
    let accepts = move |rows: TargetRows<'_>, parent: usize, token: Token| {
        let gorgon_core::dist::Row::Probabilities(row) = rows.row(parent).unwrap() else { unreachable!() };
        is_near(row, token as usize)
    };
    let verdict = |tree: &TokenTree, target: TargetRows<'_>, node: usize| {
        let bonus = target.row(node).unwrap().argmax() as Token;
        Verdict { path: tree.path(node), bonus }
    };
    // Takes the deepest accepted node, whether or not its ancestors were accepted.
    let skips_ancestors =
        Rule(move |tree: &TokenTree, _: DraftRows<'_>, target: TargetRows<'_>, _: &mut dyn RandomSource| {
            let is_accepted = |node: &usize| tree.parent(*node).is_none_or(|p| accepts(target, p, tree.token(*node)));
            let deepest = (0..tree.len()).rev().filter(is_accepted).max_by_key(|&node| tree.depths()[node]).unwrap();
            verdict(tree, target, deepest)
        });
    assert!(first_failure(&skips_ancestors, &is_near, true).is_some());
    // Follows the first accepted child instead of the longest accepted path.
    let first_child =
        Rule(move |tree: &TokenTree, _: DraftRows<'_>, target: TargetRows<'_>, _: &mut dyn RandomSource| {
            let mut node = 0;
            while let Some(child) = tree.children(node).find(|&child| accepts(target, node, tree.token(child))) {
                node = child;
            }
            verdict(tree, target, node)
        });
    assert!(first_failure(&first_child, &is_near, true).is_some());
    // Lets the first of the longest paths win instead of the most probable.
    assert!(first_failure(&Bild { rollback: 1.5 }, &is_near, false).is_some());
}
