//! Passes over tables of rows that are on a GPU.

use super::{Caches, Decoder};
use crate::attention::Pass;
use crate::cache::KvCache;
use crate::error::ModelError;
use crate::hidden_states::HiddenStates;
use crate::hooks::Hooks;
use crate::pass::PassOutput;
use gorgon_kernels::tree_attention::PassTable;
use smallvec::SmallVec;

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
        self.forward_tables(std::slice::from_ref(pass_table), &mut [cache], hooks)
    }

    /// As [`Self::forward_table`], over rows of several sequences, each with its own cache. The tables are
    /// [`PassTable::joined`].
    ///
    /// # Errors
    /// When a cache is on the CPU, or there are no tables.
    pub fn forward_tables(
        &self,
        tables: &[PassTable],
        caches: &mut [&mut KvCache],
        hooks: &Hooks,
    ) -> Result<PassOutput, ModelError> {
        if tables.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let mut passes = SmallVec::<[Pass<'_>; 1]>::new();
        let mut layers = Caches::new();
        for (table, cache) in tables.iter().zip(caches) {
            let (kvs, view) = cache.parts();
            passes.push(Pass::of_table(table, &view)?);
            layers.push(kvs);
        }
        let x = HiddenStates::on_device(self.embedding.select(PassTable::tokens_of(tables)));
        Ok(self.run(x, &passes, &mut layers, (0..self.layers.len(), None), hooks))
    }
}
