//! Fitting a small Llama from scratch: next-token prediction over conversations.

use crate::checkpoint::values;
use crate::error::{TrainError, io};
use crate::evaluation::{self, Metrics, PretrainMetrics};
use crate::llama::{Llama, NORM_EPS, Packed, ROPE_THETA};
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_data::pack::Packing;
use gorgon_data::render::Example;
use gorgon_draft::fitting::GradientCarry;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy};
use gorgon_model::random::LlamaShape;
use gorgon_runs::tensors::{self, Source};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::io::Write;
use std::ops::Range;
use std::path::Path;

/// Rows of logits in memory at once, per micro-batch.
const CHUNK_ROWS: usize = 1024;

/// A Llama and the conversations that it is fitted to.
#[derive(Debug)]
pub struct Pretraining {
    llama: Llama,
    shape: LlamaShape,
    examples: Vec<Example>,
    held_out: Vec<Example>,
    packing: Packing,
    /// The examples of the last steps, if they are others.
    finish: Option<Finish>,
    /// Weight of a token that the assistant did not write, relative to one of its own.
    prompt_weight: f32,
}

/// Examples of the last steps.
#[derive(Debug)]
struct Finish {
    /// The first of these steps.
    from: u64,
    /// The place of the first of these examples among all.
    first: usize,
    packing: Packing,
}

/// The rows of a packed batch that have a label.
struct Targets {
    rows: Vec<i32>,
    tokens: Vec<u32>,
    scales: Vec<f32>,
}

impl Pretraining {
    /// Fits `llama` to `examples`.
    pub fn new(
        llama: Llama,
        shape: LlamaShape,
        examples: Vec<Example>,
        held_out: Vec<Example>,
        packing: Packing,
        prompt_weight: f64,
    ) -> Self {
        Self { llama, shape, examples, held_out, packing, finish: None, prompt_weight: prompt_weight as f32 }
    }

    /// Fits to other examples from step `from` on.
    #[must_use]
    pub fn finishing(mut self, from: u64, examples: Vec<Example>, packing: Packing) -> Self {
        self.finish = Some(Finish { from, first: self.examples.len(), packing });
        self.examples.extend(examples);
        self
    }

    /// Steps in which every example is met once: those of the first part's first epoch, and of the last part, of
    /// `steps` in all.
    pub fn one_pass(&self, steps: u64) -> impl Iterator<Item = u64> + use<> {
        let last = self.finish.as_ref().map_or(steps, |finish| finish.from);
        (0..self.packing.steps_per_epoch().clamp(1, last.max(1))).chain(last..steps)
    }

    /// The examples to measure on.
    pub fn held_out_mut(&mut self) -> &mut Vec<Example> {
        &mut self.held_out
    }

    /// Tokens of some examples.
    fn tokens_of(&self, batch: &[usize]) -> usize {
        batch.iter().map(|&i| self.examples[i].ids.len()).sum()
    }

    /// The network's sizes.
    pub fn shape(&self) -> &LlamaShape {
        &self.shape
    }

    /// Which examples go into which step.
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Bytes that a micro-batch of this many tokens has at work beside the weights, roughly.
    pub fn bytes_at_work(&self, tokens: usize) -> usize {
        let s = &self.shape;
        let layers = s.layers * (8 * s.hidden_size + 4 * s.intermediate_size);
        4 * (tokens * layers + 2 * CHUNK_ROWS.min(tokens) * s.vocab_size)
    }

    fn label_weight(&self, example: &Example, at: usize) -> f32 {
        if example.assistant[at] { 1.0 } else { self.prompt_weight }
    }

    fn targets(&self, examples: &[&Example]) -> Targets {
        let mut targets = Targets { rows: vec![], tokens: vec![], scales: vec![] };
        let mut start = 0;
        for example in examples {
            for at in 1..example.ids.len() {
                let weight = self.label_weight(example, at);
                if weight > 0.0 {
                    targets.rows.push((start + at - 1) as i32);
                    targets.tokens.push(example.ids[at]);
                    targets.scales.push(weight);
                }
            }
            start += example.ids.len();
        }
        targets
    }
}

fn pack(examples: &[&Example]) -> Packed {
    let mut packed = Packed::default();
    for example in examples {
        let start = packed.tokens.len();
        packed.tokens.extend(&example.ids);
        packed.segments.push(start..packed.tokens.len());
    }
    packed
}

