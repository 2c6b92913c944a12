//! The interface of a format.

use super::tensors::{Part, Rows, Tensors};
use crate::weights::WeightsError;
use std::fmt::Debug;

/// A format: which tensors a module consists of, and how they are read.
pub(crate) trait Format: Debug + Send + Sync {
    /// Suffixes of tensors that only a quantised module has; one of them is enough.
    fn markers(&self) -> &[&'static str];

    /// The matrix's shape `[out, in]` according to the stored tensors.
    fn stored_shape(&self, tensors: &Tensors<'_>) -> Result<[usize; 2], WeightsError>;

    /// The tensors of a module of shape `[out, in]`.
    fn parts(&self, tensors: &Tensors<'_>, shape: [usize; 2]) -> Vec<Part>;

    /// A reader of its rows; the tensors have been compared with [`Self::parts`].
    fn open<'a>(&self, tensors: Tensors<'a>, shape: [usize; 2]) -> Result<Box<dyn Rows + 'a>, WeightsError>;

    /// Bits of a weight, inputs of a scale, and whether zero points are stored, for people.
    fn description(&self) -> String;
}
