//! Fitting a block drafter to a frozen backbone.

use super::at_work;
use super::conversations::{Conversations, OnBackbone, on_conversations};
use super::decoding::block_tree;
use super::drawn::Draw;
use super::initial::initial_all;
use crate::error::TrainError;
use crate::evaluation::{self, BlockMetrics, Metrics};
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::Tensor;
use gorgon_core::Token;
use gorgon_data::render::Example;
use gorgon_draft::block::{
    BlockBatch, BlockConfig, BlockDrafter, BlockModel, BlockNetwork, BlockOutput, Criterion, losses,
};
use gorgon_draft::drafter::Drafter;
use gorgon_kernels::Table;
use gorgon_model::hooks::Hooks;
use serde_json::Value;

/// Separates the random stream of anchors from others of the same seed.
const ANCHORS: u64 = 0x616e_6368_6f72;

/// A block drafter, the backbone's states, and the conversations that it is fitted to.
pub struct BlockFitting {
    network: BlockNetwork,
    config: BlockConfig,
    hooks: Hooks,
    /// The backbone's LM head, `[V, d]`.
    lm_head: Table,
    chunk_rows: usize,
    /// Seed of the anchors.
    seed: u64,
    data: Conversations,
}

/// A micro-batch: its conversations, and the step whose anchors they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchored {
    step: u64,
    rows: Vec<usize>,
}

/// Some conversations as a batch, with the conversation of each block.
struct Gathered {
    batch: BlockBatch,
    conversations: Vec<usize>,
}

/// Where a block can stand: at a token of the assistant after which another one follows, and which is not the first of
/// the text. These are the places at which decoding drafts.
fn places(example: &Example) -> impl Iterator<Item = usize> + '_ {
    (1..example.ids.len()).filter(|&at| example.counts(0, at - 1))
}

/// The labels of a block: the assistant's tokens that follow its anchor without a gap.
fn labels(example: &Example, anchor: usize, most: usize) -> &[Token] {
    let following = anchor + 1..example.ids.len().min(anchor + 1 + most);
    let own = example.assistant[following.clone()].iter().take_while(|own| **own).count();
    &example.ids[following.start..following.start + own]
}

impl BlockFitting {
    /// A block drafter for the conversations' backbone.
    ///
    /// # Errors
    /// When the config names layers or a token that the backbone does not have.
    pub fn new(
        config: BlockConfig,
        data: Conversations,
        lm_head: Table,
        chunk_rows: usize,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let backbone = data.features.decoder.config();
        let wrong = |error: &dyn std::fmt::Display| TrainError::Data(error.to_string());
        let shape = config.shape(backbone).map_err(|error| wrong(&error))?;
        let hooks = Hooks::new(shape.hooks.clone(), backbone.layers).map_err(|error| wrong(&error))?;
        let lengths = data.rows.iter().chain(&data.held_out).map(|row| row.example.ids.len());
        let network = BlockNetwork::new(shape, lengths.max().unwrap_or(0));
        Ok(Self { network, config, hooks, lm_head, chunk_rows, seed, data })
    }

    /// The anchors of a conversation in a step, increasing: a function of both alone. Evaluations are no step.
    fn anchors(&self, held_out: bool, index: usize, step: Option<u64>) -> Vec<usize> {
        let places = places(&self.data.row(held_out, index).example).collect();
        let conversations = self.data.rows.len();
        Draw { seed: self.seed ^ ANCHORS, step, index, conversations }.of(places, self.config.anchors)
    }

