//! Trees and analysis against reference outputs, where these are at hand.

use crate::shared;

use std::{collections::BTreeMap, fs};

use gorgon_core::{
    Token, stats,
    tree::{
        Candidate, CandidateRows, CandidateSource, DynamicTree, PublishedTree, RankPath, SourceError, TokenTree,
        TreeBuilder, TreeShape,
        calibrated::{HeadAccuracies, calibrate, expected_accepted},
        sequoia::{SequoiaTable, expected_tokens},
    },
};
use serde::Deserialize;

/// Reads a JSON fixture; `None` (and a line on stderr) if it is not at hand.
fn fixture<T: serde::de::DeserializeOwned>(rel: &str, test: &str) -> Option<T> {
    let path = shared::shared(&format!("fixtures/{rel}"), test)?;
    Some(serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
}

#[derive(Deserialize)]
struct Cases<T> {
    cases: Vec<T>,
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs()).max(1.0)
}

/// The ancestor relation by rows: '1' where a node sees another, which is itself or an ancestor.
fn mask_rows(tree: &TokenTree) -> Vec<String> {
    let row = |node| {
        let path = tree.path(node);
        (0..tree.len()).map(|other| if path.contains(&other) { '1' } else { '0' }).collect()
    };
    (0..tree.len()).map(row).collect()
}

#[derive(Deserialize)]
struct Buffers {
    top_k: usize,
    cases: BTreeMap<String, BufferCase>,
}

#[derive(Deserialize)]
struct BufferCase {
    choices: Vec<RankPath>,
    attn_mask: Vec<String>,
    tree_indices: Vec<usize>,
    position_ids: Vec<usize>,
    retrieve_indices: Vec<Vec<i64>>,
}

#[test]
fn medusa_buffers_equal_the_reference() {
    let Some(fixture) = fixture::<Buffers>("medusa/tree_buffers.json", "medusa_buffers_equal_the_reference") else {
        return;
    };
    for (name, case) in &fixture.cases {
        let shape = TreeShape::new(case.choices.clone()).unwrap();
        let tree = TokenTree::from_parts(vec![0; shape.len()], shape.parents().to_vec()).unwrap();
        assert_eq!(mask_rows(&tree), case.attn_mask, "{name}");
        // An index into the base token followed by the top k tokens of head 0, of head 1, and so on.
        let index = |path: &RankPath| 1 + fixture.top_k * (path.len() - 1) + path[path.len() - 1];
        let indices: Vec<usize> = std::iter::once(0).chain(shape.paths().iter().map(index)).collect();
        assert_eq!(indices, case.tree_indices, "{name}");
        assert_eq!(tree.depths(), case.position_ids, "{name}");
        // The reference lists the last leaf first and pads with -1.
        let padded = |path: Vec<usize>| {
            let nodes = path.into_iter().map(|node| node as i64);
            nodes.chain(std::iter::repeat(-1)).take(shape.max_depth() + 1).collect()
        };
        let rows: Vec<Vec<i64>> = tree.leaf_paths().into_iter().rev().map(padded).collect();
        assert_eq!(rows, case.retrieve_indices, "{name}");
    }
}

#[test]
fn published_trees_equal_the_reference() {
    let Some(fixture) = fixture::<Buffers>("medusa/tree_buffers.json", "published_trees_equal_the_reference") else {
        return;
    };
    let published = PublishedTree::ALL.into_iter().filter_map(|tree| Some((tree, fixture.cases.get(tree.name())?)));
    let same = published.map(|(tree, case)| {
        assert_eq!(tree.shape(), &TreeShape::new(case.choices.clone()).unwrap(), "{tree}");
    });
    assert_eq!(same.count(), 3, "three published trees are in the fixture");
}

#[derive(Deserialize)]
struct GreedyCase {
    id: String,
    accuracies: HeadAccuracies,
    budget_nodes_with_root: usize,
    insertion_order: Vec<RankPath>,
    expected_accepted_drafts: f64,
    expected_tokens_per_step: f64,
}

