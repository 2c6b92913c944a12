//! Trees of a size that follows from the times of the steps that are decoded.

use super::tree::{CALIBRATED, MOST_MEASURED};
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

impl Drafting {
    /// Where heads draft on a CPU and a calibration on it stored no fixed tree: drafts in trellis trees whose size follows
    /// from the times of the steps, and none where none pay. The times of a calibration are known before. Greedy and
    /// coupled text does not depend on it.
    ///
    /// # Errors
    /// When the heads' records cannot be read.
    pub fn by_times(self, compute: &Compute) -> Result<Self, Failure> {
        let Some(folder) = self.heads.as_ref().filter(|_| self.can_be_timed(compute)) else { return Ok(self) };
        let record = CalibrationRecord::read(&folder.path)?;
        let record = record.filter(|record| record.device == compute.choice().to_string());
        let costs = record.map_or_else(StepCosts::timed, |record| {
            StepCosts::known(record.step_times.iter().map(|time| (time.nodes, time.seconds)))
        });
        let tree = TrellisTree::new(MOST_MEASURED, TrellisTree::DEPTH).map_err(Failure::input)?;
        let tree_name = TreeChoice::Trellis(Some((MOST_MEASURED, TrellisTree::DEPTH))).to_string();
        let corrected = Some(row_calibration(self.heads.as_ref())?);
        let timed = Some((tree.clone(), costs));
        Ok(Self { tree_name, builder: Box::new(tree), cost: None, corrected, timed, ..self })
    }

    /// Whether [`Self::by_times`] changes anything, or did.
    pub fn can_be_timed(&self, compute: &Compute) -> bool {
        let DrafterChoice::Heads(method) = self.choice else { return false };
        let has_tree = self.is_plain() || self.stops_on(&compute.choice().to_string());
        self.timed.is_some() || !has_tree && compute.is_host() && takes_trellis(method)
    }

    /// Says so where a calibration chose plain decoding for the heads, or nothing was measured of them and no tree is
    /// named.
    ///
    /// # Errors
    /// When the heads' records cannot be read.
    pub fn note_calibration(&self, tree: Option<&TreeChoice>, model: &Path, console: &Console) -> Result<(), Failure> {
        let Some(heads) = &self.heads else { return Ok(()) };
        if self.tree_name == CALIBRATED && self.is_plain() {
            let heads = heads.path.display();
            let reason = "found no tree that pays here; --tree chain:2 drafts all the same";
            console.say(format!("note: no drafts: the calibration of {heads} {reason}"));
        }
        let is_named = self.is_plain() || self.timed.is_some() || tree.is_some();
        if is_named || CalibrationRecord::read(&heads.path)?.is_some() {
            return Ok(());
        }
        let [model, heads] = [model, &heads.path].map(visible::word);
        console.say(format!(
            "note: the heads are not calibrated, so drafts may be slower than plain decoding; gorgon tree calibrate \
             --model {model} --heads {heads} --prompts FILE stores the tree that pays here"
        ));
        Ok(())
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
