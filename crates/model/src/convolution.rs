//! Two-tap convolution along the rows of a block, around a sublayer (DFlash 2).

use crate::hidden_states::HiddenStates;
use crate::linear::{Linear, Loader};
use crate::weights::WeightsError;
use burn::tensor::{Tensor, TensorData};
use gorgon_core::PooledVec;

/// Channels that share a coefficient of the rows.
const GROUP: usize = 16;
/// Sides of a sublayer: what it reads, and what it returns.
const SIDES: usize = 2;
/// Rows that a coefficient belongs to: the row itself and the one before it.
const TAPS: usize = 2;

/// `x ← x + C_1(Sublayer(C_0(u)))` with `C_s(z)_{i,c} = Σ_{o=0,1} (base[s,o,c] + δ_i[s,o,⌊c/16⌋]) z_{i-o,c}`,
/// `δ_i = W u_i`, and zeros before the first row.
#[derive(Debug)]
pub(crate) struct Convolution {
    /// `[2, 2, d]`.
    base: Vec<f32>,
    /// `[2 · 2 · d / 16, d]`.
    projection: Linear,
}

impl Convolution {
    /// Loads `{prefix}base_kernel` and `{prefix}kernel_projection.weight`.
    pub fn load(loader: &Loader<'_>, prefix: &str) -> Result<Self, WeightsError> {
        let base = loader.checkpoint.read_all(&format!("{prefix}base_kernel"))?;
        Ok(Self { base, projection: loader.linear(&[format!("{prefix}kernel_projection")], false)? })
    }

    /// A sublayer between the two sides, over the rows of one block.
    ///
    /// # Shapes
    /// `u [rows, d]`, result the same.
    pub fn around(&self, u: HiddenStates, sublayer: impl FnOnce(&HiddenStates) -> HiddenStates) -> HiddenStates {
        let delta = self.projection.forward(&u);
        self.side(1, sublayer(&self.side(0, u, &delta)), &delta)
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.projection.bytes() + 4 * self.base.len()
    }

    fn side(&self, side: usize, z: HiddenStates, delta: &HiddenStates) -> HiddenStates {
        match (z, delta) {
            (HiddenStates::Host { values, width }, HiddenStates::Host { values: delta, .. }) => {
                HiddenStates::Host { values: self.on_host(side, &values, delta, width), width }
            }
            (z, delta) => HiddenStates::on_device(self.on_device(side, z.into_tensor(), &delta.tensor())),
        }
    }

    fn on_host(&self, side: usize, z: &[f32], delta: &[f32], d: usize) -> PooledVec<f32> {
        let (groups, mut y) = (d / GROUP, PooledVec::unset(z.len()));
        for (row, out) in y.chunks_exact_mut(d).enumerate() {
            let coefficient = |tap: usize, channel: usize| {
                let at = side * TAPS + tap;
                self.base[at * d + channel] + delta[(row * SIDES * TAPS + at) * groups + channel / GROUP]
            };
            let here = &z[row * d..(row + 1) * d];
            match row.checked_sub(1).map(|before| &z[before * d..row * d]) {
                None => (0..d).for_each(|c| out[c] = coefficient(0, c) * here[c]),
                Some(before) => {
                    (0..d).for_each(|c| out[c] = coefficient(0, c) * here[c] + coefficient(1, c) * before[c]);
                }
            }
        }
        y
    }

    fn on_device(&self, side: usize, z: Tensor<3>, delta: &Tensor<3>) -> Tensor<3> {
        let [_, rows, d] = z.dims();
        let (groups, place) = (d / GROUP, (&z.device(), z.dtype()));
        let coefficient = |tap: usize| {
            let at = side * TAPS + tap;
            let base = TensorData::new(self.base[at * d..(at + 1) * d].to_vec(), [1, 1, d]);
            let own = delta.clone().narrow(2, at * groups, groups).reshape([1, rows, groups, 1]);
            own.expand([1, rows, groups, GROUP]).reshape([1, rows, d]) + Tensor::<3>::from_data(base, place)
        };
        let zeros = Tensor::zeros([1, 1, d], place);
        let before = Tensor::cat(vec![zeros, z.clone().narrow(1, 0, rows - 1)], 1);
        coefficient(0) * z + coefficient(1) * before
    }
}
