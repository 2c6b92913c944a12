//! Chain, fixed and dynamic trees on scripted drafters.

use std::collections::BTreeMap;

use gorgon_core::{
    Token,
    tree::{
        BuildError, Candidate, CandidateRows, CandidateSource, ChainTree, DraftTree, DynamicTree, FixedTree,
        PublishedTree, SourceError, TokenTree, TreeBuilder, TreeShape,
    },
};
use proptest::prelude::*;

const ROOT: Token = 1000;

/// A drafter whose distribution after a path depends on the tokens of that path alone, so that a test can ask about any
/// path without a tree.
#[derive(Clone, Copy, Debug)]
struct NextTokens {
    seed: u64,
    /// Tokens after every path.
    vocabulary: usize,
    /// Probabilities are multiples of 1/`steps`, which makes ties common when it is small.
    steps: u64,
}

impl NextTokens {
    /// Candidates after a path, most probable first, ties to the lower token.
    fn after(&self, path: &[Token]) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = (0..self.vocabulary as Token)
            .map(|token| {
                let mut hash = self.seed;
                for &word in path.iter().chain([&token]) {
                    // SplitMix64.
                    hash =
                        hash.wrapping_add(0x9e37_79b9_7f4a_7c15 ^ u64::from(word).wrapping_mul(0xff51_afd7_ed55_8ccd));
                    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                    hash ^= hash >> 31;
                }
                Candidate { token, probability: (hash % self.steps + 1) as f64 / self.steps as f64 }
            })
            .collect();
        candidates.sort_by(|a, b| b.probability.total_cmp(&a.probability).then(a.token.cmp(&b.token)));
        candidates
    }
}

/// A [`NextTokens`] as a source; remembers the calls.
struct Script {
    distribution: NextTokens,
    calls: Vec<(Vec<usize>, Vec<usize>)>,
}

impl Script {
    fn new(distribution: NextTokens) -> Self {
        Self { distribution, calls: Vec::new() }
    }
}

fn tokens_on_path(tree: &TokenTree, node: usize) -> Vec<Token> {
    tree.path(node).iter().map(|&at| tree.token(at)).collect()
}

impl CandidateSource for Script {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        self.calls.push((nodes.to_vec(), widths.to_vec()));
        assert!(nodes.iter().all(|&node| tree.depths()[node] == tree.depths()[nodes[0]]), "one level per call");
        let row = |(&node, &width): (&usize, &usize)| {
            self.distribution.after(&tokens_on_path(tree, node)).into_iter().take(width)
        };
        Ok(nodes.iter().zip(widths).map(row).collect())
    }
}

/// A source that answers with the same rows whatever it is asked.
struct Fixed(Result<Vec<Vec<Candidate>>, String>);

impl CandidateSource for Fixed {
    fn expand(&mut self, _: &TokenTree, _: &[usize], _: &[usize]) -> Result<CandidateRows, SourceError> {
        Ok(self.0.clone()?.into_iter().collect())
    }
}

fn candidate(token: Token, probability: f64) -> Candidate {
    Candidate { token, probability }
}

fn any_script() -> impl Strategy<Value = NextTokens> {
    (any::<u64>(), 0..7_usize, prop_oneof![Just(2), Just(1 << 40)]).prop_map(|(seed, vocabulary, steps)| NextTokens {
        seed,
        vocabulary,
        steps,
    })
}

/// The mistakes that a dynamic tree could make.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    None,
    RanksByConditional,
    ExpandsWholeLevels,
    OneExpansionTooFew,
    TotalWithoutRoot,
    ReranksLastLevelOnly,
}

