//! Files of sub-layers to leave out.

use gorgon_model::pass::SkippedSublayers;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The largest such file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Sub-layers to leave out, by the numbers of their layers from 0: `{"attention": [3, 5], "mlp": [4]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sublayers {
    /// Attentions.
    pub attention: Vec<usize>,
    /// Feed-forward networks.
    pub mlp: Vec<usize>,
}

impl Sublayers {
    /// Reads a file.
    ///
    /// # Errors
    /// One line with the path, when it cannot be read or is no such list.
    pub fn read(path: &Path) -> Result<Self, String> {
        let wrong = |reason: String| format!("skip:{}: {reason}", path.display());
        let bytes = gorgon_runs::file::read(path, MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
        let document = gorgon_runs::json::read(&bytes).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_value(document).map_err(|error| wrong(error.to_string()))
    }

    /// The sub-layers of a model with `layers` layers.
    ///
    /// # Errors
    /// When it does not have one of them.
    pub fn of(&self, layers: usize) -> Result<SkippedSublayers, String> {
        SkippedSublayers::new(layers, &self.attention, &self.mlp)
            .map_err(|layer| format!("layer {layer} of a model with {layers} layers, which are numbered from 0"))
    }
}
