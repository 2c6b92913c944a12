//! Time to build a tree from rows that are there: `cargo bench -p gorgon-core --bench trellis`, a JSON row for each tree.
//!
//! Rows depend on the depth alone, as Medusa's do; candidate `r` after depth `d` has a share of about `0.6 · 0.4^r`, less
//! with the depth. Copies of rows are counted, since every drafter hands over copies. Medians of 2,000 trees.

use gorgon_core::tree::{
    Candidate, CandidateRows, CandidateSource, DynamicTree, SourceError, TokenTree, TreeBuilder, TrellisTree,
};
use serde_json::json;
use std::time::Instant;

const TREES: usize = 2000;
const DEPTH: usize = 8;

struct Rows(Vec<Vec<Candidate>>);

impl Rows {
    fn of(width: u32) -> Self {
        let share = |depth: usize, rank: u32| 0.6 * 0.9f64.powi(depth as i32) * 0.4f64.powi(rank as i32);
        let row = |depth| (0..width).map(|rank| Candidate { token: rank, probability: share(depth, rank) }).collect();
        Self((0..=DEPTH).map(row).collect())
    }
}

impl CandidateSource for Rows {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        let row = |(&node, &width): (&usize, &usize)| self.0[tree.depths()[node]].iter().take(width).copied().collect();
        Ok(nodes.iter().zip(widths).map(|each| -> Vec<Candidate> { row(each) }).collect())
    }
}

fn main() {
    let mut rows = Rows::of(16);
    for nodes in [6, 16, 60] {
        let trellis = TrellisTree::new(nodes, DEPTH).expect("a size that is allowed");
        let costs = trellis.clone().with_costs(|n| 1.0 + 0.02 * n as f64);
        let dynamic = DynamicTree::new(nodes, DEPTH, 10).expect("a size that is allowed");
        let trees: [(&str, &dyn TreeBuilder); 3] =
            [("trellis", &trellis), ("trellis, nodes by step times", &costs), ("dynamic", &dynamic)];
        for (name, tree) in trees {
            let (microseconds, built) = median(tree, &mut rows);
            println!("{}", json!({"tree": name, "nodes": nodes, "built": built, "microseconds": microseconds}));
        }
    }
}

fn median(builder: &dyn TreeBuilder, rows: &mut Rows) -> (f64, usize) {
    let mut built = 0;
    let mut times: Vec<f64> = (0..TREES)
        .map(|_| {
            let started = Instant::now();
            built = builder.build(1, rows).expect("rows are there").tree().len();
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[TREES / 2], built)
}
