//! How good the heads are, and what the backbone lost.

use super::fitting::{Gathered, MedusaTwoFitting, right};
use super::publish;
use crate::error::TrainError;
use crate::methods::conversations::Conversations;
use crate::methods::decoding::Decoded;
use crate::methods::features::Features;
use crate::methods::replay::{Measured, walk};
use crate::parameters::Parameter;
use crate::trainer::Evaluation;
use burn::tensor::Tensor;
use gorgon_core::tree::{FixedTree, PublishedTree};
use gorgon_data::pack::Packing;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::medusa::{HeadOutput, MedusaDrafter, MedusaModel};
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy, soft_cross_entropy};
use gorgon_kernels::team;
use gorgon_model::decoder::Decoder;
use rayon::prelude::*;
use serde_json::{Map, json};
use std::path::Path;
use std::sync::Arc;

/// What one held-out conversation says of the backbone, summed over its labels.
#[derive(Clone, Copy, Debug, Default)]
struct Language {
    labels: usize,
    /// `KL(original || adapted)`.
    divergence: f64,
    /// Cross-entropy of the labels, adapted and original.
    entropy: [f64; 2],
    /// Labels at which both have the same first guess.
    agreeing: usize,
}

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
    let found: Vec<(Measured, Language)> = (0..fitting.data.held_out.len())
        .into_par_iter()
        .map(|i| team::one_of(fitting.data.held_out.len(), || one(i)))
        .collect::<Result<_, TrainError>>()?;
    let (measured, language): (Vec<Measured>, Vec<Language>) = found.into_iter().unzip();
    let mut evaluation = of_heads(fitting, &measured);
    of_language(fitting, &language, &mut evaluation);
    if let Some(decoded) = decode(fitting, parameters)? {
        evaluation.metrics.insert("tau".into(), json!(decoded.tokens_per_step));
    }
    Ok(evaluation)
}

fn language(fitting: &MedusaTwoFitting, states: &Tensor<2>, gathered: &Gathered) -> Language {
    let index = || fitting.index(gathered.language.rows.iter().map(|&row| row as i32).collect());
    let (own, original) = (states.clone().select(0, index()), gathered.original.clone().select(0, index()));
    let (table, chunk) = (&fitting.lm_head, fitting.heads.chunk_rows);
    let sum = |losses: &[f32]| losses.iter().map(|&loss| f64::from(loss)).sum::<f64>();
    let crossed = soft_cross_entropy(&own, &original, table, 0.0, chunk);
    // The cross-entropy of a distribution with itself is its entropy, and what is above it is the divergence.
    let entropy = sum(&soft_cross_entropy(&original, &original, table, 0.0, chunk).losses);
    let scales = vec![0f32; gathered.language.rows.len()];
    let labels = || Labels { tokens: &gathered.language.tokens, scales: &scales };
    let of = |states: &Tensor<2>| sum(&linear_cross_entropy(states, table, labels(), chunk, false).losses);
    Language {
        labels: gathered.language.rows.len(),
        divergence: sum(&crossed.losses) - entropy,
        entropy: [of(&own), of(&original)],
        agreeing: crossed.ranks.iter().filter(|&&rank| rank == 0).count(),
    }
}

fn of_heads(fitting: &MedusaTwoFitting, measured: &[Measured]) -> Evaluation {
    let (mut metrics, config) = (Map::new(), &fitting.heads.config);
    let (mut objective, mut top1, mut top5, mut losses) = (0.0, vec![], vec![], vec![]);
    for head in 0..config.heads {
        let outputs = || measured.iter().map(|conversation| &conversation.outputs[head]);
        let n = outputs().map(|o| o.ranks.len()).sum::<usize>().max(1) as f64;
        let among_five = |o: &HeadOutput| o.ranks.iter().filter(|&&rank| rank < 5).count();
        let loss = outputs().flat_map(|o| &o.losses).map(|&l| f64::from(l)).sum::<f64>() / n;
        objective += config.weight(head) * loss;
        top1.push(outputs().map(right).sum::<usize>() as f64 / n);
        top5.push(outputs().map(among_five).sum::<usize>() as f64 / n);
        losses.push(loss);
    }
    let lengths = walk(measured, config.heads);
    metrics.insert("head_loss".into(), json!(losses));
    metrics.insert("top1".into(), json!(top1));
    metrics.insert("top5".into(), json!(top5));
    metrics.insert("length_chain".into(), json!(lengths.chain));
    metrics.insert("length_tree".into(), json!(lengths.tree));
    Evaluation { metrics, objective: fitting.config.heads_weight * objective }
}

fn of_language(fitting: &MedusaTwoFitting, language: &[Language], evaluation: &mut Evaluation) {
    let labels = language.iter().map(|l| l.labels).sum::<usize>().max(1) as f64;
    let mean = |of: &dyn Fn(&Language) -> f64| language.iter().map(of).sum::<f64>() / labels;
    let kl = mean(&|l| l.divergence);
    evaluation.objective += kl;
    let metrics = &mut evaluation.metrics;
    metrics.insert("loss".into(), json!(evaluation.objective));
    metrics.insert("kl".into(), json!(kl));
    metrics.insert("agreement".into(), json!(mean(&|l| l.agreeing as f64)));
    metrics.insert("perplexity".into(), json!(mean(&|l| l.entropy[0]).exp()));
    metrics.insert("perplexity_before".into(), json!(mean(&|l| l.entropy[1]).exp()));
    metrics.insert("degraded".into(), json!(kl > fitting.config.kl_bound));
}

/// The held-out conversations over a merged model.
pub(super) fn served(data: &Conversations, folder: &Path) -> Result<Conversations, TrainError> {
    let compute = data.features.decoder.compute();
    let decoder = Decoder::load(folder, compute).map_err(|error| TrainError::Data(error.to_string()))?;
    Ok(Conversations {
        features: Features { decoder: Arc::new(decoder), cache: None },
        rows: vec![],
        held_out: data.held_out.iter().take(data.decoded_prompts).cloned().collect(),
        packing: Packing::new(vec![], 1, 1, 0),
        base: folder.display().to_string(),
        decoded_prompts: data.decoded_prompts,
        decoded_tokens: data.decoded_tokens,
        start: None,
    })
}

/// Greedy decoding of held-out prompts with the merged model, written and loaded as a user's is, and `mc_sim_7b_63`.
fn decode(fitting: &MedusaTwoFitting, parameters: &[Parameter]) -> Result<Option<Decoded>, TrainError> {
    let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
    let data = &fitting.data;
    if data.decoded_prompts == 0 || data.decoded_tokens == 0 {
        return Ok(None);
    }
    let folder = tempfile::tempdir().map_err(|error| wrong(&error))?;
    publish::write_merged(fitting, parameters, folder.path())?;
    let merged = served(data, folder.path())?;
    let published: PublishedTree = "mc_sim_7b_63".parse().map_err(|error| TrainError::Data(format!("{error}")))?;
    let tree = FixedTree::new(published.shape().clone());
    let load =
        |folder: &_, decoder| Ok(Box::new(MedusaDrafter::new(MedusaModel::load(folder, decoder)?)) as Box<dyn Drafter>);
    let document = fitting.heads.config.document(fitting.heads.hidden_size, fitting.heads.vocab_size, &merged.base);
    merged.decode(&parameters[..fitting.split()], &[], &document, load, &tree)
}
