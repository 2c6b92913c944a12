//! Terms of attention scores by distance, as T5 has them: distances share terms in buckets.

use crate::config::{ModelConfig, PositionBuckets};
use crate::layout::LayerNames;
use crate::linear::Loader;
use crate::weights::WeightsError;
use gorgon_kernels::tree_attention::PositionBias;
use std::sync::Arc;

impl PositionBuckets {
    /// The row of the table of terms that holds a distance, a query's position less its key's. A causal stack has all
    /// rows for keys before the query, another one half of them for each side.
    pub fn index(self, distance: isize, is_causal: bool) -> usize {
        let side = self.of_side(is_causal);
        match is_causal {
            true => bucket(side, distance.max(0) as usize),
            false => bucket(side, distance.unsigned_abs()) + if distance < 0 { side.count } else { 0 },
        }
    }

    fn of_side(self, is_causal: bool) -> Self {
        if is_causal { self } else { Self { count: self.count / 2, ..self } }
    }
}

/// The terms of a stack's layers, by the names in one of them; `None` of a model without.
///
/// # Shapes
/// The tensor is `[buckets, heads]`.
pub(crate) fn load(
    loader: &Loader<'_>,
    config: &ModelConfig,
    names: &LayerNames,
) -> Result<Option<Arc<PositionBias>>, WeightsError> {
    let (Some(name), Some(encoder)) = (&names.position_bias, &config.encoder) else { return Ok(None) };
    let (buckets, is_causal) = (encoder.buckets, names.cross.is_some());
    let terms = loader.checkpoint.read_all(name)?;
    let far = farthest(buckets.of_side(is_causal));
    let distances = (far + 1, if is_causal { 0 } else { far });
    let bias = PositionBias::new(terms, config.heads, distances, |distance| buckets.index(distance, is_causal));
    Ok(Some(Arc::new(bias)))
}

/// The bucket of a distance in one direction: the first half of the buckets are one distance each, the others grow
/// with its logarithm up to `max_distance`, in `f32` as checkpoints were trained with.
fn bucket(side: PositionBuckets, distance: usize) -> usize {
    let exact = side.count / 2;
    if distance < exact {
        return distance;
    }
    let along = (distance as f32 / exact as f32).ln() / (side.max_distance as f64 / exact as f64).ln() as f32;
    (exact + (along * (side.count - exact) as f32) as usize).min(side.count - 1)
}

/// The least distance in the last bucket: all greater ones are in it too.
fn farthest(side: PositionBuckets) -> usize {
    (0..side.max_distance).find(|&distance| bucket(side, distance) == side.count - 1).unwrap_or(side.max_distance)
}

#[cfg(test)]
mod tests;