/// EAGLE-2 written naively over token paths, with or without a mistake: the kept paths (root left out) in order.
fn naive_dynamic(distribution: NextTokens, total: usize, depth: usize, top_k: usize, bug: Bug) -> Vec<Vec<Token>> {
    // Everything drafted so far, in order: path, value, level.
    let mut drafted: Vec<(Vec<Token>, f64, usize)> = vec![(vec![ROOT], 0.0, 0)];
    let levels = if bug == Bug::OneExpansionTooFew { depth } else { depth + 1 };
    for level in 1..=levels {
        let mut parents: Vec<_> = drafted.iter().filter(|node| node.2 == level - 1).cloned().collect();
        parents.sort_by(|a, b| b.1.total_cmp(&a.1));
        if bug != Bug::ExpandsWholeLevels {
            parents.truncate(top_k);
        }
        for (path, value, _) in parents {
            let value = if bug == Bug::RanksByConditional { 0.0 } else { value };
            for child in distribution.after(&path).into_iter().take(top_k) {
                drafted.push(([&path[..], &[child.token]].concat(), value + child.probability.ln(), level));
            }
        }
    }
    drafted.remove(0);
    let last = drafted.iter().map(|node| node.2).max();
    let mut order: Vec<usize> = (0..drafted.len()).collect();
    if bug == Bug::ReranksLastLevelOnly {
        order.retain(|&node| Some(drafted[node].2) == last);
    }
    order.sort_by(|&a, &b| drafted[b].1.total_cmp(&drafted[a].1));
    order.truncate(if bug == Bug::TotalWithoutRoot { total } else { total - 1 });
    order.sort_unstable();
    order.into_iter().map(|node| drafted[node].0.clone()).collect()
}

/// Checks kept paths against the definition: what may be drafted is worked out level by level from the values of whole
/// paths, and no dropped node may be worth more than a kept one.
fn check_dynamic(
    distribution: NextTokens,
    total: usize,
    depth: usize,
    top_k: usize,
    kept: &[Vec<Token>],
) -> Result<(), String> {
    let mut values = BTreeMap::new();
    let mut level = vec![(1.0_f64, vec![ROOT])];
    for _ in 0..=depth {
        let mut next = Vec::new();
        for (value, path) in &level {
            for child in distribution.after(path).iter().take(top_k) {
                next.push((value * child.probability, [&path[..], &[child.token]].concat()));
            }
        }
        values.extend(next.iter().map(|(value, path)| (path.clone(), *value)));
        next.sort_by(|a, b| b.0.total_cmp(&a.0));
        next.truncate(top_k);
        level = next;
    }
    if kept.len() != (total - 1).min(values.len()) {
        return Err(format!("{} drafts kept of {}, with room for {}", kept.len(), values.len(), total - 1));
    }
    let mut worst = f64::INFINITY;
    for path in kept {
        let value = values.get(path).ok_or_else(|| format!("{path:?} was never drafted"))?;
        worst = worst.min(*value);
        if path.len() > 2 && !kept.contains(&path[..path.len() - 1].to_vec()) {
            return Err(format!("{path:?} has no parent"));
        }
    }
    let dropped = values.iter().find(|(path, value)| **value > worst * (1.0 + 1e-12) && !kept.contains(path));
    dropped.map_or(Ok(()), |(path, value)| Err(format!("{path:?} of value {value} was dropped, {worst} kept")))
}

fn kept_paths(drafted: &DraftTree) -> Vec<Vec<Token>> {
    (1..drafted.tree().len()).map(|node| tokens_on_path(drafted.tree(), node)).collect()
}

/// Shape under a sampling scheme, path by path; ranks that the scheme does not offer are left out.
fn paths_by_rank(distribution: NextTokens, shape: &TreeShape) -> Vec<Vec<Token>> {
    let tokens = |ranks: &Vec<usize>| {
        let step =
            |path: Vec<Token>, &rank: &usize| Some([&path[..], &[distribution.after(&path).get(rank)?.token]].concat());
        ranks.iter().try_fold(vec![ROOT], step)
    };
    shape.paths().iter().filter_map(tokens).collect()
}

