//! Fitting Kangaroo's adapter on an early exit of a frozen backbone.

use super::at_work;
use super::conversations::{Conversations, OnBackbone, on_conversations};
use super::decoding::adapter_tree;
use super::eagle::{counted, read_positions, sum};
use super::initial::initial_all;
use crate::error::TrainError;
use crate::evaluation::{self, KangarooMetrics, Metrics};
use crate::parameters::Parameter;
use crate::trainer::{Evaluation, Gradients, Objective, Size};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_data::render::Example;
use gorgon_draft::drafter::Drafter;
use gorgon_draft::kangaroo::{
    KangarooBatch, KangarooConfig, KangarooDrafter, KangarooModel, KangarooNetwork, KangarooOutput, KangarooShape,
};
use gorgon_draft::layer::LayerShape;
use gorgon_kernels::Table;
use gorgon_model::hooks::Hooks;
use serde_json::Value;

/// An adapter, the backbone's states, and the conversations that it is fitted to.
pub struct KangarooFitting {
    network: KangarooNetwork,
    hooks: Hooks,
    /// The backbone's LM head, `[V, d]`.
    lm_head: Table,
    chunk_rows: usize,
    data: Conversations,
}

impl KangarooFitting {
    /// An adapter for the conversations' backbone.
    ///
    /// # Errors
    /// When the backbone has too few layers.
    pub fn new(
        config: KangarooConfig,
        data: Conversations,
        lm_head: Table,
        chunk_rows: usize,
    ) -> Result<Self, TrainError> {
        let backbone = data.features.decoder.config();
        config.check_layers(backbone.layers).map_err(TrainError::Data)?;
        let hooks = Hooks::new(vec![config.exit_layer], backbone.layers);
        let hooks = hooks.map_err(|error| TrainError::Data(error.to_string()))?;
        let shape = KangarooShape { config, layer: LayerShape::of(backbone) };
        let lengths = data.rows.iter().chain(&data.held_out).map(|row| row.example.ids.len());
        let network = KangarooNetwork::new(shape, lengths.max().unwrap_or(0));
        Ok(Self { network, hooks, lm_head, chunk_rows, data })
    }

    /// Rows of some conversations, one conversation after another. A row counts if its token and the next one are the
    /// assistant's, which is when the next one is drafted.
    fn gather(&self, held_out: bool, rows: &[usize]) -> Result<KangarooBatch, TrainError> {
        let d = self.network.shape.layer.hidden_size;
        let (mut exits, mut targets, mut segments, mut all, mut first) = (vec![], vec![], vec![], vec![], 0);
        for &index in rows {
            let row = self.data.row(held_out, index);
            let positions = self.positions(&row.example);
            if positions.is_empty() {
                continue;
            }
            let states = self.data.features.hooked(row, held_out, index, &positions, &self.hooks)?;
            let own: Vec<i32> = counted(&row.example).map(|pair| pair as i32 + 1).collect();
            all.extend(own.iter().map(|&row| first as u32 + row as u32));
            let n = own.len();
            let own = Tensor::<1, Int>::from_data(TensorData::new(own, [n]), &states.device());
            targets.push(states.clone().narrow(1, d, d).select(0, own));
            exits.push(states.narrow(1, 0, d));
            segments.push(first..first + positions.len());
            first += positions.len();
        }
        let join = |parts: Vec<Tensor<2>>| match parts.is_empty() {
            true => Tensor::zeros([0, d], &self.lm_head.device()),
            false => Tensor::cat(parts, 0),
        };
        Ok(KangarooBatch { exits: join(exits), segments, counted: all, targets: join(targets) })
    }

    fn losses(
        &self,
        weights: &[Tensor<1>],
        batch: &KangarooBatch,
        scale: Option<f32>,
    ) -> (KangarooOutput, Vec<Tensor<1>>) {
        self.network.losses(weights, (&self.lm_head, self.chunk_rows), batch, scale)
    }

