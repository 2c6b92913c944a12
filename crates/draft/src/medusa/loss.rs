//! The heads' loss with its gradients.

use super::MedusaConfig;
use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor, TensorData, activation};
use gorgon_core::Token;
use gorgon_kernels::Table;
use gorgon_kernels::linear_cross_entropy::{Labels, linear_cross_entropy};

/// The labels of one head: a row of hidden states and the token to guess there, rows increasing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadLabels {
    /// Rows.
    pub rows: Vec<u32>,
    /// Tokens.
    pub tokens: Vec<Token>,
}

/// What each label of a head counts in the gradients; zero for an evaluation.
pub type HeadScale = f32;

/// What one head yields.
#[derive(Clone, Debug, Default)]
pub struct HeadOutput {
    /// Cross-entropy of each label, in nats.
    pub losses: Vec<f32>,
    /// How many tokens the head ranks above each label; 0 means that its first guess is right.
    pub ranks: Vec<u32>,
}

/// The heads, without their parameters.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Their shape.
    pub config: MedusaConfig,
    /// Width of a hidden state.
    pub hidden_size: usize,
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Rows of logits in memory at once.
    pub chunk_rows: usize,
}

impl Heads {
    /// Tensors of one head.
    fn per_head(&self) -> usize {
        2 * self.config.blocks + usize::from(self.config.own_lm_heads)
    }

    /// A head's residual blocks: `h ← h + SiLU(W1 h + b1)`.
    ///
    /// # Shapes
    /// `weights` flat, as in [`MedusaConfig::parameters`] for one head; `hidden [rows, d]`, result the same.
    pub fn blocks(&self, weights: &[Tensor<1>], hidden: Tensor<2>) -> Tensor<2> {
        let d = self.hidden_size;
        weights[..2 * self.config.blocks].chunks_exact(2).fold(hidden, |h, block| {
            let inner = h.clone().matmul(block[0].clone().reshape([d, d]).transpose()) + block[1].clone().unsqueeze();
            h + activation::silu(inner)
        })
    }

    /// `Σ_k scale_k Σ_i CE(head_k(h_i), y_i)`: losses and ranks of every head and, where `scales` are given, the gradient
    /// of every parameter.
    ///
    /// Hidden states and the shared LM head are constants. The logits are made and used up a chunk at a time.
    ///
    /// # Shapes
    /// `weights` flat, as in [`MedusaConfig::parameters`]; `lm_head [V, d]`; `hidden [rows, d]`; labels and scales one per
    /// head.
    pub fn losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        hidden: &Tensor<2>,
        labels: &[HeadLabels],
        scales: Option<&[HeadScale]>,
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>) {
        let (mut outputs, mut gradients) = (vec![], vec![]);
        for (head, labels) in labels.iter().enumerate() {
            let own = &weights[head * self.per_head()..][..self.per_head()];
            let scale = scales.map(|scales| scales[head]);
            let (output, gradient, _) = self.one_head(own, lm_head, hidden, labels, scale);
            outputs.push(output);
            gradients.extend(gradient);
        }
        (outputs, gradients)
    }

    /// As [`Self::losses`], with the gradient of the hidden states too: for a backbone that is fitted along with the heads.
    ///
    /// # Shapes
    /// The gradient of the states is `[rows, d]`.
    pub fn joint_losses(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        hidden: &Tensor<2>,
        labels: &[HeadLabels],
        scales: &[HeadScale],
    ) -> (Vec<HeadOutput>, Vec<Tensor<1>>, Tensor<2>) {
        let (mut outputs, mut gradients, mut states) = (vec![], vec![], hidden.zeros_like());
        for (head, labels) in labels.iter().enumerate() {
            let own = &weights[head * self.per_head()..][..self.per_head()];
            let (output, gradient, d_rows) = self.one_head(own, lm_head, hidden, labels, Some(scales[head]));
            outputs.push(output);
            gradients.extend(gradient);
            if let Some(d_rows) = d_rows {
                let index = rows(labels, &hidden.device());
                states = states.select_assign(0, index, d_rows, IndexingUpdateOp::Add);
            }
        }
        (outputs, gradients, states)
    }

    fn one_head(
        &self,
        weights: &[Tensor<1>],
        lm_head: &Table,
        hidden: &Tensor<2>,
        labels: &HeadLabels,
        scale: Option<HeadScale>,
    ) -> (HeadOutput, Vec<Tensor<1>>, Option<Tensor<2>>) {
        let n = labels.rows.len();
        if n == 0 {
            let zeros = if scale.is_some() { weights.iter().map(Tensor::zeros_like).collect() } else { vec![] };
            return (HeadOutput::default(), zeros, None);
        }
        let rows = match n == hidden.dims()[0] {
            true => hidden.clone(),
            false => hidden.clone().select(0, rows(labels, &hidden.device())),
        };
        let table = match weights.get(2 * self.config.blocks) {
            Some(own) => own.clone().reshape([self.vocab_size, self.hidden_size]).into(),
            None => lm_head.clone(),
        };
        let scales = vec![scale.unwrap_or(0.0); n];
        let labels = Labels { tokens: &labels.tokens, scales: &scales };
        let tracked = |w: &Tensor<1>| if scale.is_some() { w.clone().autodiff().require_grad() } else { w.clone() };
        let leaves: Vec<Tensor<1>> = weights[..2 * self.config.blocks].iter().map(tracked).collect();
        let rows = if scale.is_some() { rows.autodiff().require_grad() } else { rows };
        let top = self.blocks(&leaves, rows.clone());
        let own_table = scale.is_some() && self.config.own_lm_heads;
        let found = linear_cross_entropy(&top.clone().inner(), &table, labels, self.chunk_rows, own_table);
        let output = HeadOutput { losses: found.losses, ranks: found.ranks };
        if scale.is_none() {
            return (output, vec![], None);
        }
        // `Σ top ∘ ∂L/∂top` is a scalar whose gradient is `∂L/∂top`: it carries the gradient on into the blocks.
        let mut grads = (top * found.d_hidden.autodiff()).sum().backward();
        let of = |(leaf, w): (&Tensor<1>, &Tensor<1>)| leaf.grad_remove(&mut grads).unwrap_or_else(|| w.zeros_like());
        let mut gradients: Vec<Tensor<1>> = leaves.iter().zip(weights).map(of).collect();
        gradients.extend(found.d_weight.map(|g| g.reshape([-1])));
        (output, gradients, rows.grad_remove(&mut grads))
    }
}

/// The rows of some labels as an index.
fn rows(labels: &HeadLabels, device: &Device) -> Tensor<1, Int> {
    let index: Vec<i32> = labels.rows.iter().map(|&row| row as i32).collect();
    let n = index.len();
    Tensor::from_data(TensorData::new(index, [n]), device)
}
