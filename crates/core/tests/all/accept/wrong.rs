//! Acceptance rules with one bug each, written apart from the rules they imitate.

use gorgon_core::accept::{
    AcceptanceRule, DraftRows, RandomSource, Rows, SamplingScheme, TargetError, TargetRows, Verdict,
};
use gorgon_core::dist::{Row, Transform, argmax, mass, normalise, overlap, residual};
use gorgon_core::tree::TokenTree;
use gorgon_core::{PooledVec, Token};

/// A rule that is a function: `(tree, draft, target, random) -> verdict`.
pub struct Rule<F>(pub F);

impl<F> AcceptanceRule for Rule<F>
where
    F: Fn(&TokenTree, DraftRows<'_>, TargetRows<'_>, &mut dyn RandomSource) -> Verdict + Send + Sync,
{
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
        Ok(self.0(tree, draft, target, random))
    }
}

/// Walks down as long as `decide` names a child; else its token is the bonus.
pub fn walk(mut decide: impl FnMut(usize) -> Result<usize, usize>) -> Verdict {
    let mut path = vec![0];
    loop {
        match decide(path[path.len() - 1]) {
            Ok(child) => path.push(child),
            Err(bonus) => return Verdict { path: path.into(), bonus: bonus as Token },
        }
    }
}

pub fn row<'a>(target: TargetRows<'a>, node: usize) -> Row<'a> {
    target.row(node).expect("a row for every node")
}

/// The rows of the only source.
fn rows<'a>(draft: DraftRows<'a>) -> Option<Rows<'a>> {
    draft.sources()[0].rows
}

/// Bugs of multi-round sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SamplingBug {
    /// Nothing: the control that shows a check fails for the bug and not for the rewriting.
    None,
    /// The bonus after a rejection comes from `p` instead of the residual.
    BonusFromTarget,
    /// The residual is not renormalised between rounds.
    UnnormalisedResidual,
    /// Without replacement: `q[c]` survives the rejection of `c`.
    KeepsRejectedDraft,
    /// Without replacement: `q[c]` is zeroed, but `q` is not renormalised.
    UnnormalisedDraft,
    /// List: `p[c]` survives the rejection of `c`.
    KeepsListedToken,
    /// List: accepted like a draw from the draft row.
    ListAsDraw,
    /// The ratio is upside down.
    InvertedRatio,
    /// The draft is compared before its transform.
    UntransformedDraft,
    /// A token that the draft row gives no mass is always accepted.
    AcceptsStrays,
    /// A row with NaN in it is used for what else it holds.
    TrustsBrokenRows,
}

/// Multi-round sampling with `bug`.
pub fn sampling(transform: Transform, bug: SamplingBug) -> Box<dyn AcceptanceRule> {
    Box::new(Rule(
        move |tree: &TokenTree, draft: DraftRows<'_>, target: TargetRows<'_>, random: &mut dyn RandomSource| {
            walk(|node| {
                let mut round = Round::at(node, draft, target, transform, bug);
                for child in tree.children(node) {
                    if round.accepts(tree.token(child), random) {
                        return Ok(child);
                    }
                }
                Err(random.pick(if bug == SamplingBug::BonusFromTarget { &round.original } else { &round.p }))
            })
        },
    ))
}

/// One node of [`sampling`].
struct Round {
    original: PooledVec<f64>,
    p: PooledVec<f64>,
    q: Option<PooledVec<f64>>,
    without_replacement: bool,
    bug: SamplingBug,
}

impl Round {
    fn at(node: usize, draft: DraftRows<'_>, target: TargetRows<'_>, transform: Transform, bug: SamplingBug) -> Self {
        let p = transform.apply(row(target, node));
        let is_list = draft.scheme(0) == SamplingScheme::Deterministic && bug != SamplingBug::ListAsDraw;
        let is_usable = |row: &Row<'_>| row.is_valid() || bug == SamplingBug::TrustsBrokenRows;
        let drafted = rows(draft).filter(|_| !is_list).and_then(|rows| rows.row(node)).filter(is_usable);
        let q = drafted.map(|row| match bug {
            SamplingBug::UntransformedDraft => Transform::IDENTITY.apply(row),
            _ => transform.apply(row),
        });
        let without_replacement = draft.scheme(0) == SamplingScheme::WithoutReplacement;
        Self { original: p.clone(), p, q, without_replacement, bug }
    }

