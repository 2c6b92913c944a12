//! Interface of a draft layer that runs on a GPU without reads by the host.

use super::feature_layer::FeatureLayer;
use crate::drafter::DraftError;
use burn::tensor::{Int, Tensor};
use gorgon_kernels::tree_attention::PassTable;
use gorgon_model::cache::KvCache;
use gorgon_model::decoder::ModelError;
use gorgon_model::layer::DraftDecoderLayer;
use gorgon_model::pass::PassOutput;

/// A generation's layer on a GPU, where rows and tokens are known to tables alone.
pub trait DeviceLayer: FeatureLayer + std::fmt::Debug {
    /// As [`FeatureLayer::states`].
    ///
    /// # Shapes
    /// `rows [R]`, result `[1, R, d]`.
    ///
    /// # Errors
    /// As of [`FeatureLayer::states`].
    fn states_on_device(&self, output: &PassOutput, rows: Tensor<1, Int>) -> Result<Tensor<3>, DraftError>;

    /// As [`FeatureLayer::forward`] for a table of rows; the count of rows in `cache` stays as it is.
    ///
    /// # Shapes
    /// `states [1, R, d]` with the table's rows, padding included; result the same.
    ///
    /// # Errors
    /// When the cache is on the CPU.
    fn forward_on_device(
        &self,
        pass_table: &PassTable,
        states: Tensor<3>,
        cache: &mut KvCache,
    ) -> Result<Tensor<3>, ModelError>;

    /// As [`FeatureLayer::logits`], left on the device: `states [1, rows, d]`, result `[1, rows, D]`.
    fn logits_on_device(&self, states: &Tensor<3>) -> Tensor<3>;

    /// The decoder layer in it.
    fn layer(&self) -> &DraftDecoderLayer;
}
