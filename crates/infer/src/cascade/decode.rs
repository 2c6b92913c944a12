//! Steps of a model that drafts for another one.

use super::chain::{Chain, is_sure};
use super::recording::Recording;
use crate::error::DecodeError;
use crate::session::{Method, Session};
use crate::step::step;
use crate::timing::StepTimes;
use crate::turn::Turn;
use gorgon_core::accept::{AcceptanceRule, RandomSource, RuleChoice, SamplingScheme};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{ChainTree, TreeBuilder, TreeKind};
use gorgon_draft::coupled::Coupling;
use gorgon_draft::draft_model::DraftSampling;
use gorgon_draft::drafter::{DraftError, Drafter};
use gorgon_model::target::Target;

/// True if drafts are sampled, not the best candidates.
pub(crate) fn draws(sampling: &DraftSampling) -> bool {
    sampling.children != SamplingScheme::Deterministic
}

/// The rule by which a model that drafts by `sampling` accepts drafts itself.
pub(crate) fn rule_of(sampling: &DraftSampling, coupling: Option<Coupling>) -> Box<dyn AcceptanceRule + Send + Sync> {
    let emitted = coupling.and_then(|coupling| coupling.of_drafts());
    match emitted {
        _ if draws(sampling) => RuleChoice::Sampling.rule(sampling.transform),
        Some(transform) => RuleChoice::Coupled.rule(transform),
        None => RuleChoice::Greedy.rule(Transform::GREEDY),
    }
}

/// Decodes `count` tokens of a model. False where it became too unsure to go on.
pub(crate) fn decode<T: Target, D: Drafter>(
    session: &mut Session<T, Recording<D>>,
    (named, rule): (&dyn TreeBuilder, &dyn AcceptanceRule),
    (sampling, count): (&DraftSampling, usize),
    random: &mut dyn RandomSource,
    chain: &mut Chain,
) -> Result<bool, DecodeError> {
    let mut left = count;
    while left > 0 {
        let short = short_tree(named, left)?;
        let tree: &dyn TreeBuilder = short.as_ref().map_or(named, |short| short);
        let (root, random) = (chain.last(), &mut *random);
        let drafts = tree.max_depth() > 0;
        let turn = Turn { slot: 0, root, left, end_tokens: &[], random, rule: None, drafts };
        let sessions = std::slice::from_mut(&mut *session);
        let outcomes = step(sessions, &mut [turn], Method { tree, rule }, &mut StepTimes::default())?;
        let tokens = outcomes.into_iter().flat_map(|outcome| outcome.tokens.into_vec());
        let rows = session.drafter().take_rows();
        let before = left;
        for (index, token) in tokens.enumerate() {
            let row = rows.as_ref().map(|rows| rows.row(index));
            if let (Some(stop), Some(row)) = (sampling.stop, row)
                && !is_sure(row, stop)
            {
                return Ok(false);
            }
            chain.push(token, row.filter(|_| sampling.rows));
            left -= 1;
        }
        if left == before {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The tree of a step of which `left` tokens are wanted, where the named one would draft more than they need.
fn short_tree(named: &dyn TreeBuilder, left: usize) -> Result<Option<ChainTree>, DraftError> {
    let most = left - 1;
    let drafts = match named.kind() {
        TreeKind::Chain(drafts) => drafts.min(most),
        TreeKind::Fixed(_) | TreeKind::Dynamic(_) | TreeKind::Own(_) if most == 0 => 0,
        TreeKind::Fixed(_) | TreeKind::Dynamic(_) | TreeKind::Own(_) => return Ok(None),
    };
    chain_of(drafts).map(Some)
}

/// A chain of so many drafts.
pub(super) fn chain_of(drafts: usize) -> Result<ChainTree, DraftError> {
    ChainTree::new(drafts).map_err(|error| DraftError::Tree(error.to_string()))
}

/// A failure of a model that drafts as its drafter's.
pub(crate) fn draft_error(error: DecodeError) -> DraftError {
    match error {
        DecodeError::Model(error) => error.into(),
        DecodeError::Draft(error) => error,
        error => DraftError::Tree(error.to_string()),
    }
}
