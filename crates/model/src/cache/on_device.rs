//! A cache's tensors on GPUs: one for the layers of each stage.

use crate::stages::Stage;
use burn::tensor::{DType, Int, Tensor};
use gorgon_kernels::cache_rows;

/// Tensors on devices other than the CPU.
#[derive(Debug)]
pub(super) struct OnDevice {
    /// The layers of each stage on its device, `[2 · layers, kv_heads, capacity, head_dim]`: keys of the stage's layer
    /// `l` at `2 l`, values at `2 l + 1`.
    pub rows: Vec<Tensor<4>>,
    /// Cosines and sines on the first device of every position there is room for, and maybe of more:
    /// `[positions, 2, rotary_dim / 2]`.
    pub angles: Tensor<3>,
}

/// Memory of a stage for `capacity` rows, the first ones of which are `held`.
///
/// # Shapes
/// `heads`: key/value heads, size of a head.
pub(super) fn grown(
    stage: &Stage,
    heads: [usize; 2],
    (capacity, format): (usize, DType),
    held: Option<&Tensor<4>>,
) -> Tensor<4> {
    let [kv_heads, head_dim] = heads;
    let shape = |slots: usize| [2 * stage.layers.len(), kv_heads, slots, head_dim];
    // Made flat: a device may pad the rows of other tensors, and kernels count on none being padded.
    let zeros = |slots: usize| {
        let size = shape(slots).iter().product::<usize>();
        Tensor::<1>::zeros([size], (&stage.device, format)).reshape(shape(slots))
    };
    match held {
        None => zeros(capacity),
        Some(held) => Tensor::cat(vec![held.clone(), zeros(capacity - held.dims()[2])], 2)
            .reshape([shape(capacity).iter().product::<usize>()])
            .reshape(shape(capacity)),
    }
}

impl OnDevice {
    /// The layers of all stages: the tensor of their stage, and their number in it.
    pub fn layers(&self) -> impl Iterator<Item = (Tensor<4>, usize)> {
        self.rows.iter().flat_map(|rows| (0..rows.dims()[0] / 2).map(|layer| (rows.clone(), layer)))
    }

    /// A copy with memory of its own: rows are written in place.
    pub fn copied(&self) -> Self {
        let rows = self.rows.iter().map(|rows| rows.clone().mul_scalar(1.0)).collect();
        Self { rows, angles: self.angles.clone() }
    }

    /// Moves the rows of a path together, in every layer at once.
    ///
    /// # Shapes
    /// `path` as [`cache_rows::gather`] takes it, on the first device.
    pub fn compact(&self, path: &Tensor<1, Int>) {
        for (number, rows) in self.rows.iter().enumerate() {
            match number {
                0 => cache_rows::gather(rows, path),
                _ => cache_rows::gather(rows, &path.clone().to_device(&rows.device())),
            }
        }
    }
}
