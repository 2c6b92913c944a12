//! Held-out accuracy of the heads, and how far the backbone moved.

use super::fitting::{Gathered, MedusaTwoFitting};
use super::publish;
use crate::error::TrainError;
use crate::evaluation::{self, Decoded, MedusaTwoMetrics, Metrics};
use crate::methods::language::Language;
use crate::methods::replay::{Measured, head_ranks};
use crate::parameters::Parameter;
use crate::trainer::Evaluation;
use burn::tensor::Tensor;
use gorgon_core::tree::{FixedTree, PublishedTree};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::medusa::{MedusaDrafter, MedusaModel};
use gorgon_kernels::projected::Projected;

pub(super) fn evaluate(fitting: &MedusaTwoFitting, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
    let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
    let (heads, adapter) = weights.split_at(fitting.split());
    let applied: Vec<Tensor<1>> = fitting.lora.applied(adapter, false).into_iter().map(Tensor::autodiff).collect();
    let one = |index: usize| {
        let gathered = fitting.gather(true, &[index])?;
        let hidden = fitting.llama.hidden(&applied, &gathered.packed).inner();
        let states = hidden.select(0, fitting.index(gathered.at.clone()));
        let (outputs, _) = fitting.heads.losses(heads, &fitting.lm_head, &states, &gathered.labels, None);
        let language = language(fitting, &states, &gathered);
        let positions = gathered.at.iter().map(|&at| at as usize).collect();
        Ok((Measured { positions, labels: gathered.labels, outputs }, language))
    };
    let found: Vec<(Measured, Language)> = evaluation::each(fitting.data.held_out.len(), one)?;
    let (measured, language): (Vec<Measured>, Vec<Language>) = found.into_iter().unzip();
    let language = Language::means(&language);
    let config = &fitting.heads.config;
    let ranks = head_ranks(&measured, config.heads);
    let weighted = ranks.head_loss.iter().enumerate().map(|(head, loss)| config.weight(head) * loss);
    let heads = weighted.fold(0.0, |sum, loss| sum + loss);
    let loss = fitting.config.heads_weight * heads + language.divergence;
    let tau = decode(fitting, parameters)?.map(|decoded| decoded.tokens_per_step);
    let metrics = MedusaTwoMetrics {
        ranks,
        loss,
        kl: language.divergence,
        agreement: language.agreeing,
        perplexity: language.perplexity[0],
        perplexity_before: language.perplexity[1],
        degraded: language.divergence > fitting.config.kl_bound,
        tau,
    };
    Ok(Evaluation { metrics: Metrics::MedusaTwo(metrics), objective: loss })
}

fn language(fitting: &MedusaTwoFitting, states: &Tensor<2>, gathered: &Gathered) -> Language {
    let index = || fitting.index(gathered.language.rows.iter().map(|&row| row as i32).collect());
    let (own, original) = (states.clone().select(0, index()), gathered.original.clone().select(0, index()));
    let of = |states| Projected::new(states, &fitting.lm_head);
    Language::of(of(&own), of(&original), &gathered.language.tokens, fitting.heads.chunk_rows)
}

/// Greedy decoding of held-out prompts with the merged model, written and loaded as users load it, and `mc_sim_7b_63`.
fn decode(fitting: &MedusaTwoFitting, parameters: &[Parameter]) -> Result<Option<Decoded>, TrainError> {
    let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
    let data = &fitting.data;
    if data.decoded_prompts == 0 || data.decoded_tokens == 0 {
        return Ok(None);
    }
    let folder = tempfile::tempdir().map_err(|error| wrong(&error))?;
    publish::write_merged(fitting, parameters, folder.path())?;
    let merged = data.on_model(folder.path())?;
    let published: PublishedTree = "mc_sim_7b_63".parse().map_err(|error| TrainError::Data(format!("{error}")))?;
    let tree = FixedTree::new(published.shape().clone());
    let load =
        |folder: &_, decoder| Ok(Box::new(MedusaDrafter::new(MedusaModel::load(folder, decoder)?)) as Box<dyn Drafter>);
    let document = fitting.heads.config.document(fitting.heads.hidden_size, fitting.heads.vocab_size, &merged.base);
    merged.decode(&parameters[..fitting.split()], &[], &document, load, &tree)
}
