//! compressed-tensors: integers packed into words or in bytes, and 8-bit floats, with the scheme of each group of modules.
//!
//! `weight_packed` i32 `[out, ceil(in · bits / 32)]` holds `q + 2^(bits - 1)` along the inputs, `weight_zero_point` the same
//! along the outputs; `weight_scale` is `[out, groups]`. Elsewhere `weight` holds the numbers themselves.

use super::codes::Zeros;
use super::format::Format;
use super::integers::{self, Scales, Source, transposed};
use super::patterns::Pattern;
use super::settings::{Group, Quantisation};
use super::tensors::{Part, Rows, SCALES, Tensors};
use super::{bits, floats};
use crate::config::fields::{Fields, brief, quoted};
use crate::weights::WeightsError;
use safetensors::Dtype;
use std::sync::Arc;

/// Integers of one scheme.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Integers {
    packed: bool,
    bits: u32,
    /// Inputs of a scale; `None` for all of a row.
    group: Option<usize>,
    /// One scale for the whole matrix.
    one_scale: bool,
    symmetric: bool,
    /// Whether inputs are assigned to groups by a tensor.
    ordered: bool,
}

const FORMATS: &str = "pack-quantized, int-quantized and float-quantized are supported";

pub(super) fn parse(f: &Fields) -> Result<Quantisation, String> {
    match f.text("quantization_status")? {
        None | Some("compressed" | "frozen") => {}
        Some(other) => return Err(format!("quantization_status is {}; compressed is expected", quoted(other))),
    }
    if let Some(sparsity) = f.get("sparsity_config")
        && sparsity.get("format").and_then(|v| v.as_str()) != Some("dense")
        && sparsity.as_object().is_none_or(|object| !object.is_empty())
    {
        return Err(format!("sparsity_config is {}; sparse checkpoints are not supported", brief(sparsity)));
    }
    if let Some(transform) = f.get("transform_config")
        && transform.as_object().is_none_or(|object| !object.is_empty())
    {
        return Err(format!("transform_config is {}; transforms are not supported", brief(transform)));
    }
    let format = f.text("format")?;
    let mut groups = vec![];
    let mut ignored = vec![];
    let listed = f.get("config_groups").and_then(|value| value.as_object());
    for (name, value) in listed.ok_or("config_groups is missing, or no JSON object")? {
        let name = name.escape_debug();
        let place = |reason: String| format!("config_groups.{name}.{reason}");
        let object = value.as_object().ok_or_else(|| format!("config_groups.{name} is {}", brief(value)))?;
        let fields = Fields(object.clone());
        if fields.get("input_activations").is_some() {
            ignored.push(format!("{name}: input_activations"));
        }
        if let Some(format) = scheme(&fields, format).map_err(place)? {
            let targets = patterns(&fields, "targets").map_err(place)?;
            groups.push(Group { targets, format });
        }
    }
    if f.get("kv_cache_scheme").is_some() {
        ignored.push("kv_cache_scheme".into());
    }
    let kept = patterns(f, "ignore")?;
    let method = "compressed-tensors";
    Ok(Quantisation { method, groups, kept, exact_lists: true, ignored: vec![] }.ignoring(ignored))
}

fn patterns(f: &Fields, key: &str) -> Result<Vec<Pattern>, String> {
    let texts = f.texts(key)?.unwrap_or_default();
    let pattern = |text: &String| Pattern::new(text).map_err(|reason| format!("{key} has {}: {reason}", quoted(text)));
    texts.iter().map(pattern).collect()
}

/// The scheme of a group; `None` if its weights are not quantised.
fn scheme(group: &Fields, format: Option<&str>) -> Result<Option<Arc<dyn Format>>, String> {
    let Some(weights) = group.get("weights") else { return Ok(None) };
    let format = group.text("format")?.or(format);
    let object = weights.as_object().ok_or_else(|| format!("weights is {}", brief(weights)))?;
    let weights = Fields(object.clone());
    let float = match weights.text("type")? {
        Some("float") => true,
        None | Some("int") => false,
        Some(other) => return Err(format!("weights.type is {}; int or float is expected", quoted(other))),
    };
    let packed = match (format, float) {
        (Some("pack-quantized"), false) => true,
        (Some("int-quantized" | "naive-quantized"), false) | (Some("float-quantized" | "naive-quantized"), true) => {
            false
        }
        (Some(other), _) => {
            let kind = if float { "float" } else { "int" };
            return Err(format!("format is {} with weights of type {kind}; {FORMATS}", quoted(other)));
        }
        (None, _) => return Err(format!("format is missing; {FORMATS}")),
    };
    let in_weights = |reason: String| format!("weights.{reason}");
    if float { float_scheme(&weights) } else { integer_scheme(&weights, packed) }.map(Some).map_err(in_weights)
}

