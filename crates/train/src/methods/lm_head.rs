//! The backbone's LM head, which is read once and stays as it is.

use crate::error::TrainError;
use burn::tensor::{Device, Tensor, TensorData};
use gorgon_kernels::{Frozen, Table, host};
use gorgon_model::config::ModelConfig;
use gorgon_model::weights::Checkpoint;

/// Reads the backbone's LM head, or the embedding where the two are one, as a table `[V, d]` that stays as it is;
/// `None` for one that hardly anything is multiplied with.
///
/// # Errors
/// When it cannot be read, or the device has no products of the format.
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
    Table::frozen(rows, held).map_err(|error| TrainError::Setting {
        key: "lm_head_format".into(),
        value: "bf16".into(),
        reason: error.to_string(),
    })
}
