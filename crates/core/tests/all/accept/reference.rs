//! Multi-round rules for one source and one scheme, written apart: the special case that entries generalise.

use gorgon_core::PooledVec;
use gorgon_core::accept::{AcceptanceRule, Deferral, DraftRows, RandomSource, SamplingScheme, TargetRows};
use gorgon_core::dist::{Row, Transform, mass, normalise, residual, total_variation};
use gorgon_core::tree::TokenTree;

use crate::accept::wrong::{Rule, row, walk};

/// The distribution aimed at, and the transformed draft distribution.
type Aim = dyn Fn(Row<'_>, Option<Row<'_>>) -> (PooledVec<f64>, Option<PooledVec<f64>>) + Send + Sync;

/// Lossy sampling with α and β; sampling at `α = 0, β = 1`.
pub fn lossy(transform: Transform, alpha: f64, beta: f64) -> Box<dyn AcceptanceRule> {
    let aim = move |target: Row<'_>, draft: Option<Row<'_>>| {
        (transform.apply(target), draft.map(|draft| transform.apply(draft)))
    };
    rounds(Box::new(aim), alpha, beta)
}

/// A cascade.
pub fn cascade(transform: Transform, deferral: Deferral, alpha: f64) -> Box<dyn AcceptanceRule> {
    let aim = move |target: Row<'_>, draft: Option<Row<'_>>| {
        let p = transform.apply(target);
        let Some(draft) = draft else { return (p, None) };
        let (q, raw) = (transform.apply(draft), |row| Transform::IDENTITY.apply(row));
        let defers = deferral.defers(alpha, &raw(target), &raw(draft), total_variation(&p, &q));
        (Deferral::mix(&defers, &p, &q), Some(q))
    };
    rounds(Box::new(aim), 0.0, 1.0)
}

fn rounds(aim: Box<Aim>, alpha: f64, beta: f64) -> Box<dyn AcceptanceRule> {
    Box::new(Rule(
        move |tree: &TokenTree, draft: DraftRows<'_>, target: TargetRows<'_>, random: &mut dyn RandomSource| {
            walk(|node| {
                let source = draft.sources()[0];
                let has_children = tree.children(node).next().is_some();
                let drafted =
                    source.rows.filter(|_| has_children).and_then(|rows| rows.row(node)).filter(Row::is_valid);
                let (mut p, q) = aim(row(target, node), drafted);
                let mut q = q.filter(|_| source.scheme != SamplingScheme::Deterministic).unwrap_or_default();
                let mut listed = Vec::new();
                for child in tree.children(node) {
                    let token = tree.token(child);
                    let is_listed = mass(&q, token) <= 0.0;
                    if is_listed && listed.contains(&token) {
                        continue;
                    }
                    let drawn_with = if is_listed { 1.0 } else { mass(&q, token) };
                    if random.flip(mass(&p, token) / ((1.0 - alpha) * drawn_with)) {
                        return Ok(child);
                    }
                    if is_listed {
                        listed.push(token);
                        if std::mem::take(&mut p[token as usize]) > 0.0 {
                            normalise(&mut p);
                        }
                        continue;
                    }
                    let scaled: PooledVec<f64> = p.iter().map(|p| if beta == 1.0 { *p } else { p / beta }).collect();
                    p = residual(&scaled, &q).unwrap_or(p);
                    if source.scheme == SamplingScheme::WithoutReplacement {
                        q[token as usize] = 0.0;
                        normalise(&mut q);
                    }
                }
                Err(random.pick(&p))
            })
        },
    ))
}
