//! Fitting that goes on from heads there are.

use crate::error::TrainError;
use crate::parameters::{Parameter, from_values};
use gorgon_draft::folder::HeadsFolder;
use gorgon_runs::tensors::Stored;
use std::collections::BTreeMap;

/// Values to start from, by name.
#[derive(Clone, Debug)]
pub struct Start(BTreeMap<String, Vec<f32>>);

impl Start {
    /// Reads the heads of a folder as what is to be fitted: every parameter under its own name and in its shape, and the
    /// constants that go with them (EAGLE-3's draft vocabulary) equal. A backbone around them is left alone.
    ///
    /// # Errors
    /// When a tensor is missing or of another shape, heads would be left out, or a constant differs.
    pub fn read(folder: &HeadsFolder, parameters: &[Parameter], constants: &[Stored]) -> Result<Self, TrainError> {
        let (path, checkpoint) = (folder.path.display(), &folder.checkpoint);
        let wrong =
            |reason: String| TrainError::Data(format!("{path}: {reason}, so that fitting cannot start from it"));
        let mut values = BTreeMap::new();
        for Parameter { name, shape, .. } in parameters {
            let Some(entry) = checkpoint.entries().get(name) else { return Err(wrong(format!("there is no {name}"))) };
            if entry.shape != *shape {
                return Err(wrong(format!("{name} is {:?}, not {shape:?}", entry.shape)));
            }
            values.insert(name.clone(), checkpoint.read_all(name).map_err(|error| wrong(error.to_string()))?);
        }
        if let Some(left) = left_out(folder, &values) {
            return Err(wrong(format!("{left} is not among what is fitted")));
        }
        for constant in constants {
            let there = checkpoint.entries().contains_key(&constant.name);
            if !there || checkpoint.read_stored(&constant.name).ok().as_ref() != Some(&constant.bytes) {
                return Err(wrong(format!("{} is another one than that of the training data", constant.name)));
            }
        }
        Ok(Self(values))
    }

    /// These values in place of those that parameters have.
    pub(super) fn apply(&self, mut parameters: Vec<Parameter>) -> Vec<Parameter> {
        for parameter in &mut parameters {
            if let Some(values) = self.0.get(&parameter.name) {
                parameter.value = from_values(values.clone(), &parameter.value.device());
            }
        }
        parameters
    }
}

/// A tensor of heads or modules beyond those that are fitted: one with the name of a fitted tensor but for its numbers.
fn left_out(folder: &HeadsFolder, fitted: &BTreeMap<String, Vec<f32>>) -> Option<String> {
    let kind = |name: &str| -> String { name.chars().filter(|c| !c.is_ascii_digit()).collect() };
    let kinds: Vec<String> = fitted.keys().filter(|name| own(name)).map(|name| kind(name)).collect();
    let beyond = |name: &&String| own(name) && !fitted.contains_key(*name) && kinds.contains(&kind(name));
    folder.checkpoint.entries().keys().find(beyond).cloned()
}

/// Whether a name is one of heads: a layer of a module has the names of the backbone's layers.
fn own(name: &str) -> bool {
    !name.starts_with("model.layers.") || name.ends_with("eh_proj.weight")
}
