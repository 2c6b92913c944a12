//! Weights that tensor cores multiply, as they are loaded.

use crate::device::Compute;
use crate::rounding::rounding;
use crate::weight_rows::WeightRows;
use crate::weights::{Checkpoint, WeightsError};
use burn::tensor::Distribution;
use gorgon_kernels::few_row_matmul::PackError;
use gorgon_kernels::quantised_matmul::{Codes, Rounding};
use gorgon_kernels::skinny_matmul::codes::{CodedFragments, holds};
use gorgon_kernels::skinny_matmul::{Fragments, is_supported};

/// A matrix in the order of fragments.
pub(crate) enum Tiles {
    /// In 16 bits.
    Plain(Box<Fragments>),
    /// In integers.
    Coded(Box<CodedFragments>),
}

/// Weights of a random matrix: a variance of one over the width keeps activations as large as they are.
pub(crate) fn drawn(d_in: usize) -> Distribution {
    let bound = (3.0 / d_in as f64).sqrt();
    Distribution::Uniform(-bound, bound)
}

/// A matrix whose rows are those of the named tensors, to be multiplied with and not looked up; `None` where the device
/// has no product of fragments.
///
/// # Errors
/// When a tensor is missing, of a wrong shape, or cannot be read, and where weights are to be integers and this matrix
/// cannot be in them.
pub(crate) fn load(
    checkpoint: &Checkpoint,
    compute: &Compute,
    names: &[String],
) -> Result<Option<Tiles>, WeightsError> {
    if compute.is_host() {
        return Ok(None);
    }
    let rows = WeightRows::new(checkpoint, names)?;
    if let Some(rounding) = rounding(compute) {
        let drawn = checkpoint.is_drawn();
        let (codes, values) = if drawn { drawn_codes(&rows, rounding) } else { codes(&rows, compute, rounding)? };
        let (device, dtype) = (compute.device(), compute.format().tensor());
        return Ok(Some(Tiles::Coded(Box::new(CodedFragments::new(&codes, &values, dtype, device)))));
    }
    let (d_in, d_out) = (rows.d_in, rows.height());
    let (device, dtype) = (compute.device(), compute.format().tensor());
    if !is_supported(d_in, d_out, dtype, device) {
        return Ok(None);
    }
    if checkpoint.is_drawn() {
        return Ok(Some(Tiles::Plain(Box::new(Fragments::drawn(d_in, d_out, drawn(d_in), dtype, device)))));
    }
    let bytes = rows.dense(compute.format()).map_err(|reason| rows.error(PackError::Source(reason)))?;
    let bits: Vec<u16> = bytes.chunks_exact(2).map(|bits| u16::from_le_bytes([bits[0], bits[1]])).collect();
    Ok(Some(Tiles::Plain(Box::new(Fragments::new(d_in, &bits, dtype, device)))))
}

/// A matrix as codes: those of a quantised checkpoint, or rounded ones. Codes of a checkpoint are not rounded again.
fn codes(rows: &WeightRows<'_>, compute: &Compute, rounding: Rounding) -> Result<(Codes, Vec<u8>), WeightsError> {
    let refused = |reason: &str| rows.error(PackError::Source(reason.into()));
    if !rows.d_in.is_multiple_of(32) {
        return Err(refused(&format!(
            "rows of {} inputs: on a GPU --weights int8 and int4 take multiples of 32",
            rows.d_in
        )));
    }
    let Some(layout) = rows.codes().and_then(|codes| codes.layout(compute.integers().weights)) else {
        let rounded = rounding.round(rows.d_in, rows.height(), rows).map_err(|error| rows.error(error))?;
        return Ok((rounded.codes, rounded.values));
    };
    if !holds(&layout) {
        return Err(refused(
            "on a GPU --weights int8 and int4 take symmetric codes, in order and in groups of whole 32 inputs; \
             leave them out to have these weights in 16 bits",
        ));
    }
    let mut values = vec![0; layout.d_in * layout.d_out];
    rows.read_codes(0..layout.d_out, &mut values).map_err(|reason| rows.error(PackError::Source(reason)))?;
    Ok((layout, values))
}

/// Random codes, with scales that give weights the variance of [`drawn`].
fn drawn_codes(rows: &WeightRows<'_>, rounding: Rounding) -> (Codes, Vec<u8>) {
    let (d_in, d_out, bits) = (rows.d_in, rows.height(), rounding.bits);
    let group = rounding.group.unwrap_or(d_in).min(d_in);
    let scale = (3.0 / d_in as f32).sqrt() / f32::from(bits.middle());
    let scales = vec![rounding.scale_format.round(scale); d_out * d_in.div_ceil(group)];
    // The upper half of a Weyl sequence's product is random enough for weights that nobody reads.
    let code = |i: usize| ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits.bits())) as u8;
    let values = (0..d_in * d_out).map(code).collect();
    let scale_format = rounding.scale_format;
    (Codes { d_in, d_out, bits, group, scales, scale_format, zeros: None, order: None, numbers: None }, values)
}
