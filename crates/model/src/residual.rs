//! The residual stream between layers.

use crate::hidden_states::HiddenStates;
use crate::linear_output::LinearOutput;
use crate::norm::Norm;

/// Rows of the residual stream. The last sublayer's output may not be added to them yet: the next norm adds it, in one
/// launch on a GPU.
#[derive(Debug)]
pub(crate) struct ResidualStream {
    x: HiddenStates,
    added: Option<LinearOutput>,
}

impl ResidualStream {
    /// `x`, and `added` on top of it.
    pub fn new(x: HiddenStates, added: LinearOutput) -> Self {
        Self { x, added: Some(added) }
    }

    /// Everything added up.
    pub fn sum(self) -> HiddenStates {
        match self.added {
            Some(added) => added.added_to(self.x),
            None => self.x,
        }
    }

    /// Everything added up, and the norm of that.
    pub fn normed(self, norm: &Norm, eps: f32) -> (HiddenStates, HiddenStates) {
        match self.added {
            Some(added) => norm.add_forward(self.x, added, eps),
            None => {
                let normed = norm.forward(&self.x, eps);
                (self.x, normed)
            }
        }
    }
}

impl From<HiddenStates> for ResidualStream {
    fn from(x: HiddenStates) -> Self {
        Self { x, added: None }
    }
}