    /// The first conversation of a batch with a loss that is not finite.
    fn blame(&self, rows: &[usize], output: &KangarooOutput) -> String {
        let bad = output.losses.iter().position(|loss| !loss.is_finite());
        let mut end = 0;
        for &index in rows {
            end += counted(&self.data.row(false, index).example).count();
            if bad.is_some_and(|bad| bad < end) {
                return self.data.place(false, index);
            }
        }
        "an unknown row".into()
    }

    fn shape_document(&self) -> Value {
        self.network.shape.document(&self.data.base)
    }
}

fn within(outputs: &[KangarooOutput], k: u32) -> f64 {
    outputs.iter().flat_map(|output| &output.ranks).filter(|&&rank| rank < k).count() as f64
}

impl Objective for KangarooFitting {
    type Batch = Vec<usize>;

    fn parameters(&self, seed: u64) -> Vec<Parameter> {
        self.data.initialised(initial_all(self.network.shape.parameters(), &self.lm_head, seed))
    }

    fn batches(&self, step: u64) -> Result<Vec<Vec<usize>>, TrainError> {
        Ok(self.data.packing.step(step))
    }

    /// Rows that count: the loss is a mean over them.
    fn weights(&self, batch: &Vec<usize>) -> Vec<f64> {
        vec![batch.iter().map(|&i| counted(&self.data.rows[i].example).count()).sum::<usize>() as f64]
    }

    fn gradients(&self, weights: &[Tensor<1>], batch: &Vec<usize>, totals: &[f64]) -> Result<Gradients, TrainError> {
        let gathered = self.gather(false, batch)?;
        let scale = 1.0 / totals[0].max(1.0);
        let (output, gradients) = self.losses(weights, &gathered, Some(scale as f32));
        let cross_entropy = sum(&output.losses);
        let (loss, n) = (cross_entropy * scale, output.ranks.len() as f64);
        let right = output.ranks.iter().filter(|&&rank| rank == 0).count() as f64;
        let counts = [("cross_entropy", cross_entropy), ("top1", right)].map(|(k, v)| (k.into(), v, n));
        let tokens = self.data.packing.tokens_of(batch);
        let not_finite = (!loss.is_finite()).then(|| self.blame(batch, &output));
        Ok(Gradients { loss, tokens, counts: counts.into(), gradients, not_finite })
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
        let count = self.data.held_out.len();
        let one = |index: usize| Ok(self.losses(&weights, &self.gather(true, &[index])?, None).0);
        let outputs: Vec<KangarooOutput> = evaluation::each(count, one)?;
        let n = outputs.iter().map(|output| output.ranks.len()).sum::<usize>().max(1) as f64;
        let loss = outputs.iter().map(|output| sum(&output.losses)).sum::<f64>() / n;
        let drafter = |folder: &_, decoder| {
            Ok(Box::new(KangarooDrafter::new(KangarooModel::load(folder, decoder)?)) as Box<dyn Drafter>)
        };
        let decoded = self.data.decode(parameters, &[], &self.shape_document(), drafter, &adapter_tree()?)?;
        let (top1, top5) = (within(&outputs, 1) / n, within(&outputs, 5) / n);
        Ok(Evaluation { metrics: Metrics::Kangaroo(KangarooMetrics { loss, top1, top5, decoded }), objective: loss })
    }

    fn document(&self) -> Option<Value> {
        Some(self.shape_document())
    }
}

impl OnBackbone for KangarooFitting {
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
        format!("an adapter on {} layers", self.network.shape.config.exit_layer)
    }

    fn bytes_at_work(&self, tokens: usize) -> usize {
        let at_once = self.lm_head.rows_at_once(self.chunk_rows);
        at_work::of_adapter(&self.network.shape.layer, at_once, tokens) + self.lm_head.scratch_bytes(tokens)
    }
}