    fn accepts(&mut self, token: Token, random: &mut dyn RandomSource) -> bool {
        let token_index = token as usize;
        let drawn_with = self.q.as_ref().map_or(0.0, |q| mass(q, token));
        if drawn_with == 0.0 {
            let strays = self.q.is_some() && self.bug == SamplingBug::AcceptsStrays;
            if strays || random.flip(self.p[token_index]) {
                return true;
            }
            if self.bug != SamplingBug::KeepsListedToken {
                self.p[token_index] = 0.0;
                normalise(&mut self.p);
            }
            return false;
        }
        let ratio = self.p[token_index] / drawn_with;
        if random.flip(if self.bug == SamplingBug::InvertedRatio { ratio.recip() } else { ratio }) {
            return true;
        }
        self.reject(token_index);
        false
    }

    fn reject(&mut self, token: usize) {
        let Some(q) = &mut self.q else { return };
        if self.bug == SamplingBug::UnnormalisedResidual {
            self.p.iter_mut().zip(&*q).for_each(|(p, q)| *p = (*p - q).max(0.0));
        } else if let Some(left) = residual(&self.p, q) {
            self.p = left;
        }
        if self.without_replacement && self.bug != SamplingBug::KeepsRejectedDraft {
            q[token] = 0.0;
            if self.bug != SamplingBug::UnnormalisedDraft {
                normalise(q);
            }
        }
    }
}

/// k-SEQ with `rho` of its own: `None` is the largest, k, which is valid.
pub fn k_seq(transform: Transform, rho: Option<f64>) -> Box<dyn AcceptanceRule> {
    Box::new(Rule(
        move |tree: &TokenTree, draft: DraftRows<'_>, target: TargetRows<'_>, random: &mut dyn RandomSource| {
            walk(|node| {
                let p = transform.apply(row(target, node));
                let children: Vec<usize> = tree.children(node).collect();
                let Some(drafted) = rows(draft).filter(|_| !children.is_empty()) else { return Err(random.pick(&p)) };
                let q = transform.apply(drafted.row(node).expect("a row for every node"));
                let rho = rho.unwrap_or(children.len() as f64);
                let ratio = |child: &usize| mass(&p, tree.token(*child)) / (rho * mass(&q, tree.token(*child)));
                if let Some(child) = children.iter().find(|child| random.flip(ratio(child))) {
                    return Ok(*child);
                }
                let scaled: Vec<f64> = p.iter().map(|p| p / rho).collect();
                let beta = overlap(&scaled, &q);
                let gain = (1.0 - (1.0 - beta).powi(children.len() as i32)) / beta;
                let left = p.iter().zip(&scaled).zip(&q).map(|((p, s), q)| (p - s.min(*q) * gain).max(0.0));
                let left: Vec<f64> = left.collect();
                Err(random.pick(if left.iter().sum::<f64>() > 0.0 { &left } else { &p }))
            })
        },
    ))
}

/// Sample and match that draws the bonus anew where no child equals the first draw.
pub fn redrawing_nucleus(transform: Transform) -> Box<dyn AcceptanceRule> {
    Box::new(Rule(move |tree: &TokenTree, _: DraftRows<'_>, target: TargetRows<'_>, random: &mut dyn RandomSource| {
        walk(|node| {
            let p = transform.apply(row(target, node));
            let drawn = random.pick(&p) as Token;
            tree.children(node).find(|&child| tree.token(child) == drawn).ok_or_else(|| random.pick(&p))
        })
    }))
}

/// Sample and match as Medusa's reference does it: a separate draw for every child.
pub fn nucleus_per_child(transform: Transform) -> Box<dyn AcceptanceRule> {
    Box::new(Rule(move |tree: &TokenTree, _: DraftRows<'_>, target: TargetRows<'_>, random: &mut dyn RandomSource| {
        walk(|node| {
            let p = transform.apply(row(target, node));
            let matched = tree.children(node).find(|&child| tree.token(child) == random.pick(&p) as Token);
            matched.ok_or_else(|| random.pick(&p))
        })
    }))
}

