//! Sparse mixture of experts (Mixtral): every position is served by the experts that its router ranks first.

use crate::config::{Experts, ModelConfig};
use crate::hidden_states::HiddenStates;
use crate::layout::LayerNames;
use crate::linear::{Linear, Loader};
use crate::mlp::Mlp;
use crate::weights::WeightsError;
use burn::tensor::{DType, Tensor, activation};
use gorgon_core::PooledVec;

/// `Σ_e w_e(x) · expert_e(x)` over the `per_token` experts with the greatest router logits. `w` is the softmax of all
/// router logits, renormalised over the chosen experts.
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

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.router.bytes() + self.experts.iter().map(Mlp::bytes).sum::<usize>()
    }

    /// The mixture applied to every row.
    ///
    /// # Shapes
    /// `x [rows, d]`, result the same.
    pub fn forward(&self, x: &HiddenStates) -> HiddenStates {
        match (x, self.router.forward(x)) {
            (HiddenStates::Host { values, width }, HiddenStates::Host { values: logits, .. }) => {
                self.forward_on_host(values, *width, &logits)
            }
            (x, logits) => HiddenStates::on_device(self.forward_on_device(&x.tensor(), logits.into_tensor())),
        }
    }

    /// Each expert multiplies only the rows routed to it. A row's sum runs over experts in increasing order, so it does
    /// not depend on the other rows.
    fn forward_on_host(&self, x: &[f32], width: usize, logits: &[f32]) -> HiddenStates {
        let mut routes = PooledVec::<(u32, f32)>::new();
        logits.chunks_exact(self.experts.len()).for_each(|row| route(row, self.per_token, &mut routes));
        let mut out = PooledVec::of(0f32, x.len());
        for (e, expert) in self.experts.iter().enumerate() {
            let mut served = PooledVec::<(u32, f32)>::new();
            for (row, route) in routes.chunks_exact(self.per_token).enumerate() {
                served.extend(route.iter().find(|(chosen, _)| *chosen == e as u32).map(|&(_, w)| (row as u32, w)));
            }
            if served.is_empty() {
                continue;
            }
            let mut values = PooledVec::new();
            served.iter().for_each(|&(row, _)| values.extend_from_slice(&x[row as usize * width..][..width]));
            let y = expert.forward(&HiddenStates::Host { values, width }).whole();
            for (&(row, weight), y) in served.iter().zip(y.on_host().unwrap_or(&[]).chunks_exact(width)) {
                for (sum, y) in out[row as usize * width..][..width].iter_mut().zip(y) {
                    *sum += weight * y;
                }
            }
        }
        HiddenStates::Host { values: out, width }
    }

    /// All experts run on all rows, with weight zero where they were not chosen: no routing decision has to come back
    /// from the device within a step.
    fn forward_on_device(&self, x: &Tensor<3>, logits: Tensor<3>) -> Tensor<3> {
        let dtype = x.dtype();
        let weights = activation::softmax(logits.cast(DType::F32), 2);
        let (chosen, indices) = weights.clone().topk_with_indices(self.per_token, 2);
        let weights = weights / chosen.sum_dim(2);
        let mut sum: Option<Tensor<3>> = None;
        for (e, expert) in self.experts.iter().enumerate() {
            // One where this expert is among the chosen, zero elsewhere.
            let served = indices.clone().equal_elem(e as i64).float().cast(DType::F32).sum_dim(2);
            let y = expert.forward(&HiddenStates::on_device(x.clone())).whole().into_tensor();
            let y = y * (weights.clone().narrow(2, e, 1) * served).cast(dtype);
            sum = Some(match sum {
                Some(sum) => sum + y,
                None => y,
            });
        }
        sum.unwrap_or_else(|| x.zeros_like())
    }
}

/// Appends the `k` experts with the greatest logits and their weights to `routes`; the lower number wins a tie.
fn route(logits: &[f32], k: usize, routes: &mut PooledVec<(u32, f32)>) {
    let mut order: PooledVec<u32> = (0..logits.len() as u32).collect();
    let of = |e: u32| logits[e as usize];
    order.sort_unstable_by(|&a, &b| of(b).total_cmp(&of(a)).then(a.cmp(&b)));
    order.truncate(k);
    let max = order.first().map_or(0.0, |&e| of(e));
    // Softmax over all experts, renormalised over the chosen: the common denominator cancels.
    let weight = |e: u32| (of(e) - max).exp();
    let total: f32 = order.iter().map(|&e| weight(e)).sum();
    routes.extend(order.iter().map(|&e| (e, weight(e) / total)));
}

#[cfg(test)]
mod tests;
