//! The residual block that Medusa's and Hydra's heads share.

use gorgon_kernels::Isa;
use gorgon_kernels::activation::{silu, silu_rows};
use gorgon_kernels::norm::add_rows;
use gorgon_model::hidden_states::HiddenStates;

/// `x + silu(y)`.
pub(crate) fn plus_silu(x: HiddenStates, y: HiddenStates) -> HiddenStates {
    match (x, y) {
        (HiddenStates::Host { values: mut x, width }, HiddenStates::Host { values: mut y, .. }) => {
            silu_rows(Isa::detect(), &mut y);
            add_rows(Isa::detect(), &mut x, &y);
            HiddenStates::Host { values: x, width }
        }
        (x, y) => HiddenStates::on_device(x.into_tensor() + silu(y.into_tensor())),
    }
}
