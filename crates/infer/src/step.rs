//! One step of some sequences: draft, verify, accept, commit.

use crate::error::DecodeError;
use crate::session::{Method, Session};
use crate::timing::StepTimes;
use crate::turn::{Outcomes, Parts, StepOutcome, Turn};
use crate::verdict::{Judged, judge};
use gorgon_core::{PooledVec, Token};
use gorgon_draft::coupled::{CoupledTree, Coupling};
use gorgon_draft::drafter::{
    DraftContext, DraftError, Drafter, ProbeRows, Proposal, Resume, VerifiedPass, VerifiedTree,
};
use gorgon_kernels::team;
use gorgon_kernels::tree_attention::AttentionMask;
use gorgon_model::pass::{Inputs, PassOutput, PassPlan};
use gorgon_model::target::Target;
use smallvec::SmallVec;

/// Takes one step of the sequences that `turns` name, in increasing order. Tokens beyond an end token or a limit are
/// cut off *before* the commit: neither target nor drafter ever reads what is not in the text.
///
/// # Errors
/// When a tree does not fit, logits of an accepted path are no numbers, or a drafter fails. No sequence has uncommitted
/// rows then.
pub(crate) fn step<T: Target, D: Drafter>(
    sessions: &mut [Session<T, D>],
    turns: &mut [Turn<'_>],
    method: Method<'_>,
    times: &mut StepTimes,
) -> Result<Outcomes, DecodeError> {
    let mut parts = parts(sessions, turns)?;
    let outcomes = take(&mut parts, method, times);
    if outcomes.is_err() {
        parts.iter_mut().for_each(|(session, _)| session.parts().0.roll_back());
    }
    outcomes
}

fn take<T: Target, D: Drafter>(
    parts: &mut Parts<'_, '_, T, D>,
    method: Method<'_>,
    times: &mut StepTimes,
) -> Result<Outcomes, DecodeError> {
    for (session, turn) in parts.iter_mut() {
        // The root is no part of the text yet.
        turn.random.set_position(session.len() + 1);
    }
    let proposals = times.draft.measure(|| draft(parts, method))?;
    let output = times.verify.measure(|| verify(parts, &proposals))?;
    let judged = judge(parts, &proposals, &output, method.rule, times)?;
    times.commit.measure(|| commit(parts, &proposals, &output, &judged))
}

/// The sequences that turns name.
fn parts<'a, 't, T, D>(
    sessions: &'a mut [Session<T, D>],
    turns: &'a mut [Turn<'t>],
) -> Result<Parts<'a, 't, T, D>, DecodeError> {
    let count = sessions.len();
    let increasing = turns.windows(2).all(|pair| pair[0].slot < pair[1].slot);
    if turns.is_empty() || !increasing || turns[turns.len() - 1].slot >= count {
        return Err(DecodeError::Turns { slots: turns.iter().map(|turn| turn.slot).collect(), count });
    }
    let mut sessions = sessions.iter_mut().enumerate();
    let session = |slot| sessions.find(|(index, _)| *index == slot).map(|(_, session)| session);
    let mut session = session;
    Ok(turns.iter_mut().filter_map(|turn| Some((session(turn.slot)?, turn))).collect())
}

/// A tree for each sequence.
fn draft<T: Target, D: Drafter>(
    parts: &mut Parts<'_, '_, T, D>,
    method: Method<'_>,
) -> Result<SmallVec<[Proposal; 1]>, DraftError> {
    let arranged = |turn: &Turn<'_>| {
        let rule = turn.rule.unwrap_or(method.rule);
        CoupledTree { tree: method.tree, coupling: Coupling::of(rule, &*turn.random) }
    };
    if let [(session, turn)] = parts.as_mut_slice() {
        if !turn.drafts {
            return Ok(SmallVec::from_buf([Proposal::root(turn.root)]));
        }
        let lends = session.needs().lends_target;
        let (target, drafter) = session.parts();
        let lent: Option<&mut dyn Target> = if lends { Some(&mut *target) } else { None };
        let mut context = DraftContext { tree: arranged(turn), random: &mut *turn.random, target: lent };
        let proposal = drafter.draft(turn.root, &mut context)?;
        if proposal.resume.is_none() {
            target.roll_back();
        }
        return Ok(SmallVec::from_buf([proposal]));
    }
    let mut work: Vec<_> = parts.iter_mut().map(|(session, turn)| (session, turn, None)).collect();
    // One drafter's matmuls are shared among threads; several drafters are.
    let least = if work.iter().all(|(session, ..)| session.target().is_host()) { team::WORTHWHILE } else { 0 };
    team::each(&mut work, least, |(session, turn, proposal)| {
        if !turn.drafts {
            *proposal = Some(Ok(Proposal::root(turn.root)));
            return;
        }
        let mut context = DraftContext { tree: arranged(turn), random: &mut *turn.random, target: None };
        *proposal = Some(session.drafter().draft(turn.root, &mut context));
    });
    work.into_iter().filter_map(|(.., proposal)| proposal).collect()
}

