//! Results of linear layers before they are added up.

use crate::hidden_states::HiddenStates;
use gorgon_kernels::partial_sums::PartialSums;

/// The result of a linear layer, or of a sublayer that ends in one. On a GPU the parts of a product may not be added up
/// yet: the launch that reads it adds them.
#[derive(Debug)]
pub(crate) enum LinearOutput {
    /// Added up.
    Whole(HiddenStates),
    /// Boxed, because it is many times as large as what is passed on for the CPU.
    Parts(Box<PartialSums>),
}

impl LinearOutput {
    /// As hidden states.
    pub fn whole(self) -> HiddenStates {
        match self {
            Self::Whole(states) => states,
            Self::Parts(parts) => HiddenStates::on_device(parts.sum()),
        }
    }

    /// As a product that a kernel reads.
    pub fn parts(self) -> PartialSums {
        match self {
            Self::Whole(states) => PartialSums::whole(states.into_tensor()),
            Self::Parts(parts) => *parts,
        }
    }

    /// `x` and this, added up: in one launch on a GPU.
    pub fn added_to(self, x: HiddenStates) -> HiddenStates {
        match (x, self) {
            (HiddenStates::Device(x), Self::Parts(parts)) => HiddenStates::on_device(parts.added_to(*x)),
            (x, output) => x + output.whole(),
        }
    }
}