#[test]
fn calibrated_trees_equal_the_reference() {
    let rel = "trees/greedy_accuracy.json";
    let Some(fixture) = fixture::<Cases<GreedyCase>>(rel, "calibrated_trees_equal_the_reference") else { return };
    for case in fixture.cases {
        let calibration = calibrate(&case.accuracies, case.budget_nodes_with_root).unwrap();
        assert_eq!(calibration.order, case.insertion_order, "{}", case.id);
        assert!(close(calibration.expected_accepted, case.expected_accepted_drafts), "{}", case.id);
        assert!(close(1.0 + calibration.expected_accepted, case.expected_tokens_per_step), "{}", case.id);
        let listed = TreeShape::new(case.insertion_order).unwrap();
        assert_eq!(expected_accepted(&listed, &case.accuracies).unwrap(), calibration.expected_accepted);
    }
}

#[derive(Deserialize)]
struct TableCase {
    id: usize,
    positional_acceptance: Vec<f64>,
    max_nodes: usize,
    max_levels: usize,
    expected_tokens_table: Vec<Vec<Option<f64>>>,
    trees: Vec<OptimalTree>,
    hardware_aware: Machine,
}

#[derive(Deserialize)]
struct OptimalTree {
    nodes_with_root: usize,
    max_levels_with_root: usize,
    expected_tokens: f64,
    one_optimal_tree: Vec<RankPath>,
}

#[derive(Deserialize)]
struct Machine {
    verify_time_by_nodes: Vec<f64>,
    draft_time_per_level: f64,
    best_levels_with_root: usize,
    best_nodes_with_root: usize,
    best_tokens_per_time: f64,
}

#[test]
fn sequoia_tables_equal_the_reference() {
    let Some(fixture) = fixture::<Cases<TableCase>>("trees/dp_trees.json", "sequoia_tables_equal_the_reference") else {
        return;
    };
    for case in fixture.cases {
        let table = SequoiaTable::new(&case.positional_acceptance, case.max_nodes, case.max_levels).unwrap();
        for (levels, row) in (1..).zip(&case.expected_tokens_table) {
            for (nodes, &expected) in (1..).zip(row) {
                match (table.expected_tokens(nodes, levels), expected) {
                    (Some(tokens), Some(expected)) => assert!(close(tokens, expected), "T({nodes}, {levels})"),
                    (tokens, expected) => assert_eq!(tokens, expected, "T({nodes}, {levels}) of case {}", case.id),
                }
            }
        }
        for tree in &case.trees {
            let shape = table.shape(tree.nodes_with_root, tree.max_levels_with_root).unwrap();
            assert!(close(expected_tokens(&shape, &case.positional_acceptance).unwrap(), tree.expected_tokens));
            let listed = TreeShape::new(tree.one_optimal_tree.clone()).unwrap();
            assert!(close(expected_tokens(&listed, &case.positional_acceptance).unwrap(), tree.expected_tokens));
            assert_eq!((shape.len(), listed.len()), (tree.nodes_with_root, tree.nodes_with_root));
        }
        let machine = &case.hardware_aware;
        let choice = table.choose(&machine.verify_time_by_nodes, machine.draft_time_per_level).unwrap();
        assert_eq!(choice.nodes, machine.best_nodes_with_root, "case {}", case.id);
        assert_eq!(choice.levels, machine.best_levels_with_root, "case {}", case.id);
        assert!(close(choice.speedup / machine.verify_time_by_nodes[0], machine.best_tokens_per_time));
    }
}

#[derive(Deserialize)]
struct ChainCase {
    alpha: f64,
    gamma: usize,
    expected_tokens: f64,
}

#[test]
fn expected_tokens_equal_the_reference() {
    let rel = "sampling/chain_expectation.json";
    let Some(fixture) = fixture::<Cases<ChainCase>>(rel, "expected_tokens_equal_the_reference") else { return };
    for ChainCase { alpha, gamma, expected_tokens } in fixture.cases {
        assert!(close(stats::expected_tokens(alpha, gamma).unwrap(), expected_tokens), "α = {alpha}, γ = {gamma}");
    }
}

#[derive(Deserialize)]
struct DraftTrees {
    trees: Vec<DynamicCase>,
}

#[derive(Deserialize)]
struct DynamicCase {
    total_tokens: usize,
    depth: usize,
    top_k: usize,
    sampled_token: Token,
    sorted_retrieve: bool,
    draft_tokens: Vec<Token>,
    tree_mask: Vec<String>,
    position_ids: Vec<usize>,
    retrieve_indices: Vec<Vec<i64>>,
}