impl Objective for Pretraining {
    type Batch = Vec<usize>;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.llama.parameters(seed)
    }

    fn batches(&self, step: u64) -> Result<Vec<Self::Batch>, TrainError> {
        let Some(finish) = self.finish.as_ref().filter(|finish| step >= finish.from) else {
            return Ok(self.packing.step(step));
        };
        let mut batches = finish.packing.step(step - finish.from);
        batches.iter_mut().flatten().for_each(|example| *example += finish.first);
        Ok(batches)
    }

    fn weights(&self, batch: &Self::Batch) -> Vec<f64> {
        let examples = batch.iter().map(|&i| &self.examples[i]);
        let of = |e: &Example| (1..e.ids.len()).map(|at| f64::from(self.label_weight(e, at))).sum::<f64>();
        vec![examples.map(of).sum()]
    }

    /// The hidden states' gradient comes from the chunked cross-entropy; `Σ h ∘ ∂L/∂h` is a scalar whose gradient is
    /// `∂L/∂h`, which carries it on through the network.
    fn gradients(&self, weights: &[Tensor<1>], batch: &Self::Batch, totals: &[f64]) -> Result<Gradients, TrainError> {
        let examples: Vec<&Example> = batch.iter().map(|&i| &self.examples[i]).collect();
        let packed = pack(&examples);
        let mut targets = self.targets(&examples);
        let leaves: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff().require_grad()).collect();
        let hidden = self.llama.hidden(&leaves, &packed);
        let rows = targets.rows.len();
        let index = TensorData::new(std::mem::take(&mut targets.rows), [rows]);
        let labelled = hidden.select(0, Tensor::<1, Int>::from_data(index, &weights[0].device()));
        let table = Table::from(weights[0].clone().reshape([self.shape.vocab_size, self.shape.hidden_size]));
        let scale = 1.0 / totals[0].max(1e-9);
        let scaled: Vec<f32> = targets.scales.iter().map(|w| w * scale as f32).collect();
        let labels = Labels { tokens: &targets.tokens, scales: &scaled };
        let output = linear_cross_entropy(&labelled.clone().inner(), &table, labels, CHUNK_ROWS, true);
        let mut gradients = GradientCarry::of(labelled, output.d_hidden).of_leaves(&leaves, weights);
        // The table is embedding and LM head at once.
        if let Some(d_weight) = output.d_weight {
            gradients[0] = gradients[0].clone() + d_weight.reshape([-1]);
        }
        let (mut loss, mut own, mut right, mut count) = (0.0, 0.0, 0.0, 0.0);
        for ((l, w), rank) in output.losses.iter().zip(&targets.scales).zip(&output.ranks) {
            loss += f64::from(*l) * f64::from(*w);
            if *w == 1.0 {
                own += f64::from(*l);
                right += f64::from(u8::from(*rank == 0));
                count += 1.0;
            }
        }
        let not_finite = (!loss.is_finite()).then(|| format!("examples {:?}", &batch[..batch.len().min(8)]));
        let counts = vec![("answer_loss".into(), own, count), ("answer_top1".into(), right, count)];
        Ok(Gradients { loss: loss * scale, tokens: packed.tokens.len(), counts, gradients, not_finite })
    }

    fn phases(&self, steps: u64) -> Vec<Range<u64>> {
        let last = self.finish.as_ref().map_or(steps, |finish| finish.from.min(steps));
        [0..last, last..steps].into_iter().filter(|phase| !phase.is_empty()).collect()
    }

    fn size(&self, batch: &Self::Batch) -> Size {
        let tokens = self.tokens_of(batch);
        Size { tokens, bytes: self.bytes_at_work(tokens) as u64 }
    }

    fn halves(&self, batch: &Self::Batch) -> Option<(Self::Batch, Self::Batch)> {
        match self.finish.as_ref().filter(|finish| batch.first().is_some_and(|&i| i >= finish.first)) {
            None => self.packing.halves(batch),
            Some(finish) => {
                let local: Vec<usize> = batch.iter().map(|i| i - finish.first).collect();
                let global = |half: Vec<usize>| half.into_iter().map(|i| i + finish.first).collect();
                finish.packing.halves(&local).map(|(a, b)| (global(a), global(b)))
            }
        }
    }

    fn place(&self, batch: &Self::Batch) -> String {
        format!("example {}", batch.first().map_or_else(String::new, usize::to_string))
    }

    /// Cross-entropy and top-1 accuracy of the assistant's tokens in held-out conversations.
    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let leaves: Vec<Tensor<1>> = weights.iter().map(|w| w.clone().autodiff()).collect();
        let table = Table::from(weights[0].clone().reshape([self.shape.vocab_size, self.shape.hidden_size]));
        let measure = |number: usize| {
            let example = &self.held_out[number];
            let rows: Vec<usize> = (1..example.ids.len()).filter(|&at| example.assistant[at]).collect();
            let tokens: Vec<u32> = rows.iter().map(|&at| example.ids[at]).collect();
            let index: Vec<i32> = rows.iter().map(|&at| at as i32 - 1).collect();
            let n = index.len();
            let hidden = self.llama.hidden(&leaves, &pack(&[example])).inner();
            let index = Tensor::<1, Int>::from_data(TensorData::new(index, [n]), &hidden.device());
            let scales = vec![0f32; n];
            let labels = Labels { tokens: &tokens, scales: &scales };
            let output = linear_cross_entropy(&hidden.select(0, index), &table, labels, CHUNK_ROWS, false);
            let loss: f64 = output.losses.iter().map(|&l| f64::from(l)).sum();
            Ok((loss, output.ranks.iter().filter(|&&rank| rank == 0).count(), n))
        };
        let found: Vec<(f64, usize, usize)> = evaluation::each(self.held_out.len(), measure)?;
        let n = found.iter().map(|f| f.2).sum::<usize>().max(1) as f64;
        let loss = found.iter().map(|f| f.0).sum::<f64>() / n;
        let answer_top1 = found.iter().map(|f| f.1).sum::<usize>() as f64 / n;
        let metrics = Metrics::Pretrain(PretrainMetrics { answer_loss: loss, answer_top1 });
        Ok(Evaluation { metrics, objective: loss })
    }
}

