//! Fitting an EAGLE-3 draft layer to a frozen backbone.

use super::at_work;
use super::conversations::{Conversations, OnBackbone, on_conversations};
use super::eagle::{read_positions, sum};
use super::initial::initial_all;
use crate::error::TrainError;
use crate::evaluation::{self, Eagle3Metrics, Metrics};
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_data::render::Example;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::eagle::EagleDrafter;
use gorgon_draft::eagle::three::{
    Criterion, DraftVocabulary, Eagle3Batch, Eagle3Config, Eagle3Model, Eagle3Network, Eagle3Output, Eagle3Shape,
    Eagle3Step, losses,
};
use gorgon_kernels::Table;
use gorgon_model::hooks::Hooks;
use gorgon_runs::tensors::Stored;
use serde_json::Value;

/// A draft layer, the backbone's states, and the conversations that it is fitted to.
pub struct Eagle3Fitting {
    network: Eagle3Network,
    config: Eagle3Config,
    hooks: Hooks,
    vocabulary: DraftVocabulary,
    /// The backbone's LM head, `[V, d]`.
    lm_head: Table,
    /// Its rows for the tokens that can be drafted, `[D, d]`.
    draft_head: Table,
    chunk_rows: usize,
    data: Conversations,
}

/// Some conversations as a batch.
struct Gathered {
    batch: Eagle3Batch,
    /// The conversation of each segment.
    conversations: Vec<usize>,
    /// Rows of each step that would count if every token could be drafted.
    rows: Vec<usize>,
}

/// Inputs and targets of one unrolled step.
#[derive(Default)]
struct StepRows {
    tokens: Vec<Token>,
    counted: Vec<u32>,
    targets: Vec<Tensor<2>>,
    /// Rows that would count if every token could be drafted.
    rows: usize,
}

/// A conversation within a batch.
struct Conversation<'a> {
    example: &'a Example,
    /// Its first row.
    first: usize,
    /// Number of its rows.
    feature_tokens: usize,
    /// The backbone's states after the final norm, `[feature_tokens + 1, d]`.
    hidden: Tensor<2>,
    /// Whether the backbone's first guess at each position is in the draft vocabulary.
    draftable: Vec<bool>,
}

impl StepRows {
    fn add(&mut self, step: usize, of: &Conversation<'_>) {
        // Beyond the last token anything will do: rows that read it do not count, and no other row sees them.
        let token = |row: usize| of.example.ids[..=of.feature_tokens].get(row + 1 + step).copied().unwrap_or(0);
        self.tokens.extend((0..of.feature_tokens).map(token));
        let rows: Vec<usize> = (0..of.feature_tokens).filter(|row| of.example.counts(step, *row)).collect();
        self.rows += rows.len();
        let rows: Vec<usize> = rows.into_iter().filter(|row| of.draftable[row + step + 1]).collect();
        self.counted.extend(rows.iter().map(|row| (of.first + row) as u32));
        if !rows.is_empty() {
            self.targets.push(of.hidden.clone().select(0, index(rows.iter().map(|row| row + step + 1), &of.hidden)));
        }
    }
}

impl Eagle3Fitting {
    /// A draft layer for the conversations' backbone. Without a draft vocabulary it has the most frequent tokens of the
    /// answers that are fitted to.
    ///
    /// # Errors
    /// When the config names layers that the backbone does not have.
    pub fn new(
        config: Eagle3Config,
        data: Conversations,
        lm_head: Table,
        vocabulary: Option<DraftVocabulary>,
        chunk_rows: usize,
    ) -> Result<Self, TrainError> {
        let backbone = data.features.decoder.config();
        let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
        let layers = config.hooks_of(backbone.layers).map_err(|error| wrong(&error))?;
        let hooks = Hooks::new(layers.clone(), backbone.layers).map_err(|error| wrong(&error))?;
        let vocabulary = vocabulary.unwrap_or_else(|| most_frequent(&data, backbone.vocab_size, config.draft_vocab));
        let draft_head = match vocabulary.is_whole() {
            true => lm_head.clone(),
            false => {
                let kept = index(vocabulary.tokens().iter().map(|&token| token as usize), &lm_head);
                lm_head.of_tokens(kept)
            }
        };
        let shape = Eagle3Shape::of(backbone, layers, vocabulary.len());
        let lengths = data.rows.iter().chain(&data.held_out).map(|row| row.example.ids.len());
        let network = Eagle3Network::new(shape, lengths.max().unwrap_or(0), config.steps);
        Ok(Self { network, config, hooks, vocabulary, lm_head, draft_head, chunk_rows, data })
    }

    /// The tokens that can be drafted.
    pub fn vocabulary(&self) -> &DraftVocabulary {
        &self.vocabulary
    }

