//! Plans that contradict themselves, or the model.

use super::{Input, Inputs, PassPlan};
use crate::hidden_states::HiddenStates;
use gorgon_kernels::tree_attention::AttentionMask;
use std::ops::Range;

/// Why a pass cannot be run as planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A mask for another number of rows.
    #[error("the pass has {inputs} rows and its mask {mask}")]
    Rows {
        /// Rows of the inputs.
        inputs: usize,
        /// Rows of the mask.
        mask: usize,
    },
    /// Positions for another number of rows.
    #[error("the pass has {rows} rows and {positions} positions")]
    Positions {
        /// Positions.
        positions: usize,
        /// Rows.
        rows: usize,
    },
    /// A position that is too far from the committed rows.
    #[error("row {row} is at position {position} after the committed rows, where the model has {limit} positions")]
    Position {
        /// The row.
        row: usize,
        /// Its position, counted from the committed rows.
        position: usize,
        /// Positions of the model.
        limit: usize,
    },
    /// A row whose mask does not list rows in the order of their positions.
    #[error("row {row} sees rows at positions {before} and {after} in this order")]
    Order {
        /// The row.
        row: usize,
        /// Position of the row that is listed first.
        before: usize,
        /// Position of the row that is listed next.
        after: usize,
    },
    /// A mask that shows a row that does not exist.
    #[error("row {row} sees uncommitted row {seen} of {uncommitted}")]
    Seen {
        /// The row.
        row: usize,
        /// The row that it sees.
        seen: usize,
        /// Uncommitted rows.
        uncommitted: usize,
    },
    /// A row that does not even see itself.
    #[error("row {0} sees no uncommitted row, not even itself")]
    Blind(usize),
    /// Layers that the model does not have.
    #[error("layers {start} to {end} (exclusive) of a model with {layers} layers")]
    Layers {
        /// First layer.
        start: usize,
        /// End of the layers.
        end: usize,
        /// Layers of the model.
        layers: usize,
    },
    /// Tokens in front of a later layer than the first.
    #[error("a pass that starts at layer {0} resumes from hidden states and cannot start with tokens")]
    Resumed(usize),
    /// Hidden states of another width than the model's.
    #[error("hidden states of width {width} for a model of width {hidden_size}")]
    Width {
        /// Their width.
        width: usize,
        /// The model's.
        hidden_size: usize,
    },
    /// Hidden states that are not where the model is.
    #[error("the hidden states of the plan and the model are on different devices")]
    Device,
    /// A row of the table that does not exist.
    #[error("row {row} is embedding {embedding} of a table of {embeddings}")]
    Embedding {
        /// The row.
        row: usize,
        /// The embedding.
        embedding: usize,
        /// Rows of the table.
        embeddings: usize,
    },
    /// Hooks of layers that do not run.
    #[error(
        "hidden states in front of layer {hook} are requested from a pass through layers {start} to {end} (exclusive)"
    )]
    Hook {
        /// The hooked layer.
        hook: usize,
        /// First layer of the pass.
        start: usize,
        /// End of its layers.
        end: usize,
    },
    /// Passes that run together but not through the same layers.
    #[error("passes through layers {first:?} and {other:?} cannot run together")]
    Together {
        /// Layers of the first pass.
        first: Range<usize>,
        /// Layers of another one.
        other: Range<usize>,
    },
    /// Sub-layers that are left out of a model with another number of layers, or of a pass that resumes.
    #[error("sub-layers of {given} layers are left out of a pass through {layers} layers of {all}")]
    Skipped {
        /// Layers that the list of sub-layers is for.
        given: usize,
        /// Layers of the pass.
        layers: usize,
        /// Layers of the model.
        all: usize,
    },
    /// Passes that run together and leave out different sub-layers.
    #[error("passes that leave out different sub-layers cannot run together")]
    SkippedTogether,
    /// Targets that run together but are not alike.
    #[error("target {0} has another model or other hooks than the first, and cannot run together with it")]
    Group(usize),
}