    /// The blocks of some conversations, one conversation after another.
    fn gather(&self, held_out: bool, rows: &[usize], step: Option<u64>) -> Result<Gathered, TrainError> {
        let shape = self.network.shape();
        let wide = shape.hooks.len() * shape.layer.hidden_size;
        let (mut hooks, mut context, mut all_anchors, mut first) = (vec![], vec![], vec![], 0);
        let (mut tokens, mut all_labels, mut conversations) = (vec![], vec![], vec![]);
        let mut anchor_tokens = vec![];
        for &index in rows {
            let row = self.data.row(held_out, index);
            let anchors = self.anchors(held_out, index, step);
            let Some(&last) = anchors.last() else { continue };
            let states = self.data.features.hooked(row, held_out, index, &self.positions(&row.example), &self.hooks)?;
            hooks.push(states.narrow(0, 0, last).narrow(1, 0, wide));
            context.push(first..first + last);
            first += last;
            for &anchor in &anchors {
                anchor_tokens.push(row.example.ids[anchor]);
                tokens.push(row.example.ids[anchor]);
                tokens.resize(tokens.len() + shape.slots - 1, shape.mask_token);
                all_labels.push(labels(&row.example, anchor, shape.slots - 1).to_vec());
                conversations.push(index);
            }
            all_anchors.push(anchors);
        }
        let hooks = match hooks.is_empty() {
            true => Tensor::zeros([0, wide], &self.lm_head.device()),
            false => Tensor::cat(hooks, 0),
        };
        let embedded = self.data.embed(&tokens)?;
        let batch = BlockBatch { hooks, context, anchors: all_anchors, embedded, anchor_tokens, labels: all_labels };
        Ok(Gathered { batch, conversations })
    }

    fn losses(
        &self,
        weights: &[Tensor<1>],
        batch: &BlockBatch,
        scale: Option<f32>,
    ) -> (Vec<BlockOutput>, Vec<Tensor<1>>) {
        let criterion = Criterion { config: &self.config, lm_head: &self.lm_head, chunk_rows: self.chunk_rows };
        losses(&self.network, &criterion, weights, batch, scale)
    }

    /// Blocks of a conversation in a step.
    fn count(&self, index: usize) -> usize {
        places(&self.data.rows[index].example).count().min(self.config.anchors)
    }

    /// Bytes of so many blocks over so many tokens.
    fn bytes(&self, blocks: usize, tokens: usize) -> usize {
        at_work::of_block(self.network.shape(), self.chunk_rows, blocks, tokens)
    }

    fn shape_document(&self) -> Value {
        self.network.shape().document(&self.data.base)
    }
}

/// Sums by slot, and how many blocks have a label there.
fn by_slot(outputs: &[BlockOutput], slots: usize, of: impl Fn(&BlockOutput, usize) -> f64) -> Vec<(f64, f64)> {
    let one = |slot: usize| {
        let labelled = outputs.iter().filter(|output| slot < output.losses.len());
        labelled.fold((0.0, 0.0), |(total, count), output| (total + of(output, slot), count + 1.0))
    };
    (0..slots - 1).map(one).collect()
}

fn loss_of(output: &BlockOutput, slot: usize) -> f64 {
    f64::from(output.losses[slot])
}

fn selected(output: &BlockOutput, slot: usize) -> f64 {
    output.selector_losses.get(slot).copied().map_or(0.0, f64::from)
}

fn right(output: &BlockOutput, slot: usize) -> f64 {
    f64::from(u8::from(output.ranks[slot] == 0))
}

