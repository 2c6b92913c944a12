//! Trees of a size that follows from the times of the steps that are decoded: for heads that were not calibrated here.

use super::tree::TRELLIS;
use super::{Drafting, row_calibration};
use crate::console::Console;
use crate::failure::Failure;
use gorgon_bench::record::CalibrationRecord;
use gorgon_core::tree::{TreeChoice, TrellisTree};
use gorgon_draft::choice::DrafterChoice;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::fallback::FallbackDrafter;
use gorgon_draft::format::HeadsMethod;
use gorgon_draft::step_costs::StepCosts;
use gorgon_model::device::Compute;
use gorgon_runs::visible;
use std::path::Path;
use std::time::Instant;

/// Nodes of the largest tree: on a CPU larger ones seldom pay.
const LARGEST: usize = 16;

impl Drafting {
    /// Where heads draft on a CPU and no tree was calibrated for it: drafts in trees whose size follows from the times of
    /// steps, and none where none pay. The fastest tree of a calibration, if that is a trellis, begins with its times.
    /// Greedy and coupled text does not depend on it.
    ///
    /// # Errors
    /// When the heads' records cannot be read.
    pub fn by_times(self, compute: &Compute) -> Result<Self, Failure> {
        let DrafterChoice::Heads(method) = self.choice else { return Ok(self) };
        let is_measured = self.is_plain() || self.stops_on(&compute.choice().to_string());
        if is_measured || !compute.is_host() || !takes_trellis(method) {
            return Ok(self);
        }
        let record = self.heads.as_ref().map(|folder| CalibrationRecord::read(&folder.path)).transpose()?.flatten();
        let record = record.filter(|record| record.device == compute.choice().to_string());
        if let Some(record) = record.filter(|_| self.tree_name == TRELLIS) {
            let times = record.step_times.iter().map(|time| (time.nodes, time.seconds));
            let tree = TrellisTree::new(self.builder.max_nodes(), TrellisTree::DEPTH).map_err(Failure::input)?;
            return Ok(Self { timed: Some((tree, StepCosts::known(times))), ..self });
        }
        let tree = TrellisTree::new(LARGEST, TrellisTree::DEPTH).map_err(Failure::input)?;
        let tree_name = TreeChoice::Trellis(Some((LARGEST, TrellisTree::DEPTH))).to_string();
        let corrected = Some(row_calibration(self.heads.as_ref())?);
        let timed = Some((tree.clone(), StepCosts::timed()));
        Ok(Self { tree_name, builder: Box::new(tree), cost: None, corrected, timed, ..self })
    }

    /// Says so where nothing was measured of the heads that draft.
    ///
    /// # Errors
    /// When the heads' records cannot be read.
    pub fn note_uncalibrated(&self, model: &Path, console: &Console) -> Result<(), Failure> {
        let Some(heads) = self.heads.as_ref().filter(|_| !self.is_plain()) else { return Ok(()) };
        if CalibrationRecord::read(&heads.path)?.is_some() {
            return Ok(());
        }
        let [model, heads] = [model, &heads.path].map(visible::word);
        let meanwhile = match self.is_timed() {
            true => "trees are as large as pays by the times of the steps so far",
            false => "drafts may be slower than plain decoding",
        };
        console.say(format!(
            "note: the heads are not calibrated: {meanwhile}; gorgon tree calibrate --model {model} --heads {heads} \
             --prompts FILE stores the tree that pays here"
        ));
        Ok(())
    }

    /// Whether the size of trees follows from the times of steps.
    pub fn is_timed(&self) -> bool {
        self.timed.is_some()
    }

    /// A drafter whose steps are timed, if they are to be.
    pub(super) fn timing(&self, drafter: Box<dyn Drafter>) -> Box<dyn Drafter> {
        let Some((tree, costs)) = &self.timed else { return drafter };
        let start = Instant::now();
        Box::new(FallbackDrafter::timed(drafter, tree.clone(), costs.clone(), Box::new(move || start.elapsed())))
    }
}

/// Whether heads draft trees of any shape.
fn takes_trellis(method: HeadsMethod) -> bool {
    match method {
        HeadsMethod::Medusa | HeadsMethod::Hydra | HeadsMethod::Eagle | HeadsMethod::Mtp | HeadsMethod::Block => true,
        HeadsMethod::Kangaroo | HeadsMethod::Probes(_) => false,
    }
}
