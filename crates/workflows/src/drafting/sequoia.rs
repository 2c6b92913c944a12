//! Optimal trees under the positional acceptance that was measured for heads.

use crate::failure::Failure;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::TreeShape;
use gorgon_core::tree::sequoia::SequoiaTable;

/// Advice about heads that were not measured.
const CALIBRATE: &str = "gorgon tree calibrate measures it";

/// An optimal tree under measured positional acceptance.
pub struct SequoiaChoice {
    /// Its shape.
    pub shape: TreeShape,
    /// Tokens per step that are expected.
    pub tokens: f64,
    /// Speed over plain decoding that is expected.
    pub speedup: f64,
}

/// Sequoia's tree of a size, or of the size that should decode fastest with the measured step times.
///
/// # Errors
/// When the positional acceptance was not measured, or no such tree exists.
pub fn sequoia_choice(record: &CalibrationRecord, nodes: Option<usize>) -> Result<SequoiaChoice, Failure> {
    if record.children.is_empty() {
        return Err(Failure::input("the positional acceptance was not measured").hint(CALIBRATE));
    }
    let largest = nodes.unwrap_or_else(|| record.step_times.last().map_or(1, |time| time.nodes));
    let levels = record.accuracies.len() + 1;
    let table = SequoiaTable::new(&record.children, largest, levels).map_err(Failure::input)?;
    let (nodes, levels) = match nodes {
        Some(nodes) => (nodes, levels),
        None => {
            // Measured steps include the drafter, and heads draft all levels at once.
            let times: Vec<f64> = (1..=largest).filter_map(|n| record.cost(n)).collect();
            let choice = table.choose(&times, 0.0).map_err(Failure::input)?;
            (choice.nodes, choice.levels)
        }
    };
    let shape = table.shape(nodes, levels).map_err(Failure::input)?;
    let tokens = table.expected_tokens(nodes, levels).unwrap_or(1.0);
    let speedup = record.cost(nodes).map_or(f64::NAN, |cost| tokens / cost);
    Ok(SequoiaChoice { shape, tokens, speedup })
}