/// The target's pass over all trees, one after the other.
fn verify<T: Target, D: Drafter>(
    parts: &mut Parts<'_, '_, T, D>,
    proposals: &[Proposal],
) -> Result<PassOutput, DecodeError> {
    let trees: SmallVec<[VerifiedInput<'_>; 1]> =
        proposals.iter().map(VerifiedInput::of).collect::<Result<_, DraftError>>()?;
    let layers = parts[0].0.target().layers();
    if let ([(session, _)], [tree]) = (parts.as_mut_slice(), trees.as_slice()) {
        return Ok(session.parts().0.verify(&tree.plan(layers))?);
    }
    let plans = trees.iter().map(|tree| tree.plan(layers));
    let mut group: Vec<_> = parts.iter_mut().map(|(session, _)| session.parts().0).zip(plans).collect();
    Ok(T::verify_together(&mut group)?)
}

/// A proposal with what its pass borrows.
struct VerifiedInput<'a> {
    proposal: &'a Proposal,
    mask: AttentionMask,
    /// The nodes' inputs where probes read embeddings.
    probes: Option<ProbeRows<'a>>,
}

impl<'a> VerifiedInput<'a> {
    fn of(proposal: &'a Proposal) -> Result<Self, DraftError> {
        let mask = AttentionMask::in_tree(proposal.draft.tree().parents());
        // Where a lent target has read the nodes, it has read the embeddings too.
        let probes = if proposal.resume.is_none() { proposal.probe_rows()? } else { None };
        Ok(Self { proposal, mask, probes })
    }

    /// The pass over the tree in a target of so many layers.
    fn plan(&self, layers: usize) -> PassPlan<'_> {
        let plan = PassPlan::of_tokens(self.proposal.draft.tree().tokens(), &self.mask);
        match (&self.proposal.resume, &self.probes) {
            (Some(Resume { stream, layer }), _) => {
                PassPlan { inputs: Inputs::States(stream), layers: Some(*layer..layers), ..plan }
            }
            (None, Some(ProbeRows { rows, table })) => PassPlan { inputs: Inputs::Rows { rows, table }, ..plan },
            (None, None) => plan,
        }
    }
}

/// Keeps what every sequence emits of its tree, and tells its drafter.
fn commit<T: Target, D: Drafter>(
    parts: &mut Parts<'_, '_, T, D>,
    proposals: &[Proposal],
    output: &PassOutput,
    judged: &[Judged],
) -> Result<Outcomes, DecodeError> {
    let (mut first_row, mut outcomes) = (0, Outcomes::new());
    for (((session, turn), proposal), judged) in parts.iter_mut().zip(proposals).zip(judged) {
        let verdict = &judged.verdict;
        let tree = proposal.draft.tree();
        let accepted = verdict.path[1..].iter().map(|&node| tree.token(node));
        let mut tokens: PooledVec<Token> = accepted.chain([verdict.bonus]).collect();
        turn.cut(&mut tokens);
        // As many tokens are read as are emitted: the root instead of the last one.
        let path = &verdict.path[..tokens.len()];
        let (target, drafter) = session.parts();
        target.commit(path)?;
        let read: PooledVec<Token> = path.iter().map(|&node| tree.token(node)).collect();
        let rows: PooledVec<usize> = path.iter().map(|&node| first_row + node).collect();
        let next = tokens[tokens.len() - 1];
        let verified = Some(VerifiedTree { tree, path, next, target: judged.target() });
        let observed = drafter.observe(VerifiedPass { tokens: &read, output, rows: &rows, verified, is_source: false });
        session.keep(&read, observed)?;
        outcomes.push(StepOutcome { tokens, accepted: verdict.path.len() - 1, nodes: tree.len() });
        first_row += tree.len();
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests;
