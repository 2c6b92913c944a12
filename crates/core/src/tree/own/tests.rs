//! Tests of `own`.

use super::*;
use crate::Token;
use crate::tree::{
    Candidate, CandidateRows, CandidateSource, DraftTree, SourceError, TokenTree, TreeBuilder, TreeKind,
};

/// Four candidates after every path, with probabilities that depend on the path; counts its calls.
struct Hashed {
    seed: u64,
    /// Probabilities are multiples of 1/`steps`: ties are common when it is small.
    steps: u64,
    calls: usize,
}

impl Hashed {
    fn after(&self, path: &[Token]) -> Vec<Candidate> {
        let hash = |token: Token| {
            path.iter().chain([&token]).fold(self.seed, |state, &word| {
                let state = (state ^ u64::from(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
                let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                state ^ (state >> 29)
            })
        };
        let probability = |token| (hash(token) % self.steps + 1) as f64 / self.steps as f64;
        (0..4).map(|token| Candidate { token, probability: probability(token) }).collect()
    }
}

impl CandidateSource for Hashed {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        self.calls += 1;
        assert!(nodes.iter().all(|&node| tree.depths()[node] == tree.depths()[nodes[0]]), "one level per call");
        let row = |(&node, &width): (&usize, &usize)| self.after(&tokens(tree, node)).into_iter().take(width);
        Ok(nodes.iter().zip(widths).map(row).collect())
    }
}

fn tokens(tree: &TokenTree, node: usize) -> Vec<Token> {
    tree.path(node)[1..].iter().map(|&at| tree.token(at)).collect()
}

/// Best-first search as it is stated: the most probable open path joins the tree until the budget is spent.
fn best_first(source: &Hashed, nodes: usize, depth: usize) -> Vec<Vec<Token>> {
    let (mut taken, mut open) = (Vec::new(), vec![(0.0_f64, Vec::new())]);
    while taken.len() < nodes && !open.is_empty() {
        let best = (0..open.len()).reduce(|a, b| if open[b].0 > open[a].0 { b } else { a }).unwrap();
        let (value, path): (f64, Vec<Token>) = open.remove(best);
        let children = source.after(&path).into_iter().filter(|_| path.len() < depth);
        open.extend(children.map(|child| (value + child.probability.ln(), [&path[..], &[child.token]].concat())));
        taken.push(path);
    }
    taken.sort();
    taken
}

fn built(own: OwnTree, source: &mut Hashed) -> DraftTree {
    own.build(77, source).unwrap()
}

#[test]
fn a_plain_source_grows_best_first() {
    for (seed, (nodes, depth)) in (0..).zip([(1, 3), (2, 3), (5, 1), (9, 2), (16, 4), (40, 3), (400, 3), (20, 9)]) {
        let own = OwnTree::new(nodes, depth).unwrap();
        let mut source = Hashed { seed, steps: 1 << 40, calls: 0 };
        let drafted = built(own, &mut source);
        let mut paths: Vec<Vec<Token>> = (0..drafted.tree().len()).map(|node| tokens(drafted.tree(), node)).collect();
        paths.sort();
        // A row holds its first candidates only, so narrow budgets see fewer of them.
        if nodes > depth + 4 {
            assert_eq!(paths, best_first(&source, nodes, depth), "own:{nodes},{depth}");
        }
        assert!(drafted.tree().len() <= own.max_nodes() && drafted.tree().max_depth() <= own.max_depth());
        assert!(source.calls <= own.max_depth(), "one call per level");
    }
}

#[test]
fn ties_go_to_the_node_drafted_earlier() {
    let mut source = Hashed { seed: 1, steps: 1, calls: 0 };
    let drafted = built(OwnTree::new(7, 3).unwrap(), &mut source);
    let paths: Vec<Vec<Token>> = (1..7).map(|node| tokens(drafted.tree(), node)).collect();
    assert_eq!(paths, [vec![0], vec![1], vec![2], vec![3], vec![0, 0], vec![0, 1]]);
}

#[test]
fn the_budget_is_what_is_known_of_it() {
    let own = OwnTree::new(24, 5).unwrap();
    assert_eq!((own.max_nodes(), own.max_depth(), own.ranks_at(0)), (24, 5, None));
    assert_eq!(own.kind(), TreeKind::Own(own));
    assert!(own.kind().shape().is_none() && own.kind().as_dynamic().is_none() && !own.takes_in_order());
    assert_eq!(OwnTree::new(3, 5).unwrap().max_depth(), 2, "a chain of two drafts is the deepest of three nodes");
    assert_eq!(OwnTree::new(0, 1), Err(OwnError::Nodes(0)));
    assert_eq!(OwnTree::new(MAX_NODES + 1, 1), Err(OwnError::Nodes(MAX_NODES + 1)));
    assert_eq!(OwnTree::new(8, MAX_DEPTH + 1), Err(OwnError::Depth(MAX_DEPTH + 1)));
}
