//! How long steps last, as a calibration measured them.

use super::{DrafterChoice, Drafting};
use crate::failure::Failure;
use gorgon_bench::record::CalibrationRecord;
use gorgon_bench::step_times::StepTime;
use gorgon_draft::handover::StepRatios;
use gorgon_draft::step_costs::StepCosts;
use gorgon_model::decoder::Decoder;

impl Drafting {
    /// Times of steps on the model's device, if the heads were calibrated there. Those of other drafters than the heads
    /// are measured while they draft.
    pub(super) fn step_ratios(&self, decoder: &Decoder) -> Result<StepRatios, Failure> {
        let Some(folder) = &self.heads else { return Ok(StepRatios::default()) };
        let device = decoder.compute().choice().to_string();
        let record = CalibrationRecord::read(&folder.path)?.filter(|record| record.device == device);
        let ratios = record.map_or_else(StepRatios::default, |record| step_ratios(&record.step_times));
        Ok(match self.choice.last() {
            DrafterChoice::Heads(_) => ratios,
            _ => StepRatios { drafted: None, ..ratios },
        })
    }
}

/// The ratios of measured times.
pub(crate) fn step_ratios(times: &[StepTime]) -> StepRatios {
    StepRatios {
        verified: StepCosts::known(times.iter().map(|time| (time.nodes, time.seconds - time.draft_seconds))),
        drafted: (!times.is_empty()).then(|| StepCosts::known(times.iter().map(|time| (time.nodes, time.seconds)))),
    }
}
