//! Token recycling (Luo et al., 2024, <https://arxiv.org/abs/2408.08696>): the target's output at verified rows, drafted
//! from again wherever their tokens come up.
//!
//! A table `[V, k]` holds, for a token `x`, the `k` most likely tokens behind the last row that read `x`, with their
//! probabilities there: `softmax(logits)` of the whole row. Every row of a verified tree is written, the rejected ones
//! first, so that rows of the text itself win. Rows of a prompt are not: no logits are computed for them. A draft grows
//! from the table like a first-order Markov chain, `q(y | x)`, by any tree. Within a budget, `own:NODES,DEPTH`, trees
//! have the size that emits most tokens in a time, as measured while decoding ([`sizes`]); other trees are drafted whole.
//!
//! The table takes `8·V·k` bytes and a byte per token, for each sequence that is decoded at a time, from the first step
//! on. It belongs to no text: [`reset`](Drafter::reset) and [`truncate`](Drafter::truncate) keep it, so a later text
//! begins with what earlier ones left. Drafts are a list, so no row of the table changes greedy or coupled text. Under
//! rules that draw at random, other drafts use up other draws: a text of the same distribution then depends on the texts
//! before it, and within a budget on the clock, so that a seed stands for another text each time.

mod sizes;
mod table;

use crate::coupled::CoupledTree;
use crate::drafter::{DraftContext, DraftError, Drafter, Feedback, Needs, Proposal, VerifiedPass, VerifiedTree};
use crate::method::TrainingFreeMethod;
use crate::step_costs::Clock;
use crate::watched::{cut, order};
use gorgon_core::Token;
use gorgon_core::dist::Row;
use gorgon_core::tree::{
    CandidateRows, CandidateSource, NodeInput, OwnTree, SourceError, TokenTree, TreeBuilder, TreeChoice,
};
use gorgon_model::config::ModelConfig;
use gorgon_model::device::Compute;
use sizes::Sizes;
use std::time::Instant;
use table::SuccessorTable;

/// Successors of a token unless another number is named: that of the paper.
const SUCCESSORS: usize = 8;
/// The most successors of a token.
const MOST_SUCCESSORS: usize = 32;
/// Most nodes and depth of the tree unless another one is named.
const TREE: (usize, usize) = (64, 6);

/// Token recycling, `recycle` or `recycle:K`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recycle {
    /// Successors that are kept of a token.
    pub successors: usize,
}

impl TrainingFreeMethod for Recycle {
    const SYNTAX: &'static str = "recycle:K";

    fn parse(arguments: &str) -> Result<Self, String> {
        if arguments.is_empty() {
            return Ok(Self { successors: SUCCESSORS });
        }
        match arguments.trim().parse() {
            Ok(successors) if (1..=MOST_SUCCESSORS).contains(&successors) => Ok(Self { successors }),
            _ => Err(format!("recycle:{arguments}: 1 to {MOST_SUCCESSORS} successors are kept of a token")),
        }
    }

    fn name(&self) -> String {
        format!("recycle:{}", self.successors)
    }

    fn default_tree(&self) -> TreeChoice {
        OwnTree::new(TREE.0, TREE.1).map_or(TreeChoice::None, TreeChoice::Own)
    }

    fn bytes(&self, model: &ModelConfig, _: &Compute, _: usize) -> u128 {
        SuccessorTable::bytes(self.successors, model.vocab_size) as u128
    }

    fn drafter(&self) -> Box<dyn Drafter> {
        let start = Instant::now();
        Box::new(RecycleDrafter::new(self.successors).timed_by(Box::new(move || start.elapsed())))
    }
}

/// Drafts successors that the target named before.
pub struct RecycleDrafter {
    name: String,
    table: SuccessorTable,
    /// Chooses the nodes within a budget; `None` to use all.
    sizes: Option<Sizes>,
}

impl RecycleDrafter {
    /// A drafter that keeps so many successors of a token, at least one, and knows none yet. It drafts whole trees.
    pub fn new(successors: usize) -> Self {
        Self { name: Recycle { successors }.name(), table: SuccessorTable::new(successors), sizes: None }
    }

    /// Chooses the nodes within a budget by step times, measured by a clock.
    pub fn timed_by(self, clock: Clock) -> Self {
        Self { sizes: Some(Sizes::new(clock)), ..self }
    }

    /// Writes the rows of a tree: those off the committed path first, in the order of their nodes, then those on it.
    fn learn(&mut self, verified: &VerifiedTree<'_>) {
        let Some(target) = verified.target else { return };
        let rejected = (0..verified.tree.len()).filter(|node| !verified.path.contains(node));
        for node in rejected.chain(verified.path.iter().copied()) {
            if let (NodeInput::Token(token), Ok(Row::Logits(logits))) = (verified.tree.input(node), target.row(node)) {
                self.table.write(token, logits);
            }
        }
    }
}

impl Drafter for RecycleDrafter {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Needs {
        Needs { feedback: Feedback::Logits, ..Needs::default() }
    }

    fn reset(&mut self) {
        self.sizes.iter_mut().for_each(Sizes::forget_text);
    }

    fn truncate(&mut self, _: usize) -> bool {
        self.sizes.iter_mut().for_each(Sizes::forget_text);
        true
    }

    fn observe(&mut self, pass: VerifiedPass<'_>) -> Result<(), DraftError> {
        if let Some(verified) = &pass.verified {
            self.learn(verified);
        }
        self.sizes.iter_mut().for_each(|sizes| sizes.observe(&pass));
        Ok(())
    }

    fn draft(&mut self, root: Token, context: &mut DraftContext<'_>) -> Result<Proposal, DraftError> {
        let CoupledTree { tree, coupling } = context.tree;
        let Some(sizes) = self.sizes.as_mut().filter(|_| tree.is_budget()) else {
            return Ok(Proposal::list(context.tree.build(root, &mut Successors(&self.table))?));
        };
        let planned = sizes.plan(tree.max_nodes());
        let budget = OwnTree::new(planned.followed.unwrap_or(planned.nodes), tree.max_depth());
        let budget = budget.map_err(|error| DraftError::Tree(error.to_string()))?;
        let mut draft = CoupledTree { tree: &budget, coupling }.build(root, &mut Successors(&self.table))?;
        if let Some(nodes) = planned.followed {
            let order = order(&draft);
            let chosen = cut(&draft, &order, planned.nodes);
            sizes.follow(nodes, &draft, order);
            draft = chosen;
        }
        sizes.begin(&planned, draft.tree().len());
        Ok(Proposal::list(draft))
    }
}

/// The table as a source of candidates.
struct Successors<'a>(&'a SuccessorTable);

impl CandidateSource for Successors<'_> {
    fn expand(&mut self, tree: &TokenTree, nodes: &[usize], widths: &[usize]) -> Result<CandidateRows, SourceError> {
        Ok(nodes.iter().zip(widths).map(|(&node, &width)| self.0.after(tree.token(node)).take(width)).collect())
    }
}

#[cfg(test)]
mod tests;