    /// Rows of some conversations, one conversation after another, with the inputs and targets of every step.
    ///
    /// Step `s` of row `t` reads the token `x_{t+1+s}` and is about `x_{t+2+s}`. As in decoding, it counts if all tokens
    /// from `x_{t+1}` on are the assistant's and the backbone's first guess is in the draft vocabulary.
    fn gather(&self, held_out: bool, rows: &[usize]) -> Result<Gathered, TrainError> {
        let d = self.network.shape().layer.hidden_size;
        let wide = self.hooks.layers().len() * d;
        let mut steps: Vec<StepRows> = (0..self.config.steps).map(|_| StepRows::default()).collect();
        let (mut hooks, mut segments, mut conversations, mut first) = (vec![], vec![], vec![], 0);
        for &conversation in rows {
            let row = self.data.row(held_out, conversation);
            let positions = self.positions(&row.example);
            let Some(feature_tokens) = positions.len().checked_sub(1) else { continue };
            let states = self.data.features.hooked(row, held_out, conversation, &positions, &self.hooks)?;
            let hidden = states.clone().narrow(1, wide, d);
            let of = Conversation {
                example: &row.example,
                first,
                feature_tokens,
                draftable: self.draftable(&hidden),
                hidden,
            };
            steps.iter_mut().enumerate().for_each(|(number, step)| step.add(number, &of));
            hooks.push(states.narrow(0, 0, feature_tokens).narrow(1, 0, wide));
            segments.push(first..first + feature_tokens);
            conversations.push(conversation);
            first += feature_tokens;
        }
        let join = |parts: Vec<Tensor<2>>, width| match parts.is_empty() {
            true => Tensor::zeros([0, width], &self.lm_head.device()),
            false => Tensor::cat(parts, 0),
        };
        let rows = steps.iter().map(|step| step.rows).collect();
        let step = |StepRows { tokens, counted, targets, .. }: StepRows| {
            Ok(Eagle3Step { embedded: self.data.embed(&tokens)?, counted, targets: join(targets, d) })
        };
        let steps = steps.into_iter().map(step).collect::<Result<_, TrainError>>()?;
        Ok(Gathered { batch: Eagle3Batch { hooks: join(hooks, wide), segments, steps }, conversations, rows })
    }

    /// Whether the backbone's first guess after each state is in the draft vocabulary.
    fn draftable(&self, hidden: &Tensor<2>) -> Vec<bool> {
        let [rows, _] = hidden.dims();
        if self.vocabulary.is_whole() {
            return vec![true; rows];
        }
        let (mask, chunk) = (self.vocabulary.mask(), self.chunk_rows.max(1));
        let mut draftable = Vec::with_capacity(rows);
        for start in (0..rows).step_by(chunk) {
            let part = hidden.clone().narrow(0, start, chunk.min(rows - start));
            let best = self.lm_head.logits(part).argmax(1);
            let best: Vec<i64> = best.into_data().convert::<i64>().try_into_vec().unwrap_or_default();
            draftable.extend(best.into_iter().map(|token| mask.get(token as usize).copied().unwrap_or(false)));
        }
        draftable
    }

    fn losses(
        &self,
        weights: &[Tensor<1>],
        batch: &Eagle3Batch,
        scales: Option<&[f32]>,
    ) -> (Vec<Eagle3Output>, Vec<Tensor<1>>) {
        let criterion = Criterion { lm_head: &self.draft_head, chunk_rows: self.chunk_rows };
        losses(&self.network, &criterion, weights, batch, scales)
    }

    /// The first conversation of a batch with a loss that is not finite.
    fn blame(&self, gathered: &Gathered, outputs: &[Eagle3Output]) -> String {
        let bad = |(step, output): (&Eagle3Step, &Eagle3Output)| {
            let at = output.losses.iter().position(|loss| !loss.is_finite())?;
            step.counted.get(at).map(|&row| row as usize)
        };
        let row = gathered.batch.steps.iter().zip(outputs).filter_map(bad).min();
        let holds = |segment: &std::ops::Range<usize>| row.is_some_and(|row| segment.contains(&row));
        match gathered.batch.segments.iter().position(holds) {
            Some(segment) => self.data.place(false, gathered.conversations[segment]),
            None => "an unknown row".into(),
        }
    }

    fn shape_document(&self) -> Value {
        self.network.shape().document(&self.data.base)
    }
}

/// The most frequent tokens of the answers that are fitted to.
fn most_frequent(data: &Conversations, vocab_size: usize, size: usize) -> DraftVocabulary {
    let mut counts = vec![0u64; vocab_size];
    for row in data.whole() {
        let answers = row.example.ids.iter().zip(&row.example.assistant).filter(|(_, own)| **own);
        answers.for_each(|(&token, _)| counts[token as usize] += 1);
    }
    DraftVocabulary::most_frequent(&counts, size)
}

fn index(rows: impl Iterator<Item = usize>, like: &Tensor<2>) -> Tensor<1, Int> {
    let rows: Vec<i32> = rows.map(|row| row as i32).collect();
    let n = rows.len();
    Tensor::from_data(TensorData::new(rows, [n]), &like.device())
}

fn right(output: &Eagle3Output, within: u32) -> f64 {
    output.ranks.iter().filter(|&&rank| rank < within).count() as f64
}

