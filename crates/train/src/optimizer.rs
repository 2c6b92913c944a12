//! AdamW and Muon, over flat parameters.

mod muon;

use self::muon::Muon;
use crate::parameters::{Parameter, Role};
use burn::tensor::Tensor;
use gorgon_kernels::adamw::{self, AdamWStep};
use gorgon_kernels::host;
use gorgon_kernels::squares::sum_of_squares;
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The optimizer of the matrices. Tables and vectors always use AdamW.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// AdamW (Loshchilov and Hutter, 2019).
    AdamW,
    /// Muon (Jordan, 2024): momentum whose matrix is orthogonalised before it is applied.
    Muon,
}

/// Hyper-parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimizer {
    /// The optimizer of the matrices.
    pub method: Method,
    /// Decay rates of AdamW's first and second moments.
    pub betas: (f64, f64),
    /// AdamW's epsilon.
    pub epsilon: f64,
    /// Decoupled weight decay of matrices and tables, per unit of learning rate.
    pub weight_decay: f64,
    /// Muon's momentum.
    pub momentum: f64,
    /// Muon's learning rate relative to AdamW's.
    pub muon_factor: f64,
}

impl Default for Optimizer {
    fn default() -> Self {
        let betas = (0.9, 0.95);
        Self { method: Method::AdamW, betas, epsilon: 1e-8, weight_decay: 0.0, momentum: 0.95, muon_factor: 10.0 }
    }
}

/// The optimizer's moments of one parameter.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Running mean of the gradient, or Muon's momentum.
    pub first: Tensor<1>,
    /// Running mean of its square; empty for Muon.
    pub second: Tensor<1>,
}

impl Optimizer {
    /// True if this parameter is fitted by Muon.
    pub fn is_muon(&self, parameter: &Parameter) -> bool {
        self.method == Method::Muon && parameter.role == Role::Matrix
    }

    /// Moments before the first step.
    pub fn start(&self, parameters: &[Parameter]) -> Vec<Moments> {
        let zeros = |n: usize, parameter: &Parameter| Tensor::zeros([n], &parameter.value.device());
        let one = |p: &Parameter| Moments {
            first: zeros(p.len(), p),
            second: zeros(if self.is_muon(p) { 0 } else { p.len() }, p),
        };
        parameters.iter().map(one).collect()
    }

    /// Number of values of the moments of these parameters.
    pub fn values(&self, parameters: &[Parameter]) -> usize {
        parameters.iter().map(|p| if self.is_muon(p) { p.len() } else { 2 * p.len() }).sum()
    }

    /// One step with gradients that are already scaled and clipped; `step` counts from 0.
    pub fn apply(
        &self,
        parameters: &mut [Parameter],
        moments: &mut [Moments],
        gradients: Vec<Tensor<1>>,
        rate: f64,
        step: u64,
    ) {
        let rates = vec![rate; parameters.len()];
        self.apply_each(parameters, moments, gradients, &rates, step);
    }

    /// As [`Self::apply`], with a rate for each parameter; those with a rate of 0 stay as they are.
    pub fn apply_each(
        &self,
        parameters: &mut [Parameter],
        moments: &mut [Moments],
        gradients: Vec<Tensor<1>>,
        rates: &[f64],
        step: u64,
    ) {
        if on_host(parameters) {
            let work = parameters.par_iter_mut().zip(moments).zip(gradients).zip(rates);
            work.for_each(|(((parameter, moments), g), &rate)| self.apply_one(parameter, moments, g, rate, step));
        } else {
            let work = parameters.iter_mut().zip(moments).zip(gradients).zip(rates);
            work.for_each(|(((parameter, moments), g), &rate)| self.apply_one(parameter, moments, g, rate, step));
        }
    }

    fn apply_one(&self, parameter: &mut Parameter, moments: &mut Moments, gradient: Tensor<1>, rate: f64, step: u64) {
        if rate == 0.0 {
            return;
        }
        if self.is_muon(parameter) {
            let rate = rate * self.muon_factor;
            let keep = 1.0 - rate / self.muon_factor * self.weight_decay;
            let rule = Muon { momentum: self.momentum, rate, keep };
            muon::apply(&rule, parameter, &mut moments.first, gradient);
        } else {
            self.adamw(parameter, moments, gradient, rate, step);
        }
    }

    /// `m ← β₁ m + (1-β₁) g`, `v ← β₂ v + (1-β₂) g²`,
    /// `w ← w - rate · (m̂ / (√v̂ + ε) + decay · w)` with `m̂ = m / (1-β₁ᵗ)`, `v̂ = v / (1-β₂ᵗ)`, `t = step + 1`.
    fn adamw(&self, parameter: &mut Parameter, moments: &mut Moments, gradient: Tensor<1>, rate: f64, step: u64) {
        let (b1, b2) = self.betas;
        let t = (step + 1).min(i32::MAX as u64) as i32;
        let decay = if parameter.role == Role::Vector { 0.0 } else { self.weight_decay };
        let rule = AdamWStep {
            betas: (b1 as f32, b2 as f32),
            corrections: ((1.0 / (1.0 - b1.powi(t))) as f32, (1.0 / (1.0 - b2.powi(t))) as f32),
            epsilon: self.epsilon as f32,
            rate: rate as f32,
            keep: (1.0 - rate * decay) as f32,
        };
        // Handed over, so that nothing else refers to their memory and a GPU writes there.
        let places = [&mut parameter.value, &mut moments.first, &mut moments.second];
        let old = places.map(|place| std::mem::replace(place, gradient.clone()));
        let [w, first, second] = adamw::update(&rule, old, &gradient);
        parameter.value = w;
        *moments = Moments { first, second };
    }
}

/// True if parameters are on the CPU. Elsewhere their work is one thread's: a thread has a stream of its own on a GPU,
/// and streams wait for each other.
pub(crate) fn on_host(parameters: &[Parameter]) -> bool {
    parameters.iter().all(|parameter| host::is_host(&parameter.value.device()))
}

/// `√Σ g²` over all gradients: the norm that clipping bounds.
pub fn global_norm(gradients: &[Tensor<1>]) -> f64 {
    let square = |g: &Tensor<1>| {
        let values = host::read(g)?;
        Some(values.as_slice().iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>())
    };
    // Each gradient's own sum has a fixed order, and so has the sum of sums.
    let squares: Option<Vec<f64>> = gradients.par_iter().map(square).collect();
    let squares = squares.unwrap_or_else(|| {
        // Elsewhere all sums are read at once.
        let sums = gradients.iter().map(sum_of_squares).collect();
        Tensor::cat(sums, 0).into_data().iter::<f32>().map(f64::from).collect()
    });
    squares.iter().sum::<f64>().sqrt()
}

/// Scales all gradients by one factor so that their global norm is at most `limit`; the factor is
/// `limit / (norm + 1e-6)` where the norm is larger.
pub fn clip(gradients: Vec<Tensor<1>>, norm: f64, limit: f64) -> Vec<Tensor<1>> {
    let factor = limit / (norm + 1e-6);
    if factor >= 1.0 || !factor.is_finite() {
        return gradients;
    }
    gradients.into_iter().map(|g| g * factor).collect()
}

#[cfg(test)]
mod tests;