/// Bookkeeping that every builder owes: probabilities are the drafter's, limits hold.
fn check_books(builder: &dyn TreeBuilder, distribution: NextTokens, drafted: &DraftTree) -> Result<(), TestCaseError> {
    let tree = drafted.tree();
    prop_assert_eq!(tree.token(0), ROOT);
    prop_assert!(tree.len() <= builder.max_nodes());
    prop_assert!(tree.max_depth() <= builder.max_depth());
    prop_assert_eq!((drafted.probabilities().len(), drafted.source_nodes().len()), (tree.len(), tree.len()));
    for node in 1..tree.len() {
        let after = distribution.after(&tokens_on_path(tree, tree.parent(node).unwrap()));
        let named = after.iter().find(|candidate| candidate.token == tree.token(node));
        prop_assert_eq!(named.map(|candidate| candidate.probability), Some(drafted.probabilities()[node]));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn dynamic_trees_keep_the_most_valuable_nodes(
        distribution in any_script(), total in 1..40_usize, depth in 0..5_usize, top_k in 1..5_usize,
    ) {
        let builder = DynamicTree::new(total, depth, top_k).unwrap();
        let drafted = builder.build(ROOT, &mut Script::new(distribution)).unwrap();
        check_books(&builder, distribution, &drafted)?;
        let kept = kept_paths(&drafted);
        let naive = naive_dynamic(distribution, total, depth, top_k, Bug::None);
        prop_assert_eq!(&kept, &naive, "the same nodes in the same order");
        if distribution.steps > 2 {
            // With common ties the levels worked out from products may differ from those worked out from logarithms.
            prop_assert_eq!(check_dynamic(distribution, total, depth, top_k, &kept), Ok(()));
        }
    }

    #[test]
    fn dynamic_trees_name_the_nodes_that_the_drafter_saw(
        distribution in any_script(), total in 1..40_usize, depth in 0..5_usize,
    ) {
        /// Remembers the last tree it saw.
        struct Watch(Script, Option<TokenTree>);
        impl CandidateSource for Watch {
            fn expand(
                &mut self,
                tree: &TokenTree,
                nodes: &[usize],
                widths: &[usize],
            ) -> Result<CandidateRows, SourceError> {
                self.1 = Some(tree.clone());
                self.0.expand(tree, nodes, widths)
            }
        }
        let mut watch = Watch(Script::new(distribution), None);
        let drafted = DynamicTree::new(total, depth, 3).unwrap().build(ROOT, &mut watch).unwrap();
        let seen = watch.1.unwrap_or_else(|| TokenTree::root(ROOT));
        for (node, &source_node) in drafted.source_nodes().iter().enumerate() {
            // Nodes of the last level are never shown to the drafter.
            if source_node < seen.len() {
                prop_assert_eq!(tokens_on_path(drafted.tree(), node), tokens_on_path(&seen, source_node));
            } else {
                prop_assert_eq!(drafted.tree().children(node).count(), 0);
            }
        }
    }

    #[test]
    fn fixed_trees_take_the_ranks_of_their_shape(distribution in any_script(), choice in 0..9_usize) {
        let shape = PublishedTree::ALL[choice].shape();
        let builder = FixedTree::new(shape.clone());
        let mut script = Script::new(distribution);
        let drafted = builder.build(ROOT, &mut script).unwrap();
        check_books(&builder, distribution, &drafted)?;
        prop_assert_eq!(kept_paths(&drafted), paths_by_rank(distribution, shape));
        prop_assert!(script.calls.len() <= shape.max_depth(), "one call per level at most");
    }

    #[test]
    fn chains_follow_the_top_token(distribution in any_script(), drafts in 0..12_usize) {
        let builder = ChainTree::new(drafts).unwrap();
        let drafted = builder.build(ROOT, &mut Script::new(distribution)).unwrap();
        check_books(&builder, distribution, &drafted)?;
        prop_assert_eq!(drafted.tree().len(), if distribution.vocabulary == 0 { 1 } else { drafts + 1 });
        let ranks: Vec<Vec<usize>> = (1..=drafts).map(|depth| vec![0; depth]).collect();
        let fixed = FixedTree::new(TreeShape::new(ranks).unwrap()).build(ROOT, &mut Script::new(distribution)).unwrap();
        prop_assert_eq!(drafted, fixed);
    }
}

#[test]
fn wrong_dynamic_trees_are_caught() {
    let (total, depth, top_k) = (12, 3, 3);
    let distributions = (0..20).map(|seed| NextTokens { seed, vocabulary: 6, steps: 1 << 40 });
    let bugs = [
        Bug::RanksByConditional,
        Bug::ExpandsWholeLevels,
        Bug::OneExpansionTooFew,
        Bug::TotalWithoutRoot,
        Bug::ReranksLastLevelOnly,
    ];
    let check = |distribution, bug| {
        check_dynamic(distribution, total, depth, top_k, &naive_dynamic(distribution, total, depth, top_k, bug))
    };
    assert!(distributions.clone().all(|distribution| check(distribution, Bug::None).is_ok()));
    for bug in bugs {
        assert!(distributions.clone().any(|distribution| check(distribution, bug).is_err()), "{bug:?} goes unnoticed");
    }
}

#[test]
fn a_fixed_tree_that_closes_gaps_between_ranks_is_caught() {
    let distribution = NextTokens { seed: 1, vocabulary: 5, steps: 1 << 40 };
    let shape = TreeShape::from_json("[[0], [2], [2, 1]]").unwrap();
    let built = |shape| kept_paths(&FixedTree::new(shape).build(ROOT, &mut Script::new(distribution)).unwrap());
    assert_eq!(built(shape.clone()), paths_by_rank(distribution, &shape));
    let closed = TreeShape::from_json("[[0], [1], [1, 0]]").unwrap();
    assert_ne!(built(closed), paths_by_rank(distribution, &shape));
}

/// Probabilities of a hand-made drafter: root -> 5 (0.6), 6 (0.4); 5 -> 7 (0.5), 8 (0.3); 6 -> 9 (0.9), 7 (0.1); all
/// else -> 1 (1.0).
struct ByHand;

impl CandidateSource for ByHand {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let row = |(&node, &width): (&usize, &usize)| {
            let row = match tokens_on_path(tree, node)[1..] {
                [] => vec![candidate(5, 0.6), candidate(6, 0.4)],
                [5] => vec![candidate(7, 0.5), candidate(8, 0.3)],
                [6] => vec![candidate(9, 0.9), candidate(7, 0.1)],
                _ => vec![candidate(1, 1.0)],
            };
            row.into_iter().take(width)
        };
        Ok(nodes.iter().zip(widths).map(row).collect())
    }
}

