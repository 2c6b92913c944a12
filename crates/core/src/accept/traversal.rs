//! Block verification, and traversal verification of trees: whole paths are tested, the deepest first.

use super::coupled::plain;
use super::rounds::Proposals;
use super::{AcceptanceRule, DraftRows, Entry, RandomSource, TargetError, TargetRows, Verdict};
use crate::{
    PooledVec, Token,
    dist::{Transform, mass, normalise, point_mass},
    tree::TokenTree,
};

/// Block verification ([Sun et al., 2024](https://arxiv.org/abs/2403.10444)) of the path of first entries.
///
/// For a path `x_1…x_γ` drawn from `q`, `p_0 = 1` and `p_i = min(p_{i-1}·P(x_i)/q(x_i), 1)`. With
/// `z_i = Σ_x max(p_i·P(x) - q(x), 0)`, the prefix of length `i < γ` passes with `h_i = z_i/(z_i + 1 - p_i)`, and
/// `h_γ = p_γ`. The longest prefix that passes is accepted, τ tokens long. The bonus is drawn from `P` if `τ = γ`, else
/// from `norm(max(p_τ·P - q, 0))`.
///
/// Lossless, and on a chain never shorter on average than [`Sampling`](super::Sampling). Tokens of a list count as
/// drawn from a point mass. Other children of a tree are not read: [`Traversal`] reads them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Applied to target and draft rows before they are compared.
    pub transform: Transform,
}

/// Traversal verification ([Weng et al., 2025](https://arxiv.org/abs/2505.12398)): [`Block`] for trees.
///
/// `p(root) = 1`, and the entry `c` of `u` has `p(c) = min(p(u)·P_u(c)/q(c), 1)`. The subtree of a node's first entry is
/// tested first, down to its first leaf. A leaf `v` is accepted with `p(v)`, and the bonus drawn from `P_v`. After the
/// rejection of `c`, `d = Σ_x max(p(u)·P_u(x) - q(x), 0)`, `P_u <- max(p(u)·P_u - q, 0)/d`, `p(u) <- d/(d + 1 - p(u))`,
/// and `q` forgets `c` where samples are without replacement. When all its entries are rejected, `u` is a leaf.
///
/// Lossless: a subtree accepts its root with probability `p(u)` in all, so what a rejection leaves is the residual. On a
/// chain it is block verification. The conditions are those of [`DraftRows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traversal {
    /// Applied to target and draft rows before they are compared.
    pub transform: Transform,
}

impl AcceptanceRule for Block {
    fn is_lossless(&self) -> bool {
        true
    }

    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        Verification { tree, draft, target, transform: &self.transform, width: 1 }.run(random)
    }

    fn next(&self, _: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        Ok(plain(&self.transform, target.row(0)?, 0, random))
    }
}

impl AcceptanceRule for Traversal {
    fn is_lossless(&self) -> bool {
        true
    }

    fn accept(
        &self,
        tree: &TokenTree,
        draft: DraftRows<'_>,
        target: TargetRows<'_>,
        random: &mut dyn RandomSource,
    ) -> Result<Verdict, TargetError> {
        Verification { tree, draft, target, transform: &self.transform, width: usize::MAX }.run(random)
    }

    fn next(&self, _: Token, target: TargetRows<'_>, random: &mut dyn RandomSource) -> Result<Token, TargetError> {
        Ok(plain(&self.transform, target.row(0)?, 0, random))
    }
}

/// One verified tree.
struct Verification<'a> {
    tree: &'a TokenTree,
    draft: DraftRows<'a>,
    target: TargetRows<'a>,
    transform: &'a Transform,
    /// Entries of a node that are tested.
    width: usize,
}

/// A node under test.
struct Tested {
    /// `p(u)`: with what probability the rest of its subtree accepts it.
    reach: f64,
    /// `P_u`, unnormalised after a rejection whose residual is empty.
    target: PooledVec<f64>,
}

impl Verification<'_> {
    fn run(&self, random: &mut dyn RandomSource) -> Result<Verdict, TargetError> {
        let mut tested = PooledVec::of(false, self.tree.len());
        let found = self.visit(0, 1.0, &mut tested, random)?;
        // The root is reached with certainty, so there always is a verdict.
        let (node, bonus) = found.ok_or(TargetError::Missing { node: 0 })?;
        Ok(Verdict { path: self.tree.path(node), bonus })
    }

    /// Tests the subtree of `node`, which is to be accepted with probability `reach`: the last accepted node and the
    /// bonus, or nothing.
    fn visit(
        &self,
        node: usize,
        reach: f64,
        tested: &mut [bool],
        random: &mut dyn RandomSource,
    ) -> Result<Option<(usize, Token)>, TargetError> {
        let row = self.target.row(node)?;
        let mut here = Tested { reach, target: self.transform.apply(row) };
        let mut proposals = Proposals::at(self.draft, node, self.transform);
        // A sample that repeats an entry finds its subtree used up. What a broken row says is not compared either.
        let is_leaf = std::mem::replace(&mut tested[node], true) || !row.is_valid();
        let entries = self.draft.entries_at(self.tree, node).take(if is_leaf { 0 } else { self.width });
        for Entry { child, source } in entries {
            let token = self.tree.token(child);
            let point =
                proposals.drawn_with(source, token).is_none().then(|| point_mass(here.target.len(), token as usize));
            let q = point.as_ref().map_or_else(|| proposals.q(source), |point| &point[..]);
            let drawn_with = if point.is_some() { 1.0 } else { mass(q, token) };
            let child_reach = (here.reach * mass(&here.target, token) / drawn_with).min(1.0);
            if child_reach > 0.0
                && let Some(found) = self.visit(child, child_reach, tested, random)?
            {
                return Ok(Some(found));
            }
            here.reject(q, node == 0);
            if point.is_none() {
                proposals.reject(source, token);
            }
        }
        let is_accepted = random.flip(here.reach);
        Ok(is_accepted.then(|| (node, random.pick(&here.target) as Token)))
    }
}

impl Tested {
    /// The residual after the rejection of an entry drawn from `q`.
    fn reject(&mut self, q: &[f64], is_root: bool) {
        let reach = self.reach;
        let q = q.iter().copied().chain(std::iter::repeat(0.0));
        let mut left: PooledVec<f64> = self.target.iter().zip(q).map(|(&p, q)| (reach * p - q).max(0.0)).collect();
        let mass: f64 = left.iter().sum();
        if normalise(&mut left) {
            self.target = left;
        } else if is_root {
            return; // that branch has the probability of a rounding error, and P stays as it was
        }
        self.reach = if is_root { 1.0 } else { mass / (mass + 1.0 - reach) };
        if self.reach.is_nan() {
            self.reach = 0.0;
        }
    }
}
