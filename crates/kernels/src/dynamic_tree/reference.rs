//! The definitions of a growing tree's decisions.

use super::Growth;

/// The value of what is never likely: that of a candidate with probability 0 and of all below it.
pub const NEVER: f32 = -1e30;
/// How far below the greatest a logit may be before its probability is 0.
pub const DEEPEST: f32 = -87.0;

/// The top `width` tokens of a row of logits with the logarithms of their probabilities, the greatest first, the
/// lower token first on ties.
pub fn top_tokens(row: &[f32], width: usize) -> Vec<(i32, f32)> {
    let value = |i: usize| if row[i].is_nan() { f32::NEG_INFINITY } else { row[i] };
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| value(b).partial_cmp(&value(a)).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(&b)));
    let largest = value(order[0]);
    let valid = largest.is_finite() && !row.iter().any(|x| x.is_nan());
    let sum: f32 = row.iter().map(|&x| (x - largest).exp()).sum();
    let log = |i: usize| {
        let below = value(i) - largest;
        if valid && below >= DEEPEST { (below - sum.ln()).min(0.0) } else { NEVER }
    };
    let mut top: Vec<(i32, f32)> = order[..width].iter().map(|&i| (i as i32, log(i))).collect();
    top.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    top
}

/// Tokens, parents (0 for the root, else one more than the candidate) and values of all candidates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// Tokens.
    pub tokens: Vec<i32>,
    /// Parents.
    pub parents: Vec<usize>,
    /// Values.
    pub values: Vec<f32>,
}

impl Pool {
    /// Adds a level: the children of `frontier`, or of the root without one, whose rows of logits are given.
    pub fn expand(&mut self, frontier: &[usize], rows: &[&[f32]], width: usize) {
        for (slot, row) in rows.iter().enumerate() {
            let parent = frontier.get(slot).map(|&candidate| (candidate + 1, self.values[candidate]));
            let (parent, value) = parent.unwrap_or((0, 0.0));
            for (token, log) in top_tokens(row, width) {
                self.tokens.push(token);
                self.parents.push(parent);
                self.values.push(if log <= NEVER || value <= NEVER { NEVER } else { value + log });
            }
        }
    }

    /// The `count` most valuable candidates from `first` on, most valuable first, the earlier ones on ties.
    pub fn best(&self, first: usize, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (first..self.values.len()).collect();
        order.sort_by(|&a, &b| self.values[b].total_cmp(&self.values[a]).then(a.cmp(&b)));
        order.truncate(count);
        order
    }

    /// The most valuable candidates of all as a tree below `root`, in their order: its tokens and its parents.
    pub fn cut(&self, root: i32, nodes: usize) -> (Vec<i32>, Vec<usize>) {
        let mut kept = self.best(0, nodes - 1);
        kept.sort_unstable();
        let (mut numbers, mut tokens, mut parents) = (vec![0; self.values.len() + 1], vec![root], vec![0]);
        for candidate in kept {
            numbers[candidate + 1] = tokens.len();
            tokens.push(self.tokens[candidate]);
            parents.push(numbers[self.parents[candidate]]);
        }
        (tokens, parents)
    }
}

/// Grows a whole tree; `logits` says what follows a path of tokens below the root.
pub fn grow(growth: Growth, root: i32, logits: &dyn Fn(&[i32]) -> Vec<f32>) -> (Vec<i32>, Vec<usize>) {
    let (mut pool, mut frontier, mut paths) = (Pool::default(), vec![], vec![vec![]]);
    for level in 0..=growth.depth {
        let rows: Vec<Vec<f32>> = paths.iter().map(|path| logits(path)).collect();
        pool.expand(&frontier, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), growth.top_k);
        frontier = pool.best(growth.first(level), growth.top_k);
        paths = frontier.iter().map(|&candidate| path(&pool, candidate)).collect();
    }
    pool.cut(root, growth.nodes)
}

/// The tokens on the way to a candidate.
fn path(pool: &Pool, candidate: usize) -> Vec<i32> {
    let (mut path, mut at) = (vec![], candidate + 1);
    while at > 0 {
        path.insert(0, pool.tokens[at - 1]);
        at = pool.parents[at - 1];
    }
    path
}

#[cfg(test)]
pub(super) mod tests;
