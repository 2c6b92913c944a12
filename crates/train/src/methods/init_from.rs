//! Fitting that goes on from heads there are.

use crate::error::TrainError;
use crate::parameters::{Parameter, from_values};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadSpec;
use gorgon_runs::tensors::Stored;
use std::collections::BTreeMap;

/// Values to start from, by name.
#[derive(Clone, Debug)]
pub struct Start(BTreeMap<String, Vec<f32>>);

impl Start {
    /// Reads the heads of a folder as what is to be fitted: every parameter under its own name and in its shape, and
    /// the constants that go with them (EAGLE-3's draft vocabulary) equal. A backbone around them is left alone.
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
        if let Some(left) = left_out(folder, &values, constants) {
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

/// What the heads have beyond what is fitted: a tensor, or something that their config says of them.
fn left_out(folder: &HeadsFolder, fitted: &BTreeMap<String, Vec<f32>>, constants: &[Stored]) -> Option<String> {
    if let HeadSpec::Eagle(facts) = &folder.detected.facts {
        let flags = [("norm_output", facts.norm_output), ("norm_before_residual", facts.norm_before_residual)];
        if let Some((flag, _)) = flags.into_iter().find(|(_, said)| *said == Some(true)) {
            return Some(flag.to_owned());
        }
    }
    let known = |name: &String| fitted.contains_key(name) || constants.iter().any(|constant| constant.name == *name);
    folder.checkpoint.entries().keys().find(|name| own(name) && !known(name)).cloned()
}

/// Whether a tensor is the heads' own: copies of the backbone's tables are not, and modules lie among the backbone's
/// layers.
fn own(name: &str) -> bool {
    let backbones = name.starts_with("model.") || name == "lm_head.weight" || name.ends_with("embed_tokens.weight");
    !backbones || name.ends_with("eh_proj.weight")
}
