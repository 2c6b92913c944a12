//! Parameters, moments and the state of the loop on disk.

use crate::error::{TrainError, io};
use crate::micro_batch::Known;
use crate::optimizer::Moments;
use crate::parameters::{Parameter, from_values};
use burn::tensor::Tensor;
use gorgon_kernels::host;
use gorgon_runs::RunError;
use gorgon_runs::run_dir::RunDir;
use gorgon_runs::tensors::{self, Source, Stored, write_f32};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;

/// The parameters in a checkpoint's folder.
pub const MODEL_FILE: &str = "model.safetensors";
/// The optimizer's moments there.
pub const OPTIMIZER_FILE: &str = "optimizer.safetensors";

/// The state of the training loop, `state.json` of a checkpoint.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub step: u64,
    pub best_objective: Option<f64>,
    /// Whether this checkpoint is the best so far.
    pub is_best: bool,
    /// Memory limits found so far.
    #[serde(default)]
    pub memory: Known,
}

impl State {
    /// Reads the state of a checkpoint.
    ///
    /// # Errors
    /// When the checkpoint is damaged, or was written by a version of gorgon with another format.
    pub fn read(run: &RunDir, step: u64) -> Result<Self, TrainError> {
        run.open_step(step)?.state().map_err(|error| match error {
            RunError::Damaged { path, reason } => {
                let reason = format!("{reason}; it may be of another version of gorgon, so begin a new run");
                TrainError::Checkpoint { path, reason }
            }
            error => error.into(),
        })
    }
}

/// A tensor's values on the host.
pub(crate) fn values(tensor: &Tensor<1>) -> Vec<f32> {
    match host::read(tensor) {
        Some(values) => values.as_slice().to_vec(),
        None => tensor.clone().into_data().convert::<f32>().try_into_vec().unwrap_or_default(),
    }
}

fn source(name: String, shape: Vec<usize>, tensor: &Tensor<1>) -> Source<'_> {
    let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &values(tensor)));
    Source { name, dtype: Dtype::F32, shape, fill }
}

/// Writes both files.
///
/// # Errors
/// When the folder cannot be written.
pub fn write(
    dir: &Path,
    parameters: &[Parameter],
    constants: &[Stored],
    moments: &[Moments],
) -> Result<(), TrainError> {
    write_parameters(dir, parameters, constants)?;
    let feature_tokens = parameters.iter().zip(moments);
    let optimizer: Vec<Source<'_>> = feature_tokens
        .flat_map(|(p, m)| [("first", &m.first), ("second", &m.second)].map(|(part, tensor)| (p, part, tensor)))
        .map(|(p, part, tensor)| source(format!("{part}.{}", p.name), tensor.dims().to_vec(), tensor))
        .collect();
    let path = dir.join(OPTIMIZER_FILE);
    tensors::write(&path, &optimizer).map_err(io(&path))
}

/// Writes the parameters and the constants beside them.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_parameters(dir: &Path, parameters: &[Parameter], constants: &[Stored]) -> Result<(), TrainError> {
    write_parameters_as(&dir.join(MODEL_FILE), parameters, constants)
}

/// Writes some parameters and constants to a file.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_parameters_as(
    path: &Path,
    parameters: &[Parameter],
    constants: &[Stored],
) -> Result<(), TrainError> {
    let fitted = parameters.iter().map(|p| source(p.name.clone(), p.shape.clone(), &p.value));
    let model: Vec<Source<'_>> = fitted.chain(constants.iter().map(Stored::source)).collect();
    tensors::write(path, &model).map_err(io(path))
}

/// Reads both files into parameters and moments of the same names and shapes.
///
/// # Errors
/// When a file cannot be read, or holds other tensors or constants.
pub fn read(
    dir: &Path,
    parameters: &mut [Parameter],
    constants: &[Stored],
    moments: &mut [Moments],
) -> Result<(), TrainError> {
    read_parameters(&dir.join(MODEL_FILE), parameters, constants)?;
    let path = dir.join(OPTIMIZER_FILE);
    let bytes = std::fs::read(&path).map_err(io(&path))?;
    let file = parse(&path, &bytes)?;
    for (p, m) in parameters.iter().zip(moments) {
        for (part, tensor) in [("first", &mut m.first), ("second", &mut m.second)] {
            let read = tensor_values(&file, &path, &format!("{part}.{}", p.name), &tensor.dims())?;
            *tensor = from_values(read, &p.value.device());
        }
    }
    Ok(())
}

/// Reads parameters of given names and shapes.
///
/// # Errors
/// When the file cannot be read, or holds other tensors or constants.
pub fn read_parameters(path: &Path, parameters: &mut [Parameter], constants: &[Stored]) -> Result<(), TrainError> {
    let bytes = std::fs::read(path).map_err(io(path))?;
    let file = parse(path, &bytes)?;
    let known = |name: &str| parameters.iter().any(|p| p.name == name) || constants.iter().any(|c| c.name == name);
    if let Some(name) = file.names().into_iter().find(|name| !known(name)) {
        return Err(wrong(path, format!("unexpected tensor {name}")));
    }
    for constant in constants {
        let name = &constant.name;
        let same = |found: TensorView<'_>| found.dtype() == constant.dtype && found.data() == constant.bytes;
        if !file.tensor(name).is_ok_and(same) {
            return Err(wrong(path, format!("tensor {name} differs from that of this job's data and config")));
        }
    }
    for p in parameters {
        let read = tensor_values(&file, path, &p.name, &p.shape)?;
        p.value = from_values(read, &p.value.device());
    }
    Ok(())
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>, TrainError> {
    SafeTensors::deserialize(bytes).map_err(|error| wrong(path, error.to_string()))
}

fn tensor_values(file: &SafeTensors<'_>, path: &Path, name: &str, shape: &[usize]) -> Result<Vec<f32>, TrainError> {
    let tensor = file.tensor(name).map_err(|_| wrong(path, format!("tensor {name} is missing")))?;
    if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
        let found = (tensor.dtype(), tensor.shape());
        return Err(wrong(path, format!("tensor {name} is {found:?}, expected F32 {shape:?}")));
    }
    let values = tensor.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    Ok(values.collect())
}

fn wrong(path: &Path, reason: String) -> TrainError {
    TrainError::Checkpoint { path: path.into(), reason }
}
