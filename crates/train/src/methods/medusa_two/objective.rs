//! The loss of heads and backbone together, and its gradients.

use super::fitting::{Balanced, MedusaTwoFitting, positions, right};
use super::{evaluate, merged, publish};
use crate::error::TrainError;
use crate::methods::conversations::{Conversations, OnBackbone, on_conversations};
use crate::methods::initial::initial;
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::{IndexingUpdateOp, Tensor};
use gorgon_core::accept::random::SeededRandom;
use gorgon_data::render::Example;
use gorgon_draft::fitting::GradientCarry;
use serde_json::Value;
use std::ops::Range;
use std::path::Path;

impl Objective for MedusaTwoFitting {
    type Batch = Balanced;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        let random = &mut SeededRandom::new(seed);
        let heads = self.heads.config.parameters(self.heads.hidden_size, self.heads.vocab_size);
        heads.into_iter().map(|spec| initial(spec, &self.lm_head, random)).chain(self.lora.parameters(seed)).collect()
    }

    fn batches(&self, step: u64) -> Result<Vec<Balanced>, TrainError> {
        Ok(self.data.packing.step(step).into_iter().map(|rows| Balanced { step, rows }).collect())
    }

    /// Labels of each head, then those of the language loss.
    fn weights(&self, batch: &Balanced) -> Vec<f64> {
        let examples = || batch.rows.iter().map(|&i| &self.data.rows[i].example);
        let of = |head: usize| {
            examples().map(|e| (0..e.ids.len()).filter(|&t| e.counts(head, t)).count()).sum::<usize>() as f64
        };
        let language = examples().map(|e| e.assistant.iter().skip(1).filter(|own| **own).count()).sum::<usize>();
        (0..self.heads.config.heads).map(of).chain([language as f64]).collect()
    }

    fn rate(&self, parameter: &Parameter, step: u64) -> f64 {
        match crate::lora::is_adapter(&parameter.name) {
            true => self.config.balance(step, self.steps).1,
            false => 1.0,
        }
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &Balanced, totals: &[f64]) -> Result<Gradients, TrainError> {
        let gathered = self.gather(false, &batch.rows)?;
        let (heads, adapter) = weights.split_at(self.split());
        let (share, _) = self.config.balance(batch.step, self.steps);
        // A frozen backbone needs no gradient, so its graph must not be recorded: a graph is freed only by a backward
        // pass and would pile up from step to step.
        let moves = self.moves(batch.step);
        let leaf = |w: &Tensor<1>| if moves { w.clone().autodiff().require_grad() } else { w.clone().autodiff() };
        let leaves: Vec<Tensor<1>> = adapter.iter().map(leaf).collect();
        let hidden = self.llama.hidden(&self.lora.applied(&leaves, true), &gathered.packed);
        let tracked = hidden.select(0, self.index(gathered.at.clone()));
        let states = tracked.clone().inner();
        let config = &self.heads.config;
        let scale = |head: usize| share * config.weight(head) / totals[head].max(1.0);
        let scales: Vec<f32> = (0..config.heads).map(|head| scale(head) as f32).collect();
        let (outputs, mut gradients, d_states) =
            self.heads.joint_losses(heads, &self.lm_head, &states, &gathered.labels, &scales);
        let language = 1.0 / totals[config.heads].max(1.0);
        let (sum, agreeing, d_language) = self.language(&states, &gathered, language as f32);
        let index = self.index(gathered.language.rows.iter().map(|&row| row as i32).collect());
        let d_states = d_states.select_assign(0, index, d_language, IndexingUpdateOp::Add);
        if moves {
            gradients.extend(GradientCarry::of(tracked, d_states).of_leaves(&leaves, adapter));
        } else {
            gradients.extend(adapter.iter().map(Tensor::zeros_like));
        }
        let mut loss = sum * language;
        let mut counts = vec![("agreement".into(), agreeing as f64, gathered.language.rows.len() as f64)];
        for (head, output) in outputs.iter().enumerate() {
            let (sum, labels) = (output.losses.iter().map(|&l| f64::from(l)).sum::<f64>(), output.ranks.len() as f64);
            loss += sum * scale(head);
            counts.push((format!("head{}_loss", head + 1), sum, labels));
            counts.push((format!("head{}_top1", head + 1), right(output) as f64, labels));
        }
        let not_finite = (!loss.is_finite()).then(|| match batch.rows.first() {
            Some(&index) => format!("one of {} conversations from {}", batch.rows.len(), self.data.place(false, index)),
            None => "no conversation".into(),
        });
        Ok(Gradients { loss, tokens: gathered.packed.tokens.len(), counts, gradients, not_finite })
    }

    /// The backbone is frozen, then it is fitted too.
    fn phases(&self, steps: u64) -> Vec<Range<u64>> {
        let moves = (0..steps).find(|&step| self.moves(step)).unwrap_or(steps);
        [0..moves, moves..steps].into_iter().filter(|phase| !phase.is_empty()).collect()
    }

    fn size(&self, batch: &Balanced) -> Size {
        let tokens = self.data.packing.tokens_of(&batch.rows);
        // A frozen backbone has no gradients of its matrices.
        let frozen = if self.moves(batch.step) { 0 } else { 4 * self.llama.sizes().iter().sum::<usize>() };
        Size { tokens, bytes: self.bytes_at_work(tokens).saturating_sub(frozen) as u64 }
    }

    fn halves(&self, batch: &Balanced) -> Option<(Balanced, Balanced)> {
        let of = |rows| Balanced { step: batch.step, rows };
        self.data.packing.halves(&batch.rows).map(|(first, other)| (of(first), of(other)))
    }

    fn place(&self, batch: &Balanced) -> String {
        batch.rows.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        evaluate::evaluate(self, parameters)
    }

    fn document(&self) -> Option<Value> {
        Some(self.heads.config.document(self.heads.hidden_size, self.heads.vocab_size, &self.data.base))
    }
}

