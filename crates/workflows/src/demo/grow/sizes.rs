//! Sizes of a grown body.

use crate::units::count;
use gorgon_model::config::{Architecture, ModelConfig};

/// Factor on the width, the heads and the key/value heads. With a power of four, `sqrt(1/FACTOR)` and `eps/FACTOR` are
/// exact in binary, so norms give the same bits.
pub(super) const FACTOR: usize = 4;
/// Factor on the norms' weights: `rms(x)` falls by `sqrt(FACTOR)` when zeros make `x` wider.
pub(super) const NORM_SCALE: f32 = 0.5;
/// The feed-forward network is as wide as the parameters allow, in steps of this many.
const STEP: usize = 256;

/// The config of `config` in a body of some `parameters` parameters.
///
/// # Errors
/// When the family is not supported, or the model has too many parameters to be grown to so few.
pub(super) fn grown(config: &ModelConfig, parameters: u128) -> Result<ModelConfig, String> {
    check_family(config)?;
    let wide = ModelConfig {
        hidden_size: config.hidden_size.saturating_mul(FACTOR),
        heads: config.heads.saturating_mul(FACTOR),
        kv_heads: config.kv_heads.saturating_mul(FACTOR),
        norm_eps: config.norm_eps / FACTOR as f32,
        ..config.clone()
    };
    let taken = wide.parameters();
    if wide.hidden_size > 1 << 20 || wide.norm_eps < 1e-12 || taken > parameters + parameters / 4 {
        let (own, taken, wanted) = (count(config.parameters()), count(taken), count(parameters));
        let width = wide.hidden_size;
        return Err(format!(
            "a model of {own} parameters has {taken} at a width of {width}, and {wanted} are asked for"
        ));
    }
    let column = wide.layers.saturating_mul(3 * wide.hidden_size) as u128;
    let columns = usize::try_from((parameters.saturating_sub(taken)) / column.max(1)).unwrap_or(0);
    let intermediate_size = config.intermediate_size.saturating_add(columns) / STEP * STEP;
    Ok(ModelConfig { intermediate_size: intermediate_size.max(config.intermediate_size), ..wide })
}

fn check_family(config: &ModelConfig) -> Result<(), String> {
    // Norms of single heads keep their width, and share `eps` with those that do not.
    let known = matches!(config.architecture, Architecture::Llama | Architecture::Mistral | Architecture::Qwen2);
    if known && config.experts.is_none() && !config.fused_projections && !config.post_norms && !config.qk_norm {
        return Ok(());
    }
    Err(format!("models of the family {} are not grown", config.architecture.model_type()))
}