/// Strategy and group size.
fn strategy(weights: &Fields) -> Result<(&str, Option<usize>), String> {
    let group = match weights.get("group_size") {
        Some(value) if value.as_i64() == Some(-1) => None,
        _ => weights.get("group_size").map(|_| weights.size("group_size", 1 << 20)).transpose()?,
    };
    let default = if group.is_some() { "group" } else { "tensor" };
    let strategy = weights.text("strategy")?.unwrap_or(default);
    match (strategy, group) {
        ("group", None) => Ok(("channel", None)),
        ("group", group) => Ok(("group", group)),
        _ => Ok((strategy, None)),
    }
}

fn integer_scheme(weights: &Fields, packed: bool) -> Result<Arc<dyn Format>, String> {
    let bits = weights.size("num_bits", 8)? as u32;
    if bits < 2 {
        return Err("num_bits is 1; 2 to 8 are supported".into());
    }
    let (strategy, group) = strategy(weights)?;
    if !matches!(strategy, "tensor" | "channel" | "group") {
        return Err(format!("strategy is {}; tensor, channel and group are supported", quoted(strategy)));
    }
    let ordered = match weights.get("actorder") {
        None | Some(serde_json::Value::Bool(false)) => false,
        Some(serde_json::Value::Bool(true)) => true,
        Some(value) => match value.as_str() {
            Some("group" | "dynamic") => true,
            Some("weight" | "static") => false,
            _ => return Err(format!("actorder is {}; group or weight is expected", brief(value))),
        },
    };
    let (symmetric, one_scale) = (weights.flag("symmetric", true)?, strategy == "tensor");
    if packed && one_scale && !symmetric {
        return Err("strategy is \"tensor\" with zero points in packed weights, which is not supported".into());
    }
    let integers = Integers { packed, bits, group, one_scale, symmetric, ordered };
    Ok(Arc::new(integers))
}

fn float_scheme(weights: &Fields) -> Result<Arc<dyn Format>, String> {
    let bits = weights.size("num_bits", 64)?;
    if bits != 8 {
        return Err(format!("num_bits is {bits}; floats of 8 bits are supported"));
    }
    if !weights.flag("symmetric", true)? {
        return Err("symmetric is false; floats with zero points are not supported".into());
    }
    let (strategy, group) = strategy(weights)?;
    let blocks = match (strategy, group) {
        ("tensor", _) => floats::Blocks::Tensor,
        ("channel", _) => floats::Blocks::Channel,
        ("group", Some(group)) => floats::Blocks::Sized([1, group]),
        ("block", _) => floats::Blocks::Sized(weights.pair("block_structure")?.ok_or("block_structure is missing")?),
        _ => return Err(format!("strategy is {}; tensor, channel, group and block are supported", quoted(strategy))),
    };
    Ok(Arc::new(floats::Layout { scales: &["weight_scale"], blocks }))
}

impl Integers {
    fn groups(&self, d_in: usize) -> usize {
        self.group.map_or(1, |group| d_in.div_ceil(group))
    }

    /// Zero points `[groups, out]`.
    fn zeros(&self, tensors: &Tensors<'_>, d_out: usize, groups: usize) -> Result<Zeros, WeightsError> {
        let middle = if self.packed { 1u8 << (self.bits - 1) } else { 128 };
        if self.symmetric {
            return Ok(Zeros::One(middle));
        }
        if !self.packed {
            let bytes: Vec<u8> = tensors.bytes("weight_zero_point")?.iter().map(|byte| byte ^ 0x80).collect();
            if self.one_scale {
                return Ok(Zeros::One(bytes.first().copied().unwrap_or(middle)));
            }
            return Ok(Zeros::Each(transposed(&bytes, d_out, groups)));
        }
        let words = tensors.words("weight_zero_point")?;
        let zero = |g: usize, n: usize| bits::at(n, self.bits, |word| words[word * groups + g]);
        Ok(Zeros::Each((0..groups).flat_map(|g| (0..d_out).map(move |n| (g, n))).map(|(g, n)| zero(g, n)).collect()))
    }
}

