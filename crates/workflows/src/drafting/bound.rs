//! Files of drafters that are of the weights of one model.

use super::Drafting;
use crate::failure::Failure;
use crate::files;
use std::path::Path;

impl Drafting {
    /// Binds the files that drafters write to the weights of the models that they draft for. Weights are hashed only
    /// where there is such a file.
    ///
    /// # Errors
    /// When a file is of other weights, or weights cannot be read.
    pub(super) fn bind(&mut self, target: &Path) -> Result<(), Failure> {
        self.choice.each_method(&mut |method, model| match method.is_of_weights() {
            true => method.bind(&files::weights_hash(model.unwrap_or(target))?).map_err(Failure::input),
            false => Ok(()),
        })
    }
}