impl Objective for BlockFitting {
    type Batch = Anchored;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.data.initialised(initial_all(self.network.shape().parameters(), &self.lm_head, seed))
    }

    fn batches(&self, step: u64) -> Result<Vec<Anchored>, TrainError> {
        Ok(self.data.packing.step(step).into_iter().map(|rows| Anchored { step, rows }).collect())
    }

    /// Blocks: the loss is a mean over them.
    fn weights(&self, batch: &Anchored) -> Vec<f64> {
        vec![batch.rows.iter().map(|&index| self.count(index)).sum::<usize>() as f64]
    }

    /// The mean over blocks of `Σ_k w_k CE_k`.
    fn gradients(&self, weights: &[Tensor<1>], batch: &Anchored, totals: &[f64]) -> Result<Gradients, TrainError> {
        let Gathered { batch: blocks, conversations } = self.gather(false, &batch.rows, Some(batch.step))?;
        let scale = 1.0 / totals[0].max(1.0);
        let (outputs, gradients) = self.losses(weights, &blocks, Some(scale as f32));
        let loss = outputs.iter().map(BlockOutput::loss).sum::<f64>() * scale;
        let mut counts = vec![];
        let slots = self.config.slots;
        let both = by_slot(&outputs, slots, loss_of).into_iter().zip(by_slot(&outputs, slots, right));
        for (slot, ((losses, labels), (right, _))) in both.enumerate() {
            counts.push((format!("slot{}_loss", slot + 1), losses, labels));
            counts.push((format!("slot{}_top1", slot + 1), right, labels));
        }
        if self.config.selector.is_some() {
            let all = by_slot(&outputs, slots, selected).into_iter();
            let (losses, labels) = all.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
            counts.push(("selector_loss".into(), losses, labels));
        }
        let tokens = batch.rows.iter().map(|&index| self.data.rows[index].example.ids.len()).sum();
        let bad = outputs.iter().position(|output| output.losses.iter().any(|loss| !loss.is_finite()));
        let not_finite = (!loss.is_finite()).then(|| match bad {
            Some(block) => self.data.place(false, conversations[block]),
            None => "an unknown row".into(),
        });
        Ok(Gradients { loss, tokens, counts, gradients, not_finite })
    }

    fn size(&self, batch: &Anchored) -> Size {
        let tokens = self.data.packing.tokens_of(&batch.rows);
        let blocks = batch.rows.iter().map(|&index| self.count(index)).sum();
        Size { tokens, bytes: self.bytes(blocks, tokens) as u64 }
    }

    fn halves(&self, batch: &Anchored) -> Option<(Anchored, Anchored)> {
        let of = |rows| Anchored { step: batch.step, rows };
        self.data.packing.halves(&batch.rows).map(|(first, other)| (of(first), of(other)))
    }

    fn place(&self, batch: &Anchored) -> String {
        batch.rows.first().map_or_else(|| "no conversation".into(), |&index| self.data.place(false, index))
    }

    fn evaluate(&self, parameters: &[Parameter]) -> Result<Evaluation, TrainError> {
        let weights: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
        let one = |index: usize| Ok(self.losses(&weights, &self.gather(true, &[index], None)?.batch, None).0);
        let count = self.data.held_out.len();
        let outputs: Vec<Vec<BlockOutput>> = evaluation::each(count, one)?;
        let outputs: Vec<BlockOutput> = outputs.into_iter().flatten().collect();
        let means = |of: fn(&BlockOutput, usize) -> f64| -> Vec<f64> {
            let sums = by_slot(&outputs, self.config.slots, of).into_iter();
            sums.map(|(total, labels)| total / labels.max(1.0)).collect()
        };
        let loss = outputs.iter().map(BlockOutput::loss).sum::<f64>() / outputs.len().max(1) as f64;
        let drafter = |folder: &_, decoder| {
            Ok(Box::new(BlockDrafter::new(BlockModel::load(folder, decoder)?)) as Box<dyn Drafter>)
        };
        let tree = block_tree()?;
        let top1 = means(right);
        let metrics = BlockMetrics {
            loss,
            slot_loss: means(loss_of),
            selector_loss: if self.config.selector.is_some() { means(selected) } else { vec![] },
            top1: top1.first().copied().unwrap_or(0.0),
            slot_top1: top1,
            decoded: self.data.decode(parameters, &[], &self.shape_document(), drafter, &tree)?,
        };
        Ok(Evaluation { metrics: Metrics::Block(metrics), objective: loss })
    }

    fn document(&self) -> Option<Value> {
        Some(self.shape_document())
    }
}

impl OnBackbone for BlockFitting {
    on_conversations!();

    /// All positions before the last place of a block, which sees them all.
    fn positions(&self, example: &Example) -> Vec<usize> {
        places(example).last().map_or(vec![], |last| (0..last).collect())
    }

    fn hooks(&self) -> Hooks {
        self.hooks.clone()
    }

    fn read(&self, batch: &Anchored) -> Result<(), TrainError> {
        self.gather(false, &batch.rows, Some(batch.step)).map(|_| ())
    }

    fn title(&self) -> String {
        let BlockConfig { layers, slots, .. } = self.config;
        format!("a block drafter of {layers} layers and {} tokens", slots - 1)
    }

    /// Every token may be an anchor.
    fn bytes_at_work(&self, tokens: usize) -> usize {
        self.bytes(tokens, tokens)
    }
}