impl OnBackbone for MedusaTwoFitting {
    on_conversations!();

    fn positions(&self, example: &Example) -> Vec<usize> {
        positions(example, self.heads.config.heads)
    }

    fn read(&self, batch: &Balanced) -> Result<(), TrainError> {
        self.gather(false, &batch.rows).map(|_| ())
    }

    fn title(&self) -> String {
        format!("{} heads and an adapter of {} tensors", self.heads.config.heads, self.lora.len())
    }

    fn bytes_at_work(&self, tokens: usize) -> usize {
        let shape = self.llama.shape();
        let layer = 8 * shape.hidden_size + 4 * shape.intermediate_size;
        let logits = self.lm_head.rows_at_once(self.heads.chunk_rows).min(tokens) * self.heads.vocab_size * 4 * 2;
        let weights: usize = self.llama.sizes().iter().sum();
        logits + tokens * shape.layers * layer * 4 + 2 * weights * 4 + self.lm_head.scratch_bytes(tokens)
    }

    fn published_bytes(&self, parameters: usize) -> u64 {
        let config = &self.heads.config;
        let heads = config.parameters(self.heads.hidden_size, self.heads.vocab_size);
        let heads: usize = heads.iter().map(|spec| spec.shape.iter().product::<usize>()).sum();
        let lm_head =
            if config.own_lm_heads { 0 } else { config.heads * self.heads.hidden_size * self.heads.vocab_size };
        4 * parameters as u64 + merged::bytes(&self.base, heads + lm_head) + self.data.ngrams_bytes()
    }

    fn publish(&self, checkpoint: &Path, run: &Path) -> Result<(), TrainError> {
        publish::publish(self, checkpoint, run)
    }

    fn served(&self, run: &Path) -> Result<Option<Conversations>, TrainError> {
        self.data.on_model(&run.join(publish::MERGED)).map(Some)
    }
}
