//! Block and traversal verification with one bug each, written apart from the rules they imitate.

use gorgon_core::accept::{AcceptanceRule, DraftRows, RandomSource, TargetRows, Verdict};
use gorgon_core::dist::{Transform, normalise};
use gorgon_core::tree::TokenTree;
use gorgon_core::{PooledVec, Token};

use crate::accept::wrong::{Rule, row};

/// Bugs of block verification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BlockBug {
    /// Nothing: the control.
    None,
    /// `h_i = z_i/z_i`: without `1 - p_i`.
    NoRest,
    /// Stops at the first prefix that does not pass.
    StopsAtFirst,
    /// The bonus comes from `P`.
    BonusFromTarget,
    /// The bonus comes from the residual of the token rule, `max(P - q, 0)`.
    TokenResidual,
    /// `p_i` may grow beyond 1.
    UnboundedReach,
}

/// Bugs of traversal verification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TraversalBug {
    /// Nothing: the control.
    None,
    /// `p(u) <- d/d`: without `1 - p(u)`.
    NoRest,
    /// `p(u)` stays after a rejection.
    KeepsReach,
    /// The residual is not renormalised.
    UnnormalisedResidual,
    /// Without replacement: `q` keeps a rejected token.
    KeepsRejectedDraft,
    /// The residual of the token rule, `max(P - q, 0)`.
    TokenResidual,
}

fn drafted(draft: DraftRows<'_>, node: usize, transform: Transform) -> PooledVec<f64> {
    transform.apply(draft.sources()[0].rows.expect("rows").row(node).expect("a row for every node"))
}

/// `max(reach·p - q, 0)`.
fn left(reach: f64, p: &[f64], q: &[f64]) -> Vec<f64> {
    p.iter().zip(q).map(|(p, q)| (reach * p - q).max(0.0)).collect()
}

/// Block verification of a chain by its formulas, with `bug`.
pub fn block(transform: Transform, bug: BlockBug) -> Box<dyn AcceptanceRule> {
    let rule = move |tree: &TokenTree, draft: DraftRows<'_>, target: TargetRows<'_>, random: &mut dyn RandomSource| {
        let length = tree.len() - 1;
        let p: Vec<_> = (0..=length).map(|node| transform.apply(row(target, node))).collect();
        let q: Vec<_> = (0..length).map(|node| drafted(draft, node, transform)).collect();
        let (mut reach, mut accepted) = (vec![1.0], 0);
        for i in 1..=length {
            let token = tree.token(i) as usize;
            let next = reach[i - 1] * p[i - 1][token] / q[i - 1][token];
            reach.push(if bug == BlockBug::UnboundedReach { next } else { f64::min(next, 1.0) });
            let passes = if i == length {
                reach[i]
            } else {
                let z: f64 = left(reach[i], &p[i], &q[i]).iter().sum();
                let rest = if bug == BlockBug::NoRest { 0.0 } else { 1.0 - reach[i] };
                if z > 0.0 { z / (z + rest) } else { 0.0 }
            };
            if random.flip(passes) {
                accepted = i;
            } else if bug == BlockBug::StopsAtFirst {
                break;
            }
        }
        let weights = match bug {
            _ if accepted == length => p[length].to_vec(),
            BlockBug::BonusFromTarget => p[accepted].to_vec(),
            BlockBug::TokenResidual => left(1.0, &p[accepted], &q[accepted]),
            _ => left(reach[accepted], &p[accepted], &q[accepted]),
        };
        let weights = if weights.iter().sum::<f64>() > 0.0 { weights } else { p[accepted].to_vec() };
        Verdict { path: (0..=accepted).collect(), bonus: random.pick(&weights) as Token }
    };
    Box::new(Rule(rule))
}

/// A tree under traversal verification.
struct Traversed<'a> {
    tree: &'a TokenTree,
    draft: DraftRows<'a>,
    target: TargetRows<'a>,
    transform: Transform,
    bug: TraversalBug,
    without_replacement: bool,
}

/// Traversal verification of a tree whose children were drawn, with `bug`.
pub fn traversal(transform: Transform, bug: TraversalBug, without_replacement: bool) -> Box<dyn AcceptanceRule> {
    let rule = move |tree: &TokenTree, draft: DraftRows<'_>, target: TargetRows<'_>, random: &mut dyn RandomSource| {
        Traversed { tree, draft, target, transform, bug, without_replacement }.visit(0, 1.0, random).expect("the root")
    };
    Box::new(Rule(rule))
}

impl Traversed<'_> {
    fn visit(&self, node: usize, mut reach: f64, random: &mut dyn RandomSource) -> Option<Verdict> {
        let mut p = self.transform.apply(row(self.target, node));
        let children: Vec<usize> = self.tree.children(node).collect();
        let mut q = if children.is_empty() { PooledVec::new() } else { drafted(self.draft, node, self.transform) };
        for child in children {
            let token = self.tree.token(child) as usize;
            if let Some(verdict) = self.visit(child, f64::min(reach * p[token] / q[token], 1.0), random) {
                return Some(verdict);
            }
            let mut residual = left(if self.bug == TraversalBug::TokenResidual { 1.0 } else { reach }, &p, &q);
            let mass: f64 = residual.iter().sum();
            if self.bug != TraversalBug::UnnormalisedResidual {
                normalise(&mut residual);
            }
            p = residual.into();
            let rest = if self.bug == TraversalBug::NoRest { 0.0 } else { 1.0 - reach };
            if self.bug != TraversalBug::KeepsReach {
                reach = if mass > 0.0 { mass / (mass + rest) } else { 0.0 };
            }
            if self.without_replacement && self.bug != TraversalBug::KeepsRejectedDraft {
                q[token] = 0.0;
                normalise(&mut q);
            }
        }
        let is_accepted = node == 0 || random.flip(reach);
        is_accepted.then(|| Verdict { path: self.tree.path(node), bonus: random.pick(&p) as Token })
    }
}