impl Objective for Eagle3Fitting {
    type Batch = Vec<usize>;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.data.initialised(initial_all(self.network.shape().parameters(), &self.draft_head, seed))
    }

    fn constants(&self) -> Vec<Stored> {
        self.vocabulary.stored()
    }

    fn batches(&self, step: u64) -> Result<Vec<Vec<usize>>, TrainError> {
        Ok(self.data.packing.step(step))
    }

    /// Rows of each step that would count if every token could be drafted: each step's loss is a mean over them.
    fn weights(&self, batch: &Vec<usize>) -> Vec<f64> {
        let of = |step: usize| {
            let of = |example: &Example| (0..example.ids.len()).filter(|row| example.counts(step, *row)).count();
            batch.iter().map(|&i| of(&self.data.rows[i].example)).sum::<usize>() as f64
        };
        (0..self.config.steps).map(of).collect()
    }

    /// `Σ_s decay^s · mean CE of step s`, over the rows of the step.
    fn gradients(&self, weights: &[Tensor<1>], batch: &Vec<usize>, totals: &[f64]) -> Result<Gradients, TrainError> {
        let gathered = self.gather(false, batch)?;
        let scales: Vec<f64> = totals.iter().enumerate().map(|(s, n)| self.config.weight(s) / n.max(1.0)).collect();
        let narrow: Vec<f32> = scales.iter().map(|&scale| scale as f32).collect();
        let (outputs, gradients) = self.losses(weights, &gathered.batch, Some(&narrow));
        let (mut loss, mut counts) = (0.0, vec![]);
        for (step, output) in outputs.iter().enumerate() {
            let (losses, rows) = (sum(&output.losses), gathered.rows[step] as f64);
            loss += losses * scales[step];
            counts.push((format!("step{}_loss", step + 1), losses, rows));
            counts.push((format!("step{}_top1", step + 1), right(output, 1), rows));
        }
        let tokens = batch.iter().map(|&i| self.data.rows[i].example.ids.len()).sum();
        let not_finite = (!loss.is_finite()).then(|| self.blame(&gathered, &outputs));
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &Vec<usize>) -> Size {
        let tokens = self.data.packing.tokens_of(batch);
        Size { tokens, bytes: self.bytes_at_work(tokens) as u64 }
    }

    fn halves(&self, batch: &Vec<usize>) -> Option<(Vec<usize>, Vec<usize>)> {
        self.data.packing.halves(batch)
    }

    fn place(&self, batch: &Vec<usize>) -> String {
        batch.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let one = |conversation: usize| {
            let gathered = self.gather(true, &[conversation])?;
            Ok((self.losses(&weights, &gathered.batch, None).0, gathered.rows))
        };
        let measured: Vec<(Vec<Eagle3Output>, Vec<usize>)> = evaluation::each(self.data.held_out.len(), one)?;
        let mean = |step: usize, of: &dyn Fn(&Eagle3Output) -> f64| {
            let rows = measured.iter().map(|(_, rows)| rows[step]).sum::<usize>().max(1) as f64;
            measured.iter().map(|(outputs, _)| of(&outputs[step])).sum::<f64>() / rows
        };
        let by_step = |of: &dyn Fn(&Eagle3Output) -> f64| -> Vec<f64> {
            (0..self.config.steps).map(|step| mean(step, of)).collect()
        };
        let losses = by_step(&|output| sum(&output.losses));
        let loss = losses.iter().enumerate().map(|(step, loss)| self.config.weight(step) * loss).sum::<f64>();
        let drafter = |folder: &_, decoder| {
            Ok(Box::new(EagleDrafter::new(Eagle3Model::load(folder, decoder)?)) as Box<dyn Drafter>)
        };
        let metrics = Eagle3Metrics {
            loss,
            step_loss: losses,
            step_top1: by_step(&|output| right(output, 1)),
            top1: mean(0, &|output| right(output, 1)),
            top5: mean(0, &|output| right(output, 5)),
            draftable: mean(0, &|output| output.ranks.len() as f64),
            decoded: self.data.decode_layer(parameters, &self.constants(), &self.shape_document(), drafter)?,
        };
        Ok(Evaluation { metrics: Metrics::Eagle3(metrics), objective: loss })
    }

    fn document(&self) -> Option<Value> {
        Some(self.shape_document())
    }
}

impl OnBackbone for Eagle3Fitting {
    on_conversations!();

    fn positions(&self, example: &Example) -> Vec<usize> {
        read_positions(example)
    }

    fn hooks(&self) -> Hooks {
        self.hooks.clone()
    }

    fn read(&self, batch: &Vec<usize>) -> Result<(), TrainError> {
        self.gather(false, batch).map(|_| ())
    }

    fn title(&self) -> String {
        format!("a draft layer for {} of {} tokens", self.vocabulary.len(), self.lm_head.dims()[0])
    }

    fn bytes_at_work(&self, tokens: usize) -> usize {
        let (layer, steps) = (&self.network.shape().layer, self.config.steps);
        at_work::of_eagle3(layer, self.vocabulary.len(), steps, self.chunk_rows, tokens)
    }
}
