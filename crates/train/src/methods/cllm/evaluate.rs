//! Held-out losses, how far the backbone moved, and how fast it decodes.

use super::fitting::CllmFitting;
use crate::error::TrainError;
use crate::evaluation::{self, CllmMetrics, Decoded, Metrics};
use crate::llama::Packed;
use crate::lora::NetworkWeights;
use crate::methods::conversations::OnBackbone;
use crate::methods::language::Language;
use crate::methods::medusa_two::{Merged, write_part};
use crate::parameters::Parameter;
use crate::trainer::Evaluation;
use burn::tensor::Tensor;
use gorgon_core::tree::ChainTree;
use gorgon_draft::jacobi::JacobiDrafter;
use gorgon_kernels::Table;
use gorgon_kernels::projected::Projected;
use std::path::Path;

pub(super) fn evaluate(fitting: &CllmFitting, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let applied: Vec<Tensor<1>> = fitting.weights.applied(&weights, false).into_iter().map(Tensor::autodiff).collect();
    let lm_head = fitting.lm_head_of(&weights);
    let one =
        |index: usize| Ok((losses(fitting, &applied, &lm_head, index), language(fitting, &applied, &lm_head, index)?));
    let count = fitting.data.held_out.len();
    let found: Vec<(Option<[f64; 2]>, Language)> = evaluation::each(count, one)?;
    let (losses, language): (Vec<_>, Vec<Language>) = found.into_iter().unzip();
    let language = Language::means(&language);
    let losses: Vec<[f64; 2]> = losses.into_iter().flatten().collect();
    let mean = |part: usize| losses.iter().map(|of| of[part]).sum::<f64>() / losses.len().max(1) as f64;
    let loss = mean(0) + fitting.config.omega * mean(1);
    let metrics = CllmMetrics {
        loss,
        consistency: mean(0),
        text_loss: mean(1),
        kl: language.divergence,
        agreement: language.agreeing,
        perplexity: language.perplexity[0],
        perplexity_before: language.perplexity[1],
        degraded: language.divergence > fitting.config.kl_bound,
        decoded: decode(fitting, parameters)?,
    };
    Ok(Evaluation { metrics: Metrics::Cllm(metrics), objective: loss })
}

/// Consistency loss and cross-entropy of one state of a held-out conversation, the same one in every evaluation.
fn losses(fitting: &CllmFitting, applied: &[Tensor<1>], lm_head: &Table, index: usize) -> Option<[f64; 2]> {
    let state = fitting.sample(true, index, None)?;
    let found = fitting.loss(lm_head).of(applied, &[state.sample()]);
    Some([found.consistency[0], found.text[0]])
}

fn language(
    fitting: &CllmFitting,
    applied: &[Tensor<1>],
    lm_head: &Table,
    index: usize,
) -> Result<Language, TrainError> {
    let row = fitting.data.row(true, index);
    let positions = fitting.positions(&row.example);
    if positions.is_empty() {
        return Ok(Language::default());
    }
    let original = fitting.data.features.states(row, true, index, &positions)?;
    let ids = row.example.ids.clone();
    let segments = std::iter::once(0..ids.len()).collect();
    let hidden = fitting.llama.hidden(applied, &Packed { tokens: ids, segments }).inner();
    let own = select(hidden, &positions);
    let labels: Vec<u32> = positions.iter().map(|&t| row.example.ids[t + 1]).collect();
    let (own, original) = (Projected::new(&own, lm_head), Projected::new(&original, &fitting.lm_head));
    Ok(Language::of(own, original, &labels, fitting.chunk_rows))
}

fn select(states: Tensor<2>, rows: &[usize]) -> Tensor<2> {
    let rows: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
    let (n, device) = (rows.len(), states.device());
    states.select(0, Tensor::from_data(burn::tensor::TensorData::new(rows, [n]), &device))
}

/// Jacobi decoding of held-out prompts with the fitted model, written and loaded as users load it.
fn decode(fitting: &CllmFitting, parameters: &[Parameter]) -> Result<Option<Decoded>, TrainError> {
    let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
    if fitting.data.decoded_prompts == 0 || fitting.data.decoded_tokens == 0 {
        return Ok(None);
    }
    let folder = tempfile::tempdir().map_err(|error| wrong(&error))?;
    write_merged(fitting, parameters, folder.path())?;
    let chain = ChainTree::new(fitting.block).map_err(|error| wrong(&error))?;
    fitting.data.on_model(folder.path())?.decode_with(&mut JacobiDrafter::new(fitting.block), &chain)
}

/// Writes the fitted model.
pub(super) fn write_merged(fitting: &CllmFitting, parameters: &[Parameter], out: &Path) -> Result<(), TrainError> {
    let changed = fitting.weights.changed(parameters);
    Merged { base: &fitting.base, changed, heads: None }.write(out)
}

/// Writes the adapter, if there is one.
pub(super) fn write_adapter(fitting: &CllmFitting, parameters: &[Parameter], out: &Path) -> Result<(), TrainError> {
    let NetworkWeights::Lora(lora) = &fitting.weights else { return Ok(()) };
    let document = lora.document(&fitting.data.base);
    write_part(out, "adapter_model.safetensors", parameters, "adapter_config.json", &document)
}
