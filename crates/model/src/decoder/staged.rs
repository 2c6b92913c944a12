//! Passes over layers that are split over devices.

use super::Decoder;
use crate::attention::{Pass, join_tables};
use crate::hidden_states::HiddenStates;
use crate::residual::ResidualStream;
use crate::stages::Stage;
use smallvec::SmallVec;
use std::ops::Range;

impl Decoder {
    /// The devices with their layers, in the order of the layers.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The stages with some of `layers`, and which of them each runs.
    pub(super) fn stages_of(&self, layers: &Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        let Range { start, end } = *layers;
        let runs = move |(number, stage): (usize, &Stage)| {
            let run = stage.layers.start.max(start)..stage.layers.end.min(end);
            (!run.is_empty()).then_some((number, run))
        };
        self.stages.iter().enumerate().filter_map(runs)
    }

    /// Passes as a later stage reads them; `None` where they are there already.
    pub(super) fn passes_at(&self, stage: usize, passes: &[Pass<'_>]) -> Option<SmallVec<[Pass<'static>; 1]>> {
        if stage == 0 {
            return None;
        }
        let moved = passes.iter().map(|pass| pass.on(&self.stages[stage].device, &self.rope));
        let mut moved: SmallVec<[Pass<'static>; 1]> = moved.collect::<Option<_>>()?;
        join_tables(&mut moved);
        Some(moved)
    }

    /// The residual stream on the device of a stage.
    pub(super) fn stream_at(&self, stage: usize, stream: ResidualStream) -> ResidualStream {
        if self.stages.len() == 1 { stream } else { self.moved(stream.sum(), stage).into() }
    }

    /// States on the device of a stage.
    pub(super) fn moved(&self, x: HiddenStates, stage: usize) -> HiddenStates {
        if self.stages.len() == 1 { x } else { x.to_device(&self.stages[stage].device) }
    }
}