/// Greedy acceptance that follows the first child, whatever it is.
pub fn first_child_greedy() -> Box<dyn AcceptanceRule> {
    Box::new(Rule(|tree: &TokenTree, _: DraftRows<'_>, target: TargetRows<'_>, _: &mut dyn RandomSource| {
        walk(|node| tree.children(node).next().ok_or_else(|| row(target, node).argmax()))
    }))
}

/// Greedy acceptance whose bonus is the argmax at the root instead of the path's end.
pub fn stale_bonus_greedy() -> Box<dyn AcceptanceRule> {
    Box::new(Rule(|tree: &TokenTree, _: DraftRows<'_>, target: TargetRows<'_>, _: &mut dyn RandomSource| {
        walk(|node| {
            let best = row(target, node).argmax();
            let guess = tree.children(node).find(|&child| tree.token(child) as usize == best);
            guess.ok_or_else(|| row(target, 0).argmax())
        })
    }))
}

/// Bugs of a cascade (here `token-v2`, whose threshold scaling moves).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CascadeBug {
    /// Nothing: the control.
    None,
    /// The deferral rule sees the transformed distributions.
    ScaledRule,
    /// The mixture is made of the raw distributions.
    UnscaledMixture,
    /// Accepts towards `π`, but the residual is the target's.
    ResidualOfTarget,
    /// `η` is left out of the mixture (and the rest renormalised).
    NoDeferredMass,
    /// List: accepts with `p(c)` instead of `π(c)`.
    ListAcceptsTarget,
}

/// The cascade `token-v2` with `bug`, for nodes with one child.
pub fn cascade(transform: Transform, alpha: f64, bug: CascadeBug) -> Box<dyn AcceptanceRule> {
    Box::new(Rule(
        move |tree: &TokenTree, draft: DraftRows<'_>, target: TargetRows<'_>, random: &mut dyn RandomSource| {
            walk(|node| {
                let p = transform.apply(row(target, node));
                let Some(child) = tree.children(node).next() else { return Err(random.pick(&p)) };
                let Some(drafted) = rows(draft).and_then(|rows| rows.row(node)) else { return Err(random.pick(&p)) };
                let q = transform.apply(drafted);
                let seen = if bug == CascadeBug::ScaledRule { transform } else { Transform::IDENTITY };
                let mixed = if bug == CascadeBug::UnscaledMixture { Transform::IDENTITY } else { transform };
                let aim = token_v2(
                    &seen.apply(row(target, node)),
                    &mixed.apply(row(target, node)),
                    &mixed.apply(drafted),
                    alpha,
                    bug,
                );
                let token = tree.token(child);
                let is_list = draft.scheme(0) == SamplingScheme::Deterministic;
                let chance = match is_list {
                    true if bug == CascadeBug::ListAcceptsTarget => mass(&p, token),
                    true => mass(&aim, token),
                    false => mass(&aim, token) / mass(&q, token),
                };
                if random.flip(chance) {
                    return Ok(child);
                }
                let mut point = vec![0.0; q.len()];
                point[token as usize] = 1.0;
                let aimed = if bug == CascadeBug::ResidualOfTarget { &p } else { &aim };
                let left = residual(aimed, if is_list { &point } else { &q });
                Err(random.pick(left.as_deref().unwrap_or(&aim)))
            })
        },
    ))
}

/// `π` of `token-v2`, the rule seeing `seen` and the mixture made of `p` and `q`.
fn token_v2(seen: &[f64], p: &[f64], q: &[f64], alpha: f64, bug: CascadeBug) -> Vec<f64> {
    let threshold = seen[argmax(seen).unwrap()] - alpha;
    let defers = |token: usize| seen[token] < threshold;
    let deferred: f64 = (0..q.len()).filter(|&token| defers(token)).map(|token| q[token]).sum();
    let deferred = if bug == CascadeBug::NoDeferredMass { 0.0 } else { deferred };
    let kept = |token: usize| if defers(token) { 0.0 } else { q[token] };
    let mut aim: Vec<f64> = (0..q.len()).map(|token| kept(token) + p[token] * deferred).collect();
    normalise(&mut aim);
    aim
}
