//! The target's output at the nodes of verified trees, and the paths that a rule accepts.

use crate::error::DecodeError;
use crate::timing::StepTimes;
use crate::turn::{Part, Parts};
use gorgon_core::accept::{AcceptanceRule, RandomSource, TargetOutput, TargetRows, Verdict};
use gorgon_core::dist::Row;
use gorgon_core::{PooledVec, Token};
use gorgon_draft::drafter::{Drafter, Feedback, Proposal};
use gorgon_kernels::team;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::PassOutput;
use gorgon_model::target::Target;
use smallvec::SmallVec;

/// Logits in memory at once: bounds what many large trees over a large vocabulary take (256 MiB).
const LOGITS: usize = 1 << 26;
/// Rows whose greatest logits are searched at once: bounds the memory that is kept for it.
const SEARCHED: usize = 256;

/// A sequence's verdict, and the target's output at its tree as far as its drafter asks for it.
pub(crate) struct Judged {
    pub verdict: Verdict,
    target: Known,
}

impl Judged {
    /// Output that the drafter may read.
    pub fn target(&self) -> Option<TargetRows<'_>> {
        match &self.target {
            Known::Nothing => None,
            Known::Argmax(tokens) => Some(TargetRows::Argmax(tokens)),
            Known::Logits { data, vocab } => Some(TargetRows::Logits { data, vocab: *vocab }),
        }
    }
}

/// The target's output at the rows of some trees.
enum Known {
    Nothing,
    /// `[rows]`.
    Argmax(PooledVec<Token>),
    /// `[rows · V]`.
    Logits {
        data: PooledVec<f32>,
        vocab: usize,
    },
}

impl Known {
    /// As much of a target's output as the rules and the drafters ask for.
    fn read(target: &impl Target, hidden: &HiddenStates, needs: TargetOutput, feedback: Feedback) -> Self {
        let argmax_is_enough = needs == TargetOutput::Argmax && feedback < Feedback::Logits;
        let top = if argmax_is_enough { target.top_tokens(hidden, &PooledVec::of(1, hidden.rows())) } else { None };
        match top {
            Some(top) => Self::Argmax(top.iter().map(|&(token, _)| token).collect()),
            None => Self::Logits { data: target.logits(hidden), vocab: target.vocab_size() },
        }
    }

    /// The part of the output that a drafter reads, for the `nodes` rows from `first` on.
    fn part(&self, first: usize, nodes: usize, feedback: Feedback) -> Self {
        match (self, feedback) {
            (Self::Nothing, _) | (_, Feedback::None) => Self::Nothing,
            (Self::Argmax(tokens), _) => Self::Argmax(tokens[first..first + nodes].into()),
            (Self::Logits { data, vocab }, feedback) => {
                let rows = &data[first * vocab..(first + nodes) * vocab];
                match feedback {
                    Feedback::Logits => Self::Logits { data: rows.into(), vocab: *vocab },
                    _ => {
                        let argmax = |row| Row::Logits(row).argmax() as Token;
                        Self::Argmax(rows.chunks_exact(*vocab).map(argmax).collect())
                    }
                }
            }
        }
    }
}

/// The paths that the turns' rules, or else this one, accept of all trees, whose rows are those of `output`, one tree after the other.
///
/// # Errors
/// When logits at a node of an accepted path are no numbers.
pub(crate) fn judge<T: Target, D: Drafter>(
    parts: &mut Parts<'_, '_, T, D>,
    proposals: &[Proposal],
    output: &PassOutput,
    rule: &dyn AcceptanceRule,
    times: &mut StepTimes,
) -> Result<SmallVec<[Judged; 1]>, DecodeError> {
    let feedback = parts.iter().map(|(session, _)| session.feedback()).max().unwrap_or_default();
    let vocab = parts[0].0.target().vocab_size();
    let argmax = |(_, turn): &Part<'_, '_, T, D>| turn.rule.unwrap_or(rule).needs() == TargetOutput::Argmax;
    let needs = if parts.iter().all(argmax) { TargetOutput::Argmax } else { TargetOutput::Logits };
    let most = if needs == TargetOutput::Argmax { SEARCHED.min(LOGITS / vocab) } else { LOGITS / vocab };
    let (mut judged, mut first_row) = (SmallVec::new(), 0);
    while judged.len() < proposals.len() {
        let from = judged.len();
        let (taken, rows) = together(&proposals[from..], most);
        let known = times.verify.measure(|| {
            let target = parts[from].0.target();
            match rows == output.hidden.rows() {
                true => Known::read(target, &output.hidden, needs, feedback),
                false => Known::read(target, &output.hidden.narrow(first_row, rows), needs, feedback),
            }
        });
        let some = &mut parts[from..from + taken];
        times.accept.measure(|| accept(some, &proposals[from..from + taken], &known, rule, &mut judged))?;
        first_row += rows;
    }
    Ok(judged)
}

