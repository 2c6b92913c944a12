//! The consistency loss and the cross-entropy of the text, with their gradients.

use crate::llama::{Llama, Packed};
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_core::Token;
use gorgon_draft::fitting::GradientCarry;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{
    Labels, linear_cross_entropy, soft_cross_entropy, soft_cross_entropy_between,
};
use gorgon_kernels::projected::Projected;

/// A state of a trajectory and what it is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// `x`.
    pub prefix: &'a [Token],
    /// `y*`: the text is `x` with this.
    pub text: &'a [Token],
    /// Which tokens of `x` have a cross-entropy that counts; `None`: all of them. Those of `y*` always do.
    pub labelled: Option<&'a [bool]>,
    /// `y*`, or the next state: the state is compared with it.
    pub target: &'a [Token],
    /// `y`, as long as the target.
    pub state: &'a [Token],
}

impl Sample<'_> {
    /// Tokens before the first difference.
    fn agreeing(&self) -> usize {
        self.target.iter().zip(self.state).take_while(|(a, b)| a == b).count()
    }

    /// Places of the text whose cross-entropy counts. Nothing tells the first token.
    fn labelled(&self) -> impl Iterator<Item = usize> + '_ {
        let (prefix, all) = (self.prefix.len(), self.prefix.len() + self.text.len());
        (1..all).filter(move |&at| at >= prefix || self.labelled.is_none_or(|labelled| labelled[at]))
    }

    /// Places of the block whose contexts differ.
    fn differing(&self) -> std::ops::Range<usize> {
        (self.agreeing() + 1).min(self.target.len())..self.target.len()
    }
}

/// The network and the weights of the loss's parts.
#[derive(Clone, Copy, Debug)]
pub struct ConsistencyLoss<'a> {
    /// The network.
    pub llama: &'a Llama,
    /// Its LM head, `[V, d]`.
    pub lm_head: &'a Table,
    /// Whether the LM head's gradient is wanted.
    pub fits_lm_head: bool,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
    /// Weight of a sample's consistency loss in the gradient.
    pub consistency: f64,
    /// Weight of a sample's mean cross-entropy in the gradient.
    pub text: f64,
    /// Label smoothing.
    pub smoothing: f64,
}

/// Losses of some samples, and what their gradient is made of.
#[derive(Debug, Default)]
pub struct ConsistencyFound {
    /// `Σ_i KL` of each sample, not weighted.
    pub consistency: Vec<f64>,
    /// Mean cross-entropy of each sample's text with label smoothing, not weighted.
    pub text: Vec<f64>,
    /// The weighted loss's gradients with respect to the network's states.
    pub carry: GradientCarry,
    /// That with respect to the LM head, if it was wanted.
    pub d_lm_head: Option<Tensor<2>>,
}

/// Rows of a packed pass: tokens, where each sample's sequences lie, and which sample a row belongs to.
#[derive(Default)]
struct Rows {
    packed: Packed,
    /// In the sequence of the state, and in that of the target at the same place.
    student: Vec<i32>,
    teacher: Vec<i32>,
    compared: Vec<usize>,
    /// In the sequence of the text, with the token after it.
    text: Vec<i32>,
    labels: Vec<Token>,
    read: Vec<usize>,
}

