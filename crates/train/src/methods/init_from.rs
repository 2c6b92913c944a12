//! Initial values from existing heads.

use crate::error::TrainError;
use crate::parameters::{Parameter, from_values};
use gorgon_draft::folder::HeadsFolder;
use gorgon_draft::format::HeadSpec;
use gorgon_runs::tensors::Stored;
use std::collections::BTreeMap;

/// Initial values of parameters, by name.
#[derive(Clone, Debug)]
pub struct InitialValues(BTreeMap<String, Vec<f32>>);

impl InitialValues {
    /// Reads the values of all `parameters` from a folder of heads. Their names and shapes have to be the same, and the
    /// constants beside them (EAGLE-3's draft vocabulary) equal. A backbone around the heads is ignored.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape, a tensor of the heads has no parameter, or a constant differs.
    pub fn read(folder: &HeadsFolder, parameters: &[Parameter], constants: &[Stored]) -> Result<Self, TrainError> {
        let (path, checkpoint) = (folder.path.display(), &folder.checkpoint);
        let wrong = |reason: String| TrainError::Data(format!("{path}: {reason}, so fitting cannot start from it"));
        let mut values = BTreeMap::new();
        for Parameter { name, shape, .. } in parameters {
            let Some(entry) = checkpoint.entries().get(name) else { return Err(wrong(format!("{name} is missing"))) };
            if entry.shape != *shape {
                return Err(wrong(format!("{name} is {:?}, not {shape:?}", entry.shape)));
            }
            values.insert(name.clone(), checkpoint.read_all(name).map_err(|error| wrong(error.to_string()))?);
        }
        if let Some(left) = left_out(folder, &values, constants) {
            return Err(wrong(format!("{left} is not among what is fitted")));
        }
        for constant in constants {
            let exists = checkpoint.entries().contains_key(&constant.name);
            if !exists || checkpoint.read_stored(&constant.name).ok().as_ref() != Some(&constant.bytes) {
                return Err(wrong(format!("{} differs from that of the training data", constant.name)));
            }
        }
        Ok(Self(values))
    }

    /// The parameters with these values.
    pub(super) fn apply(&self, mut parameters: Vec<Parameter>) -> Vec<Parameter> {
        for parameter in &mut parameters {
            if let Some(values) = self.0.get(&parameter.name) {
                parameter.value = from_values(values.clone(), &parameter.value.device());
            }
        }
        parameters
    }
}

/// A tensor or a config key of the heads that the parameters do not have.
fn left_out(folder: &HeadsFolder, fitted: &BTreeMap<String, Vec<f32>>, constants: &[Stored]) -> Option<String> {
    if let HeadSpec::Eagle(spec) = &folder.detected.spec {
        let flags = [("norm_output", spec.norm_output), ("norm_before_residual", spec.norm_before_residual)];
        if let Some((flag, _)) = flags.into_iter().find(|(_, set)| *set == Some(true)) {
            return Some(flag.to_owned());
        }
    }
    if let HeadSpec::Block(spec) = &folder.detected.spec
        && spec.vocab_map
    {
        return Some("d2t".into());
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
