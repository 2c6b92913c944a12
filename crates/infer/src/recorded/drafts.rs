//! Drafts of recorded steps, and the tokens that an oracle puts in their place.

use super::sampling::CoupledSampling;
use crate::error::DecodeError;
use burn::tensor::Device;
use gorgon_core::Token;
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::TreeShape;
use gorgon_draft::coupled::SHARPNESS;
use gorgon_draft::eagle::EagleOnDevice;
use gorgon_draft::medusa::MedusaModel;
use gorgon_kernels::recorded_step::{self, Guide, NoisePositions, Outcome, TreeTable};
use gorgon_kernels::tree_attention::PassTable;
use gorgon_model::hidden_states::HiddenStates;
use gorgon_model::pass::PassOutput;
use gorgon_model::target::DecoderTarget;
use std::cell::RefCell;

/// Who writes the next tree.
pub(super) enum Drafts {
    /// Nobody: drafts stay what they are.
    None,
    /// Heads, into a tree of fixed shape; `width` is how many guesses of each the tree uses.
    Medusa { heads: Box<MedusaModel>, width: usize },
    /// An EAGLE layer, which makes the tree's shape too.
    Eagle(Box<RefCell<EagleOnDevice>>),
}

impl Drafts {
    /// True for an EAGLE layer: its cache holds pairs of a token's state and the next token.
    pub fn pairs(&self) -> bool {
        matches!(self, Self::Eagle(_))
    }

    /// Forgets what was read beyond the first `length` tokens, of which all were read.
    pub fn truncate(&self, length: usize) -> Result<(), DecodeError> {
        match self {
            Self::None | Self::Medusa { .. } => Ok(()),
            Self::Eagle(layer) => Ok(layer.borrow_mut().truncate(length)?),
        }
    }

    /// Reads a chunk of a prompt that `output` is the pass over; `next` are the tokens after each of its own.
    pub fn read(&self, next: &[Token], output: &PassOutput) -> Result<(), DecodeError> {
        match self {
            Self::None | Self::Medusa { .. } => {}
            Self::Eagle(layer) => drop(layer.borrow_mut().read(next, output)?),
        }
        Ok(())
    }

    /// Writes the first tree, behind a prompt of which `output` is the pass over the last chunk; `next` are the tokens
    /// after each of the chunk's.
    pub fn begin(
        &self,
        next: &[Token],
        output: &PassOutput,
        (tree, pass_table): (&TreeTable, &PassTable),
        sampling: Option<&CoupledSampling>,
    ) -> Result<(), DecodeError> {
        if let Self::Eagle(layer) = self {
            let mut layer = layer.borrow_mut();
            if let Some(guessed) = layer.read(next, output)? {
                layer.draft(guessed, tree, pass_table)?;
            }
            return Ok(());
        }
        self.fill(&output.hidden.narrow(next.len() - 1, 1), (tree, pass_table), sampling);
        Ok(())
    }

    /// Writes the next tree, where `output` is the verification of the last one.
    pub fn next(
        &self,
        output: &PassOutput,
        outcome: &Outcome,
        (tree, pass_table): (&TreeTable, &PassTable),
        sampling: Option<&CoupledSampling>,
    ) -> Result<(), DecodeError> {
        if let Self::Eagle(layer) = self {
            let mut layer = layer.borrow_mut();
            let guessed = layer.catch_up(output, outcome, pass_table.slots())?;
            return Ok(layer.draft(guessed, tree, pass_table)?);
        }
        let last = HiddenStates::on_device(output.hidden.tensor().select(1, outcome.last()));
        self.fill(&last, (tree, pass_table), sampling);
        Ok(())
    }

    /// Heads' tokens, from the state at the last committed token; those that the noise prefers, where there is some.
    fn fill(
        &self,
        hidden: &HiddenStates,
        (tree, pass_table): (&TreeTable, &PassTable),
        sampling: Option<&CoupledSampling>,
    ) {
        if let Self::Medusa { heads, width } = self {
            let logits = heads.project(&heads.states(hidden, tree.longest() - 1)).into_tensor();
            let logits = match sampling {
                Some(sampling) => sampling.perturb(&logits, &NoisePositions::behind_root(pass_table), SHARPNESS),
                None => logits,
            };
            recorded_step::fill(&recorded_step::top_rows(&logits, *width), tree, pass_table);
        }
    }

    /// Rows behind the committed ones that a drafter's cache holds at most.
    pub fn rows(&self) -> usize {
        match self {
            Self::None | Self::Medusa { .. } => 0,
            Self::Eagle(layer) => layer.borrow().rows(),
        }
    }
}

/// The shape's nodes down to `depth`: parents, and ranks among siblings (0 for the root).
pub(super) fn cut(shape: &TreeShape, depth: usize) -> (Vec<usize>, Vec<usize>) {
    let (mut parents, mut ranks) = (vec![0], vec![0]);
    for node in 1..shape.len() {
        let path = shape.path(node);
        // Nodes go level by level, so what is left out is an end.
        if path.len() <= depth {
            parents.push(shape.parents()[node]);
            ranks.push(path[path.len() - 1]);
        }
    }
    (parents, ranks)
}

/// The nodes on the way to each node, itself included.
pub(super) fn paths(parents: &[usize]) -> Vec<Vec<usize>> {
    let mut paths: Vec<Vec<usize>> = vec![vec![0]];
    for (node, &parent) in parents.iter().enumerate().skip(1) {
        let mut path = paths[parent].clone();
        path.push(node);
        paths.push(path);
    }
    paths
}

/// Tokens that an oracle knowing `text` puts below a root, for each position that `target` has room for.
pub(super) fn oracle(
    tree: &TreeTable,
    target: &DecoderTarget,
    text: &[Token],
    rates: &[f64],
    seed: u64,
    device: &Device,
) -> Guide {
    let vocab = target.decoder().config().vocab_size;
    let depths = tree.longest() - 1;
    let mut random = SeededRandom::new(seed);
    let truths: Vec<Option<Token>> = (0..target.capacity()).map(|position| text.get(position).copied()).collect();
    let below = |root: usize| -> Vec<Token> {
        let mut right = true;
        let token = |depth: usize| {
            let truth = truths.get(root + depth + 1).copied().flatten();
            right = right && truth.is_some() && random.uniform() < rates.get(depth).copied().unwrap_or(0.0);
            let token = truth.unwrap_or(0);
            if right { token } else { (token + 1) % vocab as Token }
        };
        (0..depths).map(token).collect()
    };
    let chosen: Vec<Vec<Token>> = (0..truths.len()).map(below).collect();
    Guide::new(depths, &truths, &chosen, vocab, device)
}

#[cfg(test)]
mod tests;
