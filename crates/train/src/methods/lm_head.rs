//! The backbone's LM head, which is read once and stays as it is.

use crate::error::TrainError;
use burn::tensor::{Device, Tensor, TensorData};
use gorgon_draft::settings::SettingsError;
use gorgon_kernels::{Frozen, Table, host};
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;

/// Reads the backbone's LM head, or the embedding if they are tied, as a frozen table `[V, d]`. `held` is the format
/// of its matmuls; `None` keeps it plain, for a table that is hardly used.
///
/// # Errors
/// When it cannot be read, or the device has no matmuls of the format.
pub fn lm_head(
    checkpoint: &Checkpoint,
    config: &ModelConfig,
    device: &Device,
    held: Option<Frozen>,
) -> Result<Table, TrainError> {
    let name = if config.tied_embeddings { gorgon_model::layout::EMBEDDING } else { "lm_head.weight" };
    let values = checkpoint.read_all(name).map_err(|error| TrainError::Data(error.to_string()))?;
    let shape = [config.vocab_size, config.hidden_size];
    let rows = match host::is_host(device) {
        true => host::tensor(values, shape),
        false => Tensor::from_data(TensorData::new(values, shape), device),
    };
    let Some(held) = held else { return Ok(rows.into()) };
    Table::frozen(rows, held).map_err(|error| SettingsError::new("lm_head_format", "bf16", error).into())
}
