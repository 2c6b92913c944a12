//! Sparse mixture of experts (Mixtral): every position is served by its likeliest experts.

use crate::config::{Experts, ModelConfig};
use crate::layout::LayerNames;
use crate::linear::{Linear, Loader};
use crate::mlp::Mlp;
use crate::weights::WeightsError;
use burn::tensor::{DType, Tensor, activation};
use gorgon_kernels::host;

/// `Σ_e w_e(x) · expert_e(x)` over the `per_token` likeliest experts, with `w` the softmax of the router's scores over
/// all experts, renormalised over the chosen ones.
#[derive(Debug)]
pub(crate) struct Mixture {
    router: Linear,
    experts: Vec<Mlp>,
    per_token: usize,
}

impl Mixture {
    pub fn load(
        loader: &Loader<'_>,
        config: &ModelConfig,
        names: &LayerNames,
        experts: Experts,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            router: loader.linear(std::slice::from_ref(&names.router), false)?,
            experts: names.mlps.iter().map(|names| Mlp::load(loader, config, names)).collect::<Result<_, _>>()?,
            per_token: experts.per_token,
        })
    }

    pub fn bytes(&self) -> usize {
        self.router.bytes() + self.experts.iter().map(Mlp::bytes).sum::<usize>()
    }

    /// # Shapes
    /// `x [batch, rows, d]`, result the same.
    pub fn forward(&self, x: &Tensor<3>) -> Tensor<3> {
        let scores = self.router.forward(x);
        match (host::read(x), host::read(&scores)) {
            (Some(x_values), Some(scores)) => self.forward_on_host(x, x_values.as_slice(), scores.as_slice()),
            _ => self.forward_on_device(x, scores),
        }
    }

    /// Each expert multiplies only the rows routed to it. A row's sum runs over experts in increasing order, so it does
    /// not depend on the other rows.
    fn forward_on_host(&self, x: &Tensor<3>, values: &[f32], scores: &[f32]) -> Tensor<3> {
        let [batch, rows, d] = x.dims();
        let routes: Vec<Vec<(usize, f32)>> =
            scores.chunks_exact(self.experts.len()).map(|row| route(row, self.per_token)).collect();
        let mut out = vec![0f32; values.len()];
        for (e, expert) in self.experts.iter().enumerate() {
            let served: Vec<(usize, f32)> = routes
                .iter()
                .enumerate()
                .filter_map(|(row, route)| route.iter().find(|(chosen, _)| *chosen == e).map(|&(_, w)| (row, w)))
                .collect();
            if served.is_empty() {
                continue;
            }
            let gathered = served.iter().flat_map(|&(row, _)| &values[row * d..(row + 1) * d]).copied().collect();
            let y = expert.forward(&host::tensor(gathered, [1, served.len(), d]));
            let y = host::read(&y).expect("an expert's output lives where its input does");
            for (&(row, weight), y) in served.iter().zip(y.as_slice().chunks_exact(d)) {
                for (sum, y) in out[row * d..(row + 1) * d].iter_mut().zip(y) {
                    *sum += weight * y;
                }
            }
        }
        host::tensor(out, [batch, rows, d])
    }

    /// All experts run on all rows, with weight zero where they were not chosen: no routing decision has to come back
    /// from the device within a step.
    fn forward_on_device(&self, x: &Tensor<3>, scores: Tensor<3>) -> Tensor<3> {
        let dtype = x.dtype();
        let weights = activation::softmax(scores.cast(DType::F32), 2);
        let (chosen, indices) = weights.clone().topk_with_indices(self.per_token, 2);
        let weights = weights / chosen.sum_dim(2);
        let expert = |(e, expert): (usize, &Mlp)| {
            // One where this expert is among the chosen, zero elsewhere.
            let served = indices.clone().equal_elem(e as i64).float().cast(DType::F32).sum_dim(2);
            expert.forward(x) * (weights.clone().narrow(2, e, 1) * served).cast(dtype)
        };
        let outputs = self.experts.iter().enumerate().map(expert);
        outputs.reduce(|sum, y| sum + y).expect("a mixture has at least one expert")
    }
}

/// The `k` experts with the highest scores and their weights; the lower number wins a tie.
fn route(scores: &[f32], k: usize) -> Vec<(usize, f32)> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order.truncate(k);
    let max = order.first().map_or(0.0, |&e| scores[e]);
    // Softmax over all experts, renormalised over the chosen: the common denominator cancels.
    let weights: Vec<f32> = order.iter().map(|&e| (scores[e] - max).exp()).collect();
    let total: f32 = weights.iter().sum();
    order.into_iter().zip(weights).map(|(e, w)| (e, w / total)).collect()
}

#[cfg(test)]
mod tests;
