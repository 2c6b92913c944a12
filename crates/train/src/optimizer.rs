//! AdamW and Muon, over flat parameters.

mod muon;

use self::muon::Muon;
use crate::parameters::{Parameter, Role, from_values};
use burn::tensor::Tensor;
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
        let work = parameters.par_iter_mut().zip(moments).zip(gradients).zip(rates);
        work.for_each(|(((parameter, moments), gradient), &rate)| {
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
        });
    }

    /// `m ← β₁ m + (1-β₁) g`, `v ← β₂ v + (1-β₂) g²`,
    /// `w ← w - rate · (m̂ / (√v̂ + ε) + decay · w)` with `m̂ = m / (1-β₁ᵗ)`, `v̂ = v / (1-β₂ᵗ)`, `t = step + 1`.
    fn adamw(&self, parameter: &mut Parameter, moments: &mut Moments, gradient: Tensor<1>, rate: f64, step: u64) {
        let (b1, b2) = self.betas;
        let t = (step + 1).min(i32::MAX as u64) as i32;
        let decay = if parameter.role == Role::Vector { 0.0 } else { self.weight_decay };
        let rule = AdamW {
            betas: (b1 as f32, b2 as f32),
            corrections: ((1.0 / (1.0 - b1.powi(t))) as f32, (1.0 / (1.0 - b2.powi(t))) as f32),
            epsilon: self.epsilon as f32,
            rate: rate as f32,
            keep: (1.0 - rate * decay) as f32,
        };
        let on_host = [&parameter.value, &moments.first, &moments.second, &gradient].map(host::read);
        match on_host {
            [Some(w), Some(m), Some(v), Some(g)] => {
                let device = parameter.value.device();
                let [w, m, v] = rule.on_host([w.as_slice(), m.as_slice(), v.as_slice()], g.as_slice());
                parameter.value = from_values(w, &device);
                *moments = Moments { first: from_values(m, &device), second: from_values(v, &device) };
            }
            _ => {
                let old = [parameter.value.clone(), moments.first.clone(), moments.second.clone()];
                let [w, first, second] = rule.on_device(old, gradient);
                parameter.value = w;
                *moments = Moments { first, second };
            }
        }
    }
}

/// One step's numbers.
struct AdamW {
    betas: (f32, f32),
    corrections: (f32, f32),
    epsilon: f32,
    rate: f32,
    keep: f32,
}

impl AdamW {
    /// One pass over weights and moments.
    fn on_host(&self, [w, m, v]: [&[f32]; 3], g: &[f32]) -> [Vec<f32>; 3] {
        let (b1, b2) = self.betas;
        let mut new = [w.to_vec(), m.to_vec(), v.to_vec()];
        let [w, m, v] = &mut new;
        for (((w, m), v), &g) in w.iter_mut().zip(m).zip(v).zip(g) {
            *m = b1 * *m + (1.0 - b1) * g;
            *v = b2 * *v + (1.0 - b2) * g * g;
            let direction = *m * self.corrections.0 / ((*v * self.corrections.1).sqrt() + self.epsilon);
            *w = *w * self.keep - self.rate * direction;
        }
        new
    }

    fn on_device(&self, [w, m, v]: [Tensor<1>; 3], g: Tensor<1>) -> [Tensor<1>; 3] {
        let (b1, b2) = self.betas;
        let m = m * b1 + g.clone() * (1.0 - b1);
        let v = v * b2 + g.clone() * g * (1.0 - b2);
        let direction = m.clone() * self.corrections.0 / ((v.clone() * self.corrections.1).sqrt() + self.epsilon);
        [w * self.keep - direction * self.rate, m, v]
    }
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