#[test]
fn a_dynamic_tree_by_hand() {
    // Values: 5 .6, 6 .4, 5-7 .3, 5-8 .18, 6-9 .36, 6-7 .04. Expanded next: 6-9, then 5-7; each child is worth the
    // same.
    let kept = |total| kept_paths(&DynamicTree::new(total, 2, 2).unwrap().build(ROOT, &mut ByHand).unwrap());
    let paths = |paths: &[&[Token]]| paths.iter().map(|path| [&[ROOT], *path].concat()).collect::<Vec<_>>();
    assert_eq!(kept(4), paths(&[&[5], &[6], &[6, 9]]), "a tie between 6-9 and its child goes to the earlier");
    assert_eq!(kept(6), paths(&[&[5], &[6], &[5, 7], &[6, 9], &[6, 9, 1]]));
    assert_eq!(kept(7), paths(&[&[5], &[6], &[5, 7], &[6, 9], &[6, 9, 1], &[5, 7, 1]]));
    assert_eq!(kept(100).len(), 8, "no more than exist");
    assert!(kept(1).is_empty());
    let shallow = DynamicTree::new(100, 0, 2).unwrap().build(ROOT, &mut ByHand).unwrap();
    assert_eq!(kept_paths(&shallow), paths(&[&[5], &[6]]), "depth 0 is the first level alone");
}

