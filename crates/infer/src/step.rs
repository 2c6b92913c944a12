//! One step: draft, verify, accept, commit.

use crate::plain::DecodeError;
use crate::timing::StepTimes;
use gorgon_core::accept::{AcceptanceRule, RandomSource, Rows, Verdict};
use gorgon_core::dist::Row;
use gorgon_core::tree::TreeBuilder;
use gorgon_core::{PooledVec, Token};
use gorgon_draft::drafter::{Committed, Drafter, Proposal};
use gorgon_model::decoder::PassOutput;
use gorgon_model::target::Target;

/// What takes part in every step of a generation.
pub struct Stepper<'a> {
    /// The model whose text it is.
    pub target: &'a mut Target,
    /// What proposes.
    pub drafter: &'a mut dyn Drafter,
    /// What arranges the proposals.
    pub builder: &'a dyn TreeBuilder,
    /// What accepts.
    pub rule: &'a dyn AcceptanceRule,
    /// All chance.
    pub random: &'a mut dyn RandomSource,
}

/// What a step emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutcome {
    /// Accepted drafts, then the bonus token: at least one token.
    pub tokens: PooledVec<Token>,
    /// Nodes of the tree, the root included.
    pub nodes: usize,
}

impl Stepper<'_> {
    /// Drafts on `root`, the last emitted token; verifies the tree in one pass; accepts a path; commits it.
    ///
    /// # Errors
    /// When the tree does not fit, the target's scores are no numbers, or the drafter fails.
    pub fn step(&mut self, root: Token, times: &mut StepTimes) -> Result<StepOutcome, DecodeError> {
        let proposal = times.draft.measure(|| self.drafter.propose_drawn(root, self.builder, self.random))?;
        let tree = proposal.draft.tree();
        let (output, said) = times.verify.measure(|| {
            let output = self.target.verify(tree)?;
            let said = Said::by(self.target, &output, self.rule);
            Ok::<_, DecodeError>((output, said))
        })?;
        let verdict = times.accept.measure(|| match (&said, self.rule.as_greedy()) {
            (Said::Likeliest(tokens), Some(greedy)) => Some(greedy.accept_argmax(tree, tokens)),
            (Said::Likeliest(_), None) => None,
            (Said::Logits(data), _) => {
                let rows = Rows::Logits { data, vocab: data.len() / tree.len() };
                finite_verdict(self.rule, &proposal, rows, self.random)
            }
        });
        let verdict = verdict.ok_or_else(|| DecodeError::NonFinite { position: self.target.len() + 1 })?;
        times.commit.measure(|| {
            self.target.commit(&verdict.path)?;
            let tokens: PooledVec<Token> = verdict.path.iter().map(|&node| tree.token(node)).collect();
            let committed = Committed { tokens: &tokens, output: &output, rows: &verdict.path };
            self.drafter.observe(committed).map_err(DecodeError::from)
        })?;
        let accepted = verdict.path[1..].iter().map(|&node| tree.token(node));
        Ok(StepOutcome { tokens: accepted.chain([verdict.bonus]).collect(), nodes: tree.len() })
    }
}

/// What the target said at the nodes of a tree, as far as a rule asks.
enum Said {
    /// The likeliest token of each.
    Likeliest(PooledVec<Token>),
    /// All logits, `[nodes · V]`.
    Logits(PooledVec<f32>),
}

impl Said {
    fn by(target: &Target, output: &PassOutput, rule: &dyn AcceptanceRule) -> Self {
        let top_tokens = rule.as_greedy().and_then(|_| target.top_tokens(&output.hidden));
        top_tokens.map_or_else(|| Self::Logits(target.logits(&output.hidden)), Self::Likeliest)
    }
}

/// What a rule says of a verified proposal, if the rows that it had to read are numbers.
pub(crate) fn finite_verdict(
    rule: &dyn AcceptanceRule,
    proposal: &Proposal,
    rows: Rows<'_>,
    random: &mut dyn RandomSource,
) -> Option<Verdict> {
    // A rule reads the rows of the path only, so those of other nodes may be anything.
    let verdict = rule.accept(proposal.draft.tree(), proposal.draft_rows(), rows, random);
    let sound = |&node: &usize| rows.row(node).as_ref().is_some_and(Row::is_sound);
    verdict.path.iter().all(sound).then_some(verdict)
}
