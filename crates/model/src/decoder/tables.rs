//! Passes over tables of rows that are on a GPU.

use super::{Caches, Decoder};
use crate::attention::Pass;
use crate::cache::KvCache;
use crate::error::ModelError;
use crate::hidden_states::HiddenStates;
use crate::hooks::Hooks;
use crate::pass::PassOutput;
use gorgon_kernels::tree_attention::PassTable;

impl Decoder {
    /// One forward pass over a table of rows on a GPU, which may have been written there: nothing is uploaded or read.
    ///
    /// # Shapes
    /// The output has a row for each of the table's, padding included.
    ///
    /// # Errors
    /// When the cache is on the CPU.
    pub fn forward_table(
        &self,
        pass_table: &PassTable,
        cache: &mut KvCache,
        hooks: &Hooks,
    ) -> Result<PassOutput, ModelError> {
        let (kvs, view) = cache.parts();
        let pass = Pass::of_table(pass_table, &view)?;
        let mut layers = Caches::new();
        layers.push(kvs);
        let x = HiddenStates::on_device(self.embedding.select(pass_table.tokens()));
        Ok(self.run(x, &[pass], &mut layers, (0..self.layers.len(), None), hooks))
    }
}
