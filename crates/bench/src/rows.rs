//! The start of a drafter's corrected probabilities: what it learns from text that the model wrote.

use crate::BenchError;
use crate::measure::{BenchPrompt, Comparison};
use gorgon_core::accept::random::SeededRandom;
use gorgon_core::tree::{DepthCalibration, NgramTable, RowCalibration, TrellisTree};
use gorgon_draft::calibrated::CalibratedDrafter;
use gorgon_infer::{Method, Request, Session};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Nodes of the trees that are decoded with.
const NODES: usize = 32;

/// Decodes prompts with trellis trees, and hands out the corrections that were learned from all of them, by depth.
/// `table` has the n-grams that the texts begin with.
///
/// # Errors
/// When a prompt does not fit, or the model or the drafter fails.
pub fn corrections(
    comparison: &mut Comparison<'_>,
    prompts: &[BenchPrompt],
    table: Option<Arc<NgramTable>>,
) -> Result<Vec<DepthCalibration>, BenchError> {
    let longest = prompts.iter().map(|prompt| prompt.ids.len()).max().unwrap_or(0);
    let mut target = comparison.target(longest);
    let (rule, limits, seed) = (comparison.rule, &comparison.limits, comparison.seed);
    let tree = TrellisTree::new(NODES, TrellisTree::DEPTH).map_err(|error| BenchError::Empty(error.to_string()))?;
    let mut drafter = CalibratedDrafter::new(&mut *comparison.drafter, RowCalibration::new(), table);
    for prompt in prompts {
        let random = &mut SeededRandom::behind(seed, &prompt.ids, 0);
        Session::new(&mut target, &mut drafter).generate(
            Method { tree: &tree, rule },
            Request::new(&prompt.ids, limits, random),
            &mut |_| ControlFlow::Continue(()),
        )?;
        drafter.begin_with_learned();
    }
    Ok(drafter.calibration().learned().to_vec())
}