#[test]
fn equal_children_are_ranked_by_token() {
    let mut source = Fixed(Ok(vec![vec![candidate(9, 0.25), candidate(3, 0.25), candidate(4, 0.5)]]));
    let drafted = DynamicTree::new(3, 0, 3).unwrap().build(ROOT, &mut source).unwrap();
    assert_eq!(drafted.tree().tokens(), [ROOT, 4, 3]);
}

#[test]
fn each_level_is_one_call() {
    let distribution = NextTokens { seed: 3, vocabulary: 5, steps: 1 << 40 };
    let mut script = Script::new(distribution);
    FixedTree::new(TreeShape::from_json("[[0], [2], [0, 1], [2, 0], [2, 0, 3]]").unwrap())
        .build(ROOT, &mut script)
        .unwrap();
    let expected = [(vec![0], vec![3]), (vec![1, 2], vec![2, 1]), (vec![4], vec![4])];
    assert_eq!(script.calls, expected, "nodes with children only, as wide as the greatest rank needs");
    let mut script = Script::new(distribution);
    DynamicTree::new(30, 3, 4).unwrap().build(ROOT, &mut script).unwrap();
    assert_eq!(script.calls.len(), 4);
    assert!(script.calls[1..].iter().all(|(nodes, widths)| nodes.len() == 4 && widths == &[4; 4]));
}

#[test]
fn untrusted_probabilities_are_moved_into_range() {
    let wild = [f64::NAN, f64::INFINITY, -3.0, 0.5, f64::NEG_INFINITY, 2.0];
    let row: Vec<Candidate> = (0..).zip(wild).map(|(token, probability)| candidate(token, probability)).collect();
    let mut source = Fixed(Ok(vec![row.clone()]));
    let flat = TreeShape::new((0..6).map(|rank| vec![rank]).collect()).unwrap();
    let drafted = FixedTree::new(flat).build(ROOT, &mut source).unwrap();
    assert_eq!(drafted.probabilities(), [1.0, 0.0, 1.0, 0.0, 0.5, 0.0, 1.0]);
    let drafted = DynamicTree::new(5, 0, 6).unwrap().build(ROOT, &mut source).unwrap();
    assert_eq!(drafted.tree().tokens(), [ROOT, 1, 5, 3, 0]);
}

#[test]
fn a_drafter_that_answers_too_much_is_cut() {
    let mut source = Fixed(Ok(vec![(0..9).map(|token| candidate(token, 0.1)).collect()]));
    assert_eq!(ChainTree::new(3).unwrap().build(ROOT, &mut source).unwrap().tree().tokens(), [ROOT, 0, 0, 0]);
    assert_eq!(DynamicTree::new(9, 0, 2).unwrap().build(ROOT, &mut source).unwrap().tree().len(), 3);
}

#[test]
fn failures_of_the_drafter_come_through() {
    let builders: [&dyn TreeBuilder; 3] = [
        &ChainTree::new(2).unwrap(),
        &FixedTree::new(TreeShape::from_json("[[0]]").unwrap()),
        &DynamicTree::new(4, 1, 2).unwrap(),
    ];
    for builder in builders {
        let error = builder.build(ROOT, &mut Fixed(Err("out of memory".to_owned()))).unwrap_err();
        assert!(matches!(&error, BuildError::Source(source) if source.to_string() == "out of memory"), "{error}");
        let error = builder.build(ROOT, &mut Fixed(Ok(vec![Vec::new(); 3]))).unwrap_err();
        assert!(matches!(error, BuildError::RowCount { asked: 1, answered: 3 }), "{error}");
        assert_eq!(builder.build(ROOT, &mut Fixed(Ok(vec![Vec::new()]))).unwrap().tree().len(), 1, "nothing is fine");
    }
}