impl Format for Integers {
    fn markers(&self) -> &[&'static str] {
        if self.packed { &["weight_packed"] } else { &["weight_scale"] }
    }

    fn stored_shape(&self, tensors: &Tensors<'_>) -> Result<[usize; 2], WeightsError> {
        if !self.packed {
            return tensors.matrix_shape("weight");
        }
        let bytes = tensors.small_bytes("weight_shape", 16)?;
        let size = |i: usize| bytes.get(8 * i..8 * i + 8).and_then(|b| Some(i64::from_le_bytes(b.try_into().ok()?)));
        let (rows, columns) = (size(0).unwrap_or(0), size(1).unwrap_or(0));
        let positive = |n: i64| u128::try_from(n).unwrap_or(0);
        tensors.sizes("weight_shape", positive(rows), positive(columns))
    }

    fn parts(&self, _: &Tensors<'_>, [d_out, d_in]: [usize; 2]) -> Vec<Part> {
        let groups = self.groups(d_in);
        let one: [&[usize]; 3] = [&[1], &[], &[1, 1]];
        let each: [&[usize]; 2] = [&[d_out, groups], &[d_out]];
        let scales = if self.one_scale {
            &one[..]
        } else if groups == 1 {
            &each[..]
        } else {
            &each[..1]
        };
        let mut parts = vec![Part::new("weight_scale", scales, SCALES)];
        if self.packed {
            parts.push(Part::new("weight_packed", &[&[d_out, bits::words(d_in, self.bits)]], &[Dtype::I32]));
            parts.push(Part::new("weight_shape", &[&[2]], &[Dtype::I64]));
        } else {
            parts.push(Part::new("weight", &[&[d_out, d_in]], &[Dtype::I8]));
        }
        parts.push(match (self.symmetric, self.packed) {
            (true, _) => Part::unread("weight_zero_point"),
            (false, true) => Part::new("weight_zero_point", &[&[bits::words(d_out, self.bits), groups]], &[Dtype::I32]),
            (false, false) => Part::new("weight_zero_point", scales, &[Dtype::I8]),
        });
        if self.ordered {
            parts.push(Part::new("weight_g_idx", &[&[d_in]], &[Dtype::I32]));
        }
        parts.extend(["input_scale", "input_zero_point", "output_scale", "output_zero_point"].map(Part::unread));
        parts
    }

    fn open<'a>(&self, tensors: Tensors<'a>, shape: [usize; 2]) -> Result<Box<dyn Rows + 'a>, WeightsError> {
        let [d_out, d_in] = shape;
        let groups = self.groups(d_in);
        let values = tensors.floats("weight_scale")?;
        let values = match (self.one_scale, values.first()) {
            (true, Some(&scale)) => vec![scale; d_out],
            _ => transposed(&values, d_out, groups),
        };
        let zeros = self.zeros(&tensors, d_out, groups)?;
        let scales = Scales { values, dtype: tensors.dtype("weight_scale"), zeros };
        let group = self.group.unwrap_or(d_in);
        let bits = if self.packed { self.bits } else { 8 };
        let integers = integers::Integers::new(tensors, shape, bits, group, scales);
        let integers =
            if self.packed { integers.reading(Source::Streams { suffix: "weight_packed", bits }) } else { integers };
        Ok(Box::new(if self.ordered { integers.grouped_by("weight_g_idx")? } else { integers }))
    }

    fn description(&self) -> String {
        let place = if self.packed { "packed integers" } else { "integers" };
        let scales = match (self.one_scale, self.group) {
            (true, _) => "one scale".into(),
            (false, Some(group)) => format!("groups of {group}"),
            (false, None) => "a scale per output".into(),
        };
        let zeros = if self.symmetric { "symmetric" } else { "with zero points" };
        let order = if self.ordered { ", activation order" } else { "" };
        format!("{place} of {} bits, {scales}, {zeros}{order}", self.bits)
    }
}