/// The sizes that a plan must agree with.
pub(crate) struct Bounds {
    pub layers: usize,
    pub hidden_size: usize,
    pub max_positions: usize,
    pub is_host: bool,
}

impl PassPlan<'_> {
    /// The layers that run, if the plan agrees with itself and with the model.
    pub(crate) fn check(&self, bounds: &Bounds) -> Result<Range<usize>, PlanError> {
        let layers = self.layers.clone().unwrap_or(0..bounds.layers);
        if layers.is_empty() || layers.end > bounds.layers {
            return Err(PlanError::Layers { start: layers.start, end: layers.end, layers: bounds.layers });
        }
        let (inputs, mask) = (self.inputs.rows(), self.mask.rows());
        if inputs != mask {
            return Err(PlanError::Rows { inputs, mask });
        }
        if let Some(skipped) = self.skipped
            && (skipped.layers() != bounds.layers || layers != (0..bounds.layers))
        {
            let (given, layers, all) = (skipped.layers(), layers.len(), bounds.layers);
            return Err(PlanError::Skipped { given, layers, all });
        }
        self.check_inputs(layers.start, bounds)?;
        self.check_mask()?;
        self.check_positions(bounds.max_positions)?;
        Ok(layers)
    }

    fn check_inputs(&self, start: usize, bounds: &Bounds) -> Result<(), PlanError> {
        match self.inputs {
            Inputs::States(states) => check_states(states, bounds),
            _ if start > 0 => Err(PlanError::Resumed(start)),
            Inputs::Tokens(_) => Ok(()),
            Inputs::Rows { rows, table } => {
                check_states(table, bounds)?;
                let embeddings = table.rows();
                for (row, input) in rows.iter().enumerate() {
                    if let Input::Embedding(embedding) = *input
                        && embedding >= embeddings
                    {
                        return Err(PlanError::Embedding { row, embedding, embeddings });
                    }
                }
                Ok(())
            }
        }
    }

    fn check_mask(&self) -> Result<(), PlanError> {
        let AttentionMask::Paths { nodes, starts, .. } = self.mask else { return Ok(()) };
        let uncommitted = self.mask.uncommitted();
        for (row, range) in starts.windows(2).enumerate() {
            let seen = &nodes[range[0]..range[1]];
            if seen.is_empty() {
                return Err(PlanError::Blind(row));
            }
            if let Some(&seen) = seen.iter().find(|&&seen| seen as usize >= uncommitted) {
                return Err(PlanError::Seen { row, seen: seen as usize, uncommitted });
            }
        }
        Ok(())
    }

    fn check_positions(&self, limit: usize) -> Result<(), PlanError> {
        let Some(positions) = self.positions else { return Ok(()) };
        let (rows, first) = (self.mask.rows(), self.mask.first());
        if positions.len() != rows {
            return Err(PlanError::Positions { positions: positions.len(), rows });
        }
        if let Some((row, &position)) = positions.iter().enumerate().find(|&(_, &position)| position > limit) {
            return Err(PlanError::Position { row, position, limit });
        }
        for row in 0..rows {
            // Each row of a causal mask sees one more than the row before.
            let from = if matches!(self.mask, AttentionMask::Causal { .. }) { row.max(1) } else { 1 };
            for index in from..self.mask.count(row) {
                let (a, b) = (self.mask.nth(row, index - 1), self.mask.nth(row, index));
                if a >= first && b >= first && positions[a - first] > positions[b - first] {
                    let (before, after) = (positions[a - first], positions[b - first]);
                    return Err(PlanError::Order { row, before, after });
                }
            }
        }
        Ok(())
    }
}

/// Fails unless states are as wide as the model and in the same place.
fn check_states(states: &HiddenStates, bounds: &Bounds) -> Result<(), PlanError> {
    if states.on_host().is_some() != bounds.is_host {
        return Err(PlanError::Device);
    }
    let (width, hidden_size) = (states.width(), bounds.hidden_size);
    if width == hidden_size { Ok(()) } else { Err(PlanError::Width { width, hidden_size }) }
}
