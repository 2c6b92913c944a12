//! Matrices that are rounded when a model is written in integers: compressed-tensors, `pack-quantized`, symmetric.
//!
//! All linear layers of the decoder are, but for routers of experts. Embeddings, LM head, norms and biases stay.

use crate::config::ModelConfig;
use crate::layout::{self, LayerNames};
use crate::weights::Checkpoint;
use gorgon_kernels::quantised_matmul::{CodeBits, Rounding, ScaleFormat, ScaleSearch};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Sizes of groups that the kernels of other engines know, the largest first.
const LARGER_GROUPS: [usize; 2] = [128, 64];
/// Matrices whose width it does not divide stay as they are.
const SMALLEST_GROUP: usize = 32;

/// How matrices are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Size of a code.
    pub bits: CodeBits,
    /// Neighbouring inputs that share a scale, at most; `None` for all of a row.
    pub group: Option<usize>,
    /// How scales are chosen.
    pub search: ScaleSearch,
}

/// A matrix that is to be rounded.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedMatrix {
    /// The module: the tensor's name without `.weight`.
    pub module: String,
    /// `[out, in]`.
    pub shape: [usize; 2],
    /// Inputs of a scale; `None` for all of a row.
    pub group: Option<usize>,
    /// Number format in which it is stored, and in which its scales will be.
    pub dtype: Dtype,
}

impl PlannedMatrix {
    /// The last part of the module's name: `q_proj`.
    pub fn kind(&self) -> &str {
        self.module.rsplit('.').next().unwrap_or_default()
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    /// Scales of a row.
    pub(super) fn groups(&self) -> usize {
        self.group.map_or(1, |group| self.shape[1].div_ceil(group))
    }

    pub(super) fn rounding(&self, scheme: Scheme) -> Rounding {
        let scale_format = match self.dtype {
            Dtype::F16 => ScaleFormat::F16,
            Dtype::BF16 => ScaleFormat::Bf16,
            _ => ScaleFormat::F32,
        };
        Rounding { bits: scheme.bits, group: self.group, scale_format, search: scheme.search }
    }
}

/// The matrices of a model that are to be rounded.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How.
    pub scheme: Scheme,
    /// Which, in the order of layers.
    pub matrices: Vec<PlannedMatrix>,
    /// Linear layers that stay as they are: the LM head, routers, layers that the decoder does not have, and those whose
    /// width no group divides.
    pub ignored: Vec<String>,
}

impl Plan {
    /// The plan for a checkpoint, which has been checked against its config and is not quantised. Groups are as large as
    /// the scheme says, or the next smaller size that divides the width of every matrix that has groups: other engines
    /// look for one size in the config.
    pub fn new(config: &ModelConfig, checkpoint: &Checkpoint, scheme: Scheme) -> Self {
        let routers: BTreeSet<String> =
            (0..config.layers).map(|layer| format!("{}.weight", LayerNames::new(config, layer).router)).collect();
        let mut plan = Self { scheme, matrices: vec![], ignored: vec![] };
        let mut seen = BTreeSet::from([layout::EMBEDDING.to_owned()]);
        plan.ignored.extend(layout::LM_HEAD.strip_suffix(".weight").map(String::from));
        for spec in layout::tensors(config) {
            let (Some(module), &[d_out, d_in]) = (spec.name.strip_suffix(".weight"), &spec.shape[..]) else { continue };
            if spec.name == layout::EMBEDDING || spec.name == layout::LM_HEAD {
                continue;
            }
            let divided = scheme.group.is_none() || d_in.is_multiple_of(SMALLEST_GROUP);
            match checkpoint.entries().get(&spec.name) {
                Some(entry) if divided && !routers.contains(&spec.name) => {
                    let (module, dtype) = (module.to_owned(), entry.dtype);
                    plan.matrices.push(PlannedMatrix { module, shape: [d_out, d_in], group: None, dtype });
                }
                _ => plan.ignored.push(module.to_owned()),
            }
            seen.insert(spec.name);
        }
        let divides = |size: &usize| plan.matrices.iter().all(|matrix| matrix.shape[1].is_multiple_of(*size));
        let group = scheme.group.map(|most| {
            let fits = LARGER_GROUPS.into_iter().filter(|size| *size <= most).find(divides);
            fits.unwrap_or(SMALLEST_GROUP)
        });
        plan.matrices.iter_mut().for_each(|matrix| matrix.group = group);
        // Other engines take them for linear layers too.
        let others =
            checkpoint.entries().iter().filter(|(name, entry)| entry.shape.len() == 2 && !seen.contains(*name));
        let others = others.filter_map(|(name, _)| name.strip_suffix(".weight")).filter(|name| *name != "lm_head");
        plan.ignored.extend(others.map(String::from));
        plan
    }

    /// The value of `quantization_config` in `config.json`.
    pub fn settings(&self) -> Value {
        let group = json!({
            "targets": ["Linear"], "weights": self.weights(), "input_activations": null, "output_activations": null,
            "format": FORMAT,
        });
        json!({
            "quant_method": "compressed-tensors", "format": FORMAT, "quantization_status": "compressed",
            "global_compression_ratio": null, "kv_cache_scheme": null, "ignore": self.ignored,
            "config_groups": {"group_0": group},
        })
    }

    /// The entry of `config.json` on the weights.
    fn weights(&self) -> Value {
        let size = self.matrices.first().and_then(|matrix| matrix.group);
        let observer = if self.scheme.search == ScaleSearch::Greatest { "minmax" } else { "mse" };
        json!({
            "num_bits": self.scheme.bits.bits(), "type": "int", "symmetric": true,
            "strategy": if size.is_some() { "group" } else { "channel" }, "group_size": size, "actorder": null,
            "block_structure": null, "dynamic": false, "observer": observer, "observer_kwargs": {},
        })
    }
}

/// The format's name.
const FORMAT: &str = "pack-quantized";