/// How many of these trees, at least one, have at most `most` rows together, and how many they have.
fn together(proposals: &[Proposal], most: usize) -> (usize, usize) {
    let (mut taken, mut rows) = (0, 0);
    for proposal in proposals {
        let nodes = proposal.draft.tree().len();
        if taken > 0 && rows + nodes > most {
            break;
        }
        (taken, rows) = (taken + 1, rows + nodes);
    }
    (taken, rows)
}

/// The paths of some trees, several side by side on the worker threads.
fn accept<T: Target, D: Drafter>(
    parts: &mut [Part<'_, '_, T, D>],
    proposals: &[Proposal],
    known: &Known,
    rule: &dyn AcceptanceRule,
    judged: &mut SmallVec<[Judged; 1]>,
) -> Result<(), DecodeError> {
    let mut first = 0;
    let work = parts.iter_mut().zip(proposals).map(|((session, turn), proposal)| {
        first += proposal.draft.tree().len();
        let first = first - proposal.draft.tree().len();
        (session, turn, proposal, first, None)
    });
    let mut work: SmallVec<[_; 1]> = work.collect();
    let weight = match known {
        Known::Logits { data, .. } => data.len(),
        Known::Argmax(_) | Known::Nothing => 0,
    };
    team::each(&mut work, weight, |(session, turn, proposal, first, found)| {
        let nodes = proposal.draft.tree().len();
        let verdict = verdict(proposal, known, *first, turn.rule.unwrap_or(rule), turn.random);
        *found = verdict.map(|verdict| Judged { verdict, target: known.part(*first, nodes, session.feedback()) });
    });
    for (session, turn, _, _, found) in work {
        let wrong = || DecodeError::NonFinite { slot: turn.slot, position: session.len() + 1 };
        judged.push(found.ok_or_else(wrong)?);
    }
    Ok(())
}

/// The decision of a rule about a tree whose rows begin at `first`; `None` if logits that it had to read are no
/// numbers.
fn verdict(
    proposal: &Proposal,
    known: &Known,
    first: usize,
    rule: &dyn AcceptanceRule,
    random: &mut dyn RandomSource,
) -> Option<Verdict> {
    let tree = proposal.draft.tree();
    let target = match known {
        Known::Nothing => return None,
        Known::Argmax(tokens) => TargetRows::Argmax(&tokens[first..first + tree.len()]),
        Known::Logits { data, vocab } => {
            TargetRows::Logits { data: &data[first * vocab..(first + tree.len()) * vocab], vocab: *vocab }
        }
    };
    let verdict = match tree.len() {
        1 => rule.next(tree.token(0), target, random).map(|bonus| Verdict { path: PooledVec::of(0, 1), bonus }),
        _ => proposal.with_draft_rows(|draft| rule.accept(tree, draft, target, random)),
    };
    let verdict = verdict.ok()?;
    // A rule reads the rows of its path only, so those of other nodes may be anything. Argmaxes are of valid rows.
    let valid =
        |&node: &usize| matches!(target, TargetRows::Argmax(_)) || target.row(node).is_ok_and(|row| row.is_valid());
    verdict.path.iter().all(valid).then_some(verdict)
}

/// The token that a rule emits behind a text that ends with `last`, where the hidden state is `hidden`; `None` if its
/// logits are no numbers.
pub(crate) fn first(
    target: &impl Target,
    last: Token,
    hidden: &HiddenStates,
    rule: &dyn AcceptanceRule,
    random: &mut dyn RandomSource,
) -> Option<Token> {
    let known = Known::read(target, hidden, rule.needs(), Feedback::None);
    verdict(&Proposal::root(last), &known, 0, rule, random).map(|verdict| verdict.bonus)
}
