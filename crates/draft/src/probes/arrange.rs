//! Which candidates of a grown tree carry how many probes.
//!
//! With `a(u)` the probability that the path to `u` is accepted and `b(u) = a(u) - Σ a(children of u)`, which is how
//! probable it is that `u` is the last accepted one, the `k`-th probe behind `u` is worth `b(u) · g_k`: `g_k` is what the
//! `k`-th place adds to the next step. A candidate is worth `a(u)`, and carries at least one probe where rows are short.
//! The most valuable of both are taken until all rows are used, so the tree depends on how many probes the last accepted
//! candidate carried.

use gorgon_core::PooledVec;
use gorgon_core::tree::{Candidate, DraftTree, NodeInput};

/// How probes are placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrangement<'a> {
    /// `g_k` by place, each at most 1 and none greater than the one before.
    pub gains: &'a [f64],
    /// Members of an ensemble: rows of a probe.
    pub members: usize,
    /// Rows in all, the root included; the probes behind the root come first.
    pub rows: usize,
    /// If true, candidates count among the rows and may be left out. If false, all stay, and `rows` bounds the probes.
    pub drops: bool,
}

/// The worth of each of `places` places: the expected number of accepted drafts at its depth, as the grown tree has it.
/// Deeper than the tree, values fall on as they did last. All are 1 where nothing is drafted.
pub fn gains(grown: &DraftTree, places: usize) -> PooledVec<f64> {
    let (tree, values) = (grown.tree(), values(grown));
    let mut gains = PooledVec::of(0.0, places);
    for (node, value) in values.iter().enumerate().skip(1) {
        if let Some(gain) = gains.get_mut(tree.depths()[node] - 1) {
            *gain += value;
        }
    }
    let depth = if tree.len() > 1 { tree.max_depth() } else { 0 };
    let before = |gains: &[f64], place: usize| place.checked_sub(1).map_or(1.0, |above| gains[above]);
    let mut fall = 1.0;
    for place in 0..places {
        let above = before(&gains, place);
        if place < depth {
            fall = if above > 0.0 { (gains[place] / above).min(1.0) } else { 0.0 };
        }
        gains[place] = above * fall;
    }
    gains
}

/// The grown tree with probes: behind each node that stays, member by member, one chain for each of its members.
/// `input` names the embedding of a place's member, both from 0.
pub fn arranged(grown: &DraftTree, how: &Arrangement<'_>, input: impl Fn(usize, usize) -> NodeInput) -> DraftTree {
    let (tree, kept) = (grown.tree(), Kept::of(grown, how));
    let mut result = DraftTree::root(tree.token(0));
    let mut numbers = PooledVec::of(0, tree.len());
    for node in (0..tree.len()).filter(|&node| kept.stays[node]) {
        if let Some(parent) = tree.parent(node) {
            let candidate = Candidate { token: tree.token(node), probability: grown.probabilities()[node] };
            numbers[node] = result.push(numbers[parent], candidate);
        }
        for member in 0..how.members {
            (0..kept.places[node]).fold(numbers[node], |above, place| result.push_probe(above, input(place, member)));
        }
    }
    result
}

/// Kept nodes and probes, by node.
struct Kept {
    stays: PooledVec<bool>,
    /// Places that are probed behind it.
    places: PooledVec<usize>,
}

impl Kept {
    fn of(grown: &DraftTree, how: &Arrangement<'_>) -> Self {
        let tree = grown.tree();
        let mut kept = Self { stays: PooledVec::of(!how.drops, tree.len()), places: PooledVec::of(0, tree.len()) };
        let mut left = how.rows.saturating_sub(usize::from(how.drops));
        kept.stays[0] = true;
        kept.places[0] = how.gains.len().min(left / how.members.max(1));
        left -= kept.places[0] * how.members;
        // The last accepted candidate's probes are all that the next step is drafted from, so each has one as long as
        // there are rows for it.
        let first = how.gains.len().min(1);
        let items = items(grown, how);
        for (least, &item) in [first, 0].iter().flat_map(|&least| items.iter().map(move |item| (least, item))) {
            let (node, place) = (item / (how.gains.len() + 1), item % (how.gains.len() + 1));
            let (fits, cost) = match place {
                0 => (how.drops && !kept.stays[node] && kept.stays[tree.parents()[node]], 1 + least * how.members),
                _ => (kept.stays[node] && kept.places[node] + 1 == place, how.members),
            };
            if fits && cost <= left {
                left -= cost;
                (kept.stays[node], kept.places[node]) = (true, if place == 0 { least } else { place });
            }
        }
        kept
    }
}

/// Everything beside the root and its probes, most valuable first; of equals the one that others need comes first. Item
/// `node · (n + 1) + place` is the probe of a place, counted from 1, behind a node, or with place 0 the node itself.
fn items(grown: &DraftTree, how: &Arrangement<'_>) -> PooledVec<usize> {
    let (tree, values, each) = (grown.tree(), values(grown), how.gains.len() + 1);
    let mut last: PooledVec<f64> = values.iter().copied().collect();
    (1..tree.len()).for_each(|node| last[tree.parents()[node]] -= values[node]);
    let value = |item: usize| match (item / each, item % each) {
        (node, 0) => values[node],
        (node, place) => last[node].max(0.0) * how.gains[place - 1],
    };
    let mut items: PooledVec<usize> = (each..tree.len() * each).collect();
    let order = |item: &usize| (!item.is_multiple_of(each), *item);
    items.sort_unstable_by(|a, b| value(*b).total_cmp(&value(*a)).then_with(|| order(a).cmp(&order(b))));
    items
}

/// The probability of each node's path.
fn values(grown: &DraftTree) -> PooledVec<f64> {
    let tree = grown.tree();
    let mut values = PooledVec::of(1.0, tree.len());
    for node in 1..tree.len() {
        values[node] = values[tree.parents()[node]] * grown.probabilities()[node].clamp(0.0, 1.0);
    }
    values
}

#[cfg(test)]
mod tests;