impl Rows {
    fn of(samples: &[Sample<'_>]) -> Self {
        let mut rows = Self::default();
        for (number, sample) in samples.iter().enumerate() {
            let start = rows.push(sample.prefix, sample.text);
            for place in sample.labelled() {
                rows.text.push((start + place - 1) as i32);
                rows.labels.push(rows.packed.tokens[start + place]);
                rows.read.push(number);
            }
            if sample.differing().is_empty() {
                continue;
            }
            let teacher = if sample.target == sample.text { start } else { rows.push(sample.prefix, sample.target) };
            let other = rows.push(sample.prefix, sample.state);
            for place in sample.differing() {
                rows.teacher.push((teacher + sample.prefix.len() + place - 1) as i32);
                rows.student.push((other + sample.prefix.len() + place - 1) as i32);
                rows.compared.push(number);
            }
        }
        rows
    }

    fn push(&mut self, prefix: &[Token], block: &[Token]) -> usize {
        let start = self.packed.tokens.len();
        self.packed.tokens.extend_from_slice(prefix);
        self.packed.tokens.extend_from_slice(block);
        self.packed.segments.push(start..self.packed.tokens.len());
        start
    }
}

impl ConsistencyLoss<'_> {
    /// Losses of some samples, each with a token that counts.
    ///
    /// # Shapes
    /// `weights` as in [`Llama::parameters`], flat; tracked where gradients are wanted.
    pub fn of(&self, weights: &[Tensor<1>], samples: &[Sample<'_>]) -> ConsistencyFound {
        let rows = Rows::of(samples);
        let hidden = self.llama.hidden(weights, &rows.packed);
        let mut found = ConsistencyFound {
            consistency: vec![0.0; samples.len()],
            text: vec![0.0; samples.len()],
            ..ConsistencyFound::default()
        };
        self.add_consistency(&hidden, &rows, &mut found);
        self.add_text(&hidden, &rows, samples, &mut found);
        found
    }

    fn add_consistency(&self, hidden: &Tensor<2>, rows: &Rows, found: &mut ConsistencyFound) {
        if rows.student.is_empty() {
            return;
        }
        let student = select(hidden, &rows.student);
        let (own, teacher) = (student.clone().inner(), select(hidden, &rows.teacher).inner());
        let of = |states| Projected::new(states, self.lm_head);
        let (scale, chunk) = (self.consistency as f32, self.chunk_rows);
        let crossed = soft_cross_entropy_between(of(&own), of(&teacher), scale, chunk, self.fits_lm_head);
        // Cross-entropy less entropy is the divergence.
        let entropy = soft_cross_entropy(&teacher, &teacher, self.lm_head, 0.0, chunk).losses;
        for ((&sample, crossed), entropy) in rows.compared.iter().zip(&crossed.losses).zip(entropy) {
            found.consistency[sample] += f64::from(crossed - entropy);
        }
        found.carry.add(student, crossed.d_hidden);
        found.add_lm_head(crossed.d_weight);
    }

    fn add_text(&self, hidden: &Tensor<2>, rows: &Rows, samples: &[Sample<'_>], found: &mut ConsistencyFound) {
        let counts: Vec<f64> = samples.iter().map(|sample| sample.labelled().count() as f64).collect();
        let scales: Vec<f32> = rows.read.iter().map(|&sample| (self.text / counts[sample]) as f32).collect();
        let text = select(hidden, &rows.text);
        let own = text.clone().inner();
        let labels = Labels { tokens: &rows.labels, scales: &scales };
        let crossed = linear_cross_entropy(&own, self.lm_head, labels, self.chunk_rows, self.fits_lm_head);
        let (margins, d_smooth) = self.smoothed(&own, rows, &scales, found);
        for ((&sample, loss), margin) in rows.read.iter().zip(&crossed.losses).zip(margins) {
            found.text[sample] += f64::from(loss + margin) / counts[sample];
        }
        found.carry.add(text, crossed.d_hidden + d_smooth);
        found.add_lm_head(crossed.d_weight);
    }

    /// Smoothing adds `ε h·(w_y − w̄)` to a row's cross-entropy, with `w̄` the mean row of the LM head: the value of each
    /// row, and the gradient of the scaled sum with respect to the states.
    fn smoothed(
        &self,
        states: &Tensor<2>,
        rows: &Rows,
        scales: &[f32],
        found: &mut ConsistencyFound,
    ) -> (Vec<f32>, Tensor<2>) {
        if self.smoothing == 0.0 {
            return (vec![0.0; scales.len()], states.zeros_like());
        }
        let (n, [vocab, _], device) = (scales.len(), self.lm_head.dims(), states.device());
        let table: &Tensor<2> = self.lm_head;
        let labels: Vec<i32> = rows.labels.iter().map(|&token| token as i32).collect();
        let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [n]), &device);
        let mean = table.clone().mean_dim(0);
        let away = (table.clone().select(0, labels.clone()) - mean) * self.smoothing as f32;
        let margins = (states.clone() * away.clone()).sum_dim(1).reshape([n]);
        let scales = Tensor::<2>::from_data(TensorData::new(scales.to_vec(), [n, 1]), &device);
        if self.fits_lm_head {
            let scaled = states.clone() * scales.clone() * self.smoothing as f32;
            let all = scaled.clone().sum_dim(0) / -(vocab as f32);
            let d_table = all.expand(table.dims()) + Tensor::zeros(table.dims(), &device);
            let d_table = d_table.select_assign(0, labels, scaled, burn::tensor::IndexingUpdateOp::Add);
            found.add_lm_head(Some(d_table));
        }
        (gorgon_model::target::read(margins), away * scales)
    }
}

impl ConsistencyFound {
    fn add_lm_head(&mut self, more: Option<Tensor<2>>) {
        self.d_lm_head = match (self.d_lm_head.take(), more) {
            (Some(sum), Some(more)) => Some(sum + more),
            (sum, more) => sum.or(more),
        };
    }
}

fn select(states: &Tensor<2>, rows: &[i32]) -> Tensor<2> {
    let index = TensorData::new(rows.to_vec(), [rows.len()]);
    states.clone().select(0, Tensor::<1, Int>::from_data(index, &states.device()))
}
