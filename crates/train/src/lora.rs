//! Low-rank adapters on a frozen Llama (Hu et al., *LoRA*): `W + (α / r) · B A`, of which `A` and `B` are fitted.

use crate::checkpoint::values;
use crate::parameters::{Parameter, Role};
use burn::tensor::Tensor;
use gorgon_core::accept::random::SeededRandom;
use gorgon_draft::settings::{SettingsCheck, SettingsErrors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Prefix of an adapter's tensor names, as in PEFT.
const PREFIX: &str = "base_model.model.";

/// True for the name of an adapter's tensor.
pub fn is_adapter(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The low-rank adapter of the backbone.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoraConfig {
    /// Rank `r`, 1 to 1024: rows of `A`, columns of `B`.
    pub rank: usize,
    /// `α`: `B A` is scaled by `α / r`.
    pub alpha: f64,
    /// Adapted matrices of a layer, by the last part of their names, such as `q_proj`.
    pub targets: Vec<String>,
}

impl Default for LoraConfig {
    /// As Medusa-2: rank 32, `α` 16, on all matrices of a layer.
    fn default() -> Self {
        let all = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
        Self { rank: 32, alpha: 16.0, targets: all.map(String::from).to_vec() }
    }
}

impl LoraConfig {
    /// Checks the settings of this table of a config.
    ///
    /// # Errors
    /// All wrong settings.
    pub fn check(&self, table: &'static str) -> Result<(), SettingsErrors> {
        let mut check = SettingsCheck::table(table);
        check.require((1..=1024).contains(&self.rank), "rank", self.rank, "1 to 1024 are possible");
        check.positive("alpha", self.alpha);
        let known = Self::default().targets;
        for target in self.targets.iter().filter(|target| !known.contains(target)) {
            check.require(false, "targets", target, format_args!("expected some of {}", known.join(", ")));
        }
        check.require(!self.targets.is_empty(), "targets", "[]", "at least one is needed");
        check.finish()
    }
}

/// The parameters of a frozen network, some of which are adapted.
#[derive(Clone, Debug)]
pub struct Lora {
    config: LoraConfig,
    base: Vec<Parameter>,
}

impl Lora {
    /// An adapter for a network of these parameters.
    pub fn new(config: LoraConfig, base: Vec<Parameter>) -> Self {
        Self { config, base }
    }

    fn is_adapted(&self, p: &Parameter) -> bool {
        let is = |target: &String| p.name.strip_suffix(".weight").is_some_and(|name| name.ends_with(target.as_str()));
        p.role == Role::Matrix && self.config.targets.iter().any(is)
    }

    /// `A` and `B` of every adapted matrix. `A` is normal with the variance `1 / (3 d_in)`, `B` is zero, so that the
    /// adapter begins as none.
    pub fn parameters(&self, seed: u64) -> Vec<Parameter> {
        let (mut all, r, random) = (vec![], self.config.rank, &mut SeededRandom::new(seed));
        for p in self.base.iter().filter(|p| self.is_adapted(p)) {
            let (out, into, device) = (p.shape[0], p.shape[1], p.value.device());
            let name = |part: &str| format!("{PREFIX}{}.lora_{part}.weight", p.name.trim_end_matches(".weight"));
            let deviation = (1.0 / (3.0 * into as f64)).sqrt();
            all.push(Parameter::normal(name("A"), [r, into], Role::Matrix, deviation, random, &device));
            all.push(Parameter::new(name("B"), &[out, r], Role::Matrix, vec![0.0; out * r], &device));
        }
        all
    }

    /// Number of tensors of the adapter.
    pub fn len(&self) -> usize {
        2 * self.base.iter().filter(|p| self.is_adapted(p)).count()
    }

    /// True if nothing is adapted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The network's parameters with the adapter on. Tensors with gradients give tensors with gradients.
    ///
    /// # Shapes
    /// `adapter` flat, as in [`Self::parameters`]; the result flat, as the network's parameters.
    pub fn applied(&self, adapter: &[Tensor<1>], tracked: bool) -> Vec<Tensor<1>> {
        let (r, scale) = (self.config.rank, (self.config.alpha / self.config.rank as f64) as f32);
        let mut feature_tokens = adapter.chunks_exact(2);
        let one = |p: &Parameter| {
            let base = if tracked { p.value.clone().autodiff() } else { p.value.clone() };
            match self.is_adapted(p).then(|| feature_tokens.next()).flatten() {
                Some([a, b]) => {
                    let a = a.clone().reshape([r, p.shape[1]]);
                    let b = b.clone().reshape([p.shape[0], r]);
                    base + b.matmul(a).reshape([-1]) * scale
                }
                _ => base,
            }
        };
        self.base.iter().map(one).collect()
    }

    /// The matrices that the adapter changes, with it in them: `(name, values)`.
    pub fn merged(&self, adapter: &[Tensor<1>]) -> Vec<(String, Vec<f32>)> {
        let all = self.base.iter().zip(self.applied(adapter, false));
        all.filter(|(p, _)| self.is_adapted(p)).map(|(p, value)| (p.name.clone(), values(&value))).collect()
    }

    /// PEFT's `adapter_config.json`.
    pub fn document(&self, base_model: &str) -> Value {
        json!({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base_model,
            "r": self.config.rank, "lora_alpha": self.config.alpha, "lora_dropout": 0.0, "bias": "none",
            "target_modules": self.config.targets, "fan_in_fan_out": false, "inference_mode": true
        })
    }
}

/// The fitted part of a network.
#[derive(Clone, Debug)]
pub enum NetworkWeights {
    /// An adapter.
    Lora(Lora),
    /// All weights, which start so.
    Full(Vec<Parameter>),
}

impl NetworkWeights {
    /// The parameters before the first step.
    pub fn parameters(&self, seed: u64) -> Vec<Parameter> {
        match self {
            Self::Lora(lora) => lora.parameters(seed),
            Self::Full(start) => start.clone(),
        }
    }

    /// The network's weights with these parameters; tracked ones give tracked ones.
    pub fn applied(&self, parameters: &[Tensor<1>], tracked: bool) -> Vec<Tensor<1>> {
        match self {
            Self::Lora(lora) => lora.applied(parameters, tracked),
            Self::Full(_) => parameters.to_vec(),
        }
    }

    /// All of the network's parameters with these in them.
    pub fn whole(&self, parameters: &[Parameter]) -> Vec<Parameter> {
        match self {
            Self::Lora(lora) => {
                let adapter: Vec<Tensor<1>> = parameters.iter().map(|p| p.value.clone()).collect();
                let values = lora.applied(&adapter, false);
                lora.base.iter().zip(values).map(|(p, value)| Parameter { value, ..p.clone() }).collect()
            }
            Self::Full(_) => parameters.to_vec(),
        }
    }

    /// The matrices that these change, with them in place: `(name, values)`.
    pub fn changed(&self, parameters: &[Parameter]) -> Vec<(String, Vec<f32>)> {
        match self {
            Self::Lora(lora) => lora.merged(&parameters.iter().map(|p| p.value.clone()).collect::<Vec<_>>()),
            Self::Full(_) => parameters.iter().map(|p| (p.name.clone(), values(&p.value))).collect(),
        }
    }

    /// Whether embedding and LM head are fitted too.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

#[cfg(test)]
mod tests;