impl DynamicCase {
    /// The tree, with parents read off the mask: the last node seen besides the node itself.
    fn tree(&self) -> TokenTree {
        let parent = |(node, row): (usize, &String)| row[..node].rfind('1').unwrap_or(0);
        TokenTree::from_parts(self.draft_tokens.clone(), self.tree_mask.iter().enumerate().map(parent).collect())
            .unwrap()
    }

    /// The nodes of one level that must be worth most: those with children, in the order of their children, each
    /// after its earlier siblings; then the others.
    fn by_value(&self, tree: &TokenTree, depth: usize) -> Vec<usize> {
        let level: Vec<usize> = (0..tree.len()).filter(|&node| tree.depths()[node] == depth).collect();
        let mut inner: Vec<usize> = level.iter().copied().filter(|&node| tree.children(node).count() > 0).collect();
        inner.sort_by_key(|&node| tree.children(node).next());
        let mut order: Vec<usize> = Vec::new();
        for node in
            inner.into_iter().flat_map(|node| tree.siblings(node).filter(move |&other| other < node).chain([node]))
        {
            if !order.contains(&node) {
                order.push(node);
            }
        }
        order.extend(level.into_iter().filter(|node| !order.contains(node)).collect::<Vec<_>>());
        order
    }
}

/// A drafter that makes the nodes of a known tree worth `exp(-0.1·rank)`, and offers worthless tokens besides.
struct Replay {
    tree: TokenTree,
    /// Log values by node of `tree`.
    values: Vec<f64>,
}

impl CandidateSource for Replay {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let known = &self.tree;
        let row = |(&node, &width): (&usize, &usize)| {
            let steps: Vec<Token> = tree.path(node)[1..].iter().map(|&at| tree.token(at)).collect();
            let follow = |at, &token: &Token| known.children(at).find(|&child| known.token(child) == token);
            let mut row = Vec::new();
            if let Some(at) = steps.iter().try_fold(0, follow) {
                let worth = |child: usize| (self.values[child] - self.values[at]).exp();
                row.extend(
                    known.children(at).map(|child| Candidate { token: known.token(child), probability: worth(child) }),
                );
            }
            row.extend((100_000..).map(|token| Candidate { token, probability: 1e-30 }).take(width));
            row.truncate(width);
            row
        };
        Ok(nodes.iter().zip(widths).map(row).collect())
    }
}

#[test]
fn dynamic_trees_are_arranged_as_in_the_reference() {
    let rel = "eagle/eagle1_llama_mha/expected.json";
    let Some(fixture) = fixture::<DraftTrees>(rel, "dynamic_trees_are_arranged_as_in_the_reference") else { return };
    for case in fixture.trees {
        let tree = case.tree();
        assert_eq!(mask_rows(&tree), case.tree_mask);
        let mut values = vec![0.0; tree.len()];
        let order = (1..=tree.max_depth()).flat_map(|depth| case.by_value(&tree, depth));
        (1..).zip(order).for_each(|(rank, node)| values[node] = -0.1 * f64::from(rank));
        let builder = DynamicTree::new(case.total_tokens, case.depth, case.top_k).unwrap();
        assert!(tree.len() <= builder.max_nodes() && tree.max_depth() <= builder.max_depth());
        let mut replay = Replay { tree: tree.clone(), values };
        let drafted = builder.build(case.sampled_token, &mut replay).unwrap();
        assert_eq!(drafted.tree(), &tree, "the same nodes in the same order");
        assert!(drafted.tree().positions(0).eq(case.position_ids.iter().copied()));
        let mut paths = drafted.tree().leaf_paths();
        if case.sorted_retrieve {
            let width = case.retrieve_indices[0].len();
            paths.sort_by_key(|path| path.iter().copied().chain([usize::MAX; 16]).take(width).collect::<Vec<_>>());
        }
        let listed = case.retrieve_indices.iter().map(|row| row.iter().filter_map(|&node| usize::try_from(node).ok()));
        assert_eq!(paths, listed.map(Iterator::collect).collect::<Vec<Vec<_>>>());
    }
}