/// Writes weights and config in Hugging Face layout, rounded to f16. The tokenizer's files in the folder are kept.
///
/// # Errors
/// When the folder cannot be written, or a weight does not fit f16.
pub fn write_model(
    dir: &Path,
    shape: &LlamaShape,
    parameters: &[Parameter],
    tokens: [u32; 2],
) -> Result<(), TrainError> {
    for p in parameters {
        if values(&p.value).iter().any(|&v| !half::f16::from_f32(v).is_finite()) {
            return Err(TrainError::Data(format!("{}: a weight is beyond what f16 can hold", p.name)));
        }
    }
    let source = |p: &Parameter| {
        let bytes: Vec<u8> = values(&p.value).iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect();
        let fill = Box::new(move |file: &mut dyn Write| file.write_all(&bytes));
        Source { name: p.name.clone(), dtype: Dtype::F16, shape: p.shape.clone(), fill }
    };
    let sources: Vec<Source<'_>> = parameters.iter().map(source).collect();
    let path = dir.join("model.safetensors");
    tensors::write(&path, &sources).map_err(io(&path))?;
    write_config(dir, shape, tokens)
}

/// Writes `config.json`; `tokens` open a conversation and end a turn.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_config(dir: &Path, shape: &LlamaShape, tokens: [u32; 2]) -> Result<(), TrainError> {
    let path = dir.join("config.json");
    gorgon_runs::atomic::write(&path, |file| {
        serde_json::to_writer_pretty(&mut *file, &config(shape, tokens))?;
        file.write_all(b"\n")
    })
    .map_err(io(&path))
}

fn config(s: &LlamaShape, [begin, end]: [u32; 2]) -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": s.hidden_size, "intermediate_size": s.intermediate_size, "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads, "num_key_value_heads": s.kv_heads, "head_dim": s.hidden_size / s.heads,
        "vocab_size": s.vocab_size, "max_position_embeddings": s.max_positions, "rms_norm_eps": f64::from(NORM_EPS),
        "rope_theta": ROPE_THETA, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
        "bos_token_id": begin, "eos_token_id": end, "torch_dtype": "float16"
    })
}
