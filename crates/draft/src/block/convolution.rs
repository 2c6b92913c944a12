//! The two-tap convolution around a sublayer with gradients, over the blocks of a batch (DFlash 2).
//!
//! `C_1(Sublayer(C_0(u)))` with `C_s(z)_{i,c} = Σ_{o=0,1} (base[s,o,c] + δ_i[s,o,⌊c/16⌋]) z_{i-o,c}`, `δ_i = W u_i`, and
//! zeros before the first slot of a block.

use crate::layer::linear;
use crate::parameter::{Init, ParameterSpec};
use burn::tensor::Tensor;

/// Channels that share a coefficient of the slots.
pub(super) const GROUP: usize = 16;

/// The tensors of a convolution, which starts as the identity; `prefix` is what their names start with.
pub(super) fn parameters(prefix: &str, hidden_size: usize) -> [ParameterSpec; 2] {
    [
        ParameterSpec { name: format!("{prefix}base_kernel"), shape: vec![2, 2, hidden_size], init: Init::FirstTap },
        ParameterSpec::zeros(format!("{prefix}kernel_projection.weight"), &[4 * hidden_size / GROUP, hidden_size]),
    ]
}

/// A sublayer between the two sides.
///
/// # Shapes
/// `weights` flat, as in [`parameters`]; `u [blocks · slots, d]`, result the same.
pub(super) fn around(
    weights: &[Tensor<1>],
    slots: usize,
    u: Tensor<2>,
    sublayer: impl FnOnce(&Tensor<2>) -> Tensor<2>,
) -> Tensor<2> {
    let [rows, d] = u.dims();
    let groups = d / GROUP;
    let (base, delta) = (weights[0].clone().reshape([4, d]), linear(&u, &weights[1], 4 * groups, d));
    let coefficient = |at: usize| {
        let own = delta.clone().narrow(1, at * groups, groups).reshape([rows, groups, 1]);
        own.expand([rows, groups, GROUP]).reshape([rows, d]) + base.clone().narrow(0, at, 1)
    };
    let side = |side: usize, z: Tensor<2>| {
        let blocks = z.clone().reshape([rows / slots, slots, d]);
        let zeros = blocks.clone().narrow(1, 0, 1) * 0.0;
        let before = Tensor::cat(vec![zeros, blocks.narrow(1, 0, slots - 1)], 1).reshape([rows, d]);
        coefficient(2 * side) * z + coefficient(2 * side + 1) * before
    };
    side(1, sublayer(&side(0, u)))
}
