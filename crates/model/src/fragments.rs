//! Weights that tensor cores multiply, as they are loaded.

use crate::device::Compute;
use crate::weight_rows::WeightRows;
use crate::weights::{Checkpoint, WeightsError};
use burn::tensor::Distribution;
use gorgon_kernels::few_row_matmul::PackError;
use gorgon_kernels::skinny_matmul::{Fragments, is_supported};

/// Weights of a random matrix: a variance of one over the width keeps activations as large as they are.
pub(crate) fn drawn(d_in: usize) -> Distribution {
    let bound = (3.0 / d_in as f64).sqrt();
    Distribution::Uniform(-bound, bound)
}

/// A matrix whose rows are those of the named tensors, to be multiplied with and not looked up; `None` where the device
/// has no product of fragments.
///
/// # Errors
/// When a tensor is missing, of a wrong shape, or cannot be read.
pub(crate) fn load(
    checkpoint: &Checkpoint,
    compute: &Compute,
    names: &[String],
) -> Result<Option<Fragments>, WeightsError> {
    if compute.is_host() {
        return Ok(None);
    }
    let rows = WeightRows::new(checkpoint, names)?;
    let (d_in, d_out) = (rows.d_in, rows.height());
    let (device, dtype) = (compute.device(), compute.format().tensor());
    if !is_supported(d_in, d_out, dtype, device) {
        return Ok(None);
    }
    if checkpoint.is_drawn() {
        return Ok(Some(Fragments::drawn(d_in, d_out, drawn(d_in), dtype, device)));
    }
    let bytes = rows.dense(compute.format()).map_err(|reason| rows.error(PackError::Source(reason)))?;
    let bits: Vec<u16> = bytes.chunks_exact(2).map(|bits| u16::from_le_bytes([bits[0], bits[1]])).collect();
    Ok(Some(Fragments::new(d_in, &bits, dtype, device)))
}
