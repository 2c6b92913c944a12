//! Resolves the keys of a config, whatever their spelling and age.

use super::defaults::Defaults;
use super::fields::{Fields, brief, quoted};
use super::{Architecture, Experts};
use crate::rope::{RopeConfig, RopeScaling, long_attention, yarn_attention};
use gorgon_kernels::activation::Activation;
use serde_json::Value;

/// Phi 3's original context where a config does not name it.
const PHI_3_LENGTH: f64 = 4096.0;

/// The longest context that a config may ask for.
pub(super) const MAX_POSITIONS: usize = 1 << 30;

pub(super) fn architecture(f: &Fields) -> Result<Architecture, String> {
    let supported = || {
        let names: Vec<&str> = Architecture::ALL.iter().map(|a| a.model_type()).collect();
        format!("supported: {}", names.join(", "))
    };
    let class = f.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
    let model_type = f.text("model_type")?;
    let by_class = class.and_then(|c| Architecture::ALL.into_iter().find(|a| a.class_name() == c));
    let by_type = model_type.and_then(|t| Architecture::ALL.into_iter().find(|a| a.model_type() == t));
    match (class, model_type, by_class, by_type) {
        (_, _, Some(a), Some(b)) if a == b => Ok(a),
        (_, None, Some(a), None) | (None, _, None, Some(a)) => Ok(a),
        (None, None, ..) => Err(format!("neither architectures nor model_type names a model; {}", supported())),
        (Some(class), Some(model_type), Some(_), Some(_)) => {
            Err(format!("architectures says {} but model_type {}", quoted(class), quoted(model_type)))
        }
        (class, model_type, a, _) => {
            let unknown = if a.is_none() { class.or(model_type) } else { model_type }.unwrap_or_default();
            Err(format!("unknown architecture {}; {}", quoted(unknown), supported()))
        }
    }
}

/// Biases of attention. Some families have none, whatever their configs say.
pub(super) fn attention_bias(f: &Fields, architecture: Architecture) -> Result<bool, String> {
    let may_have = matches!(architecture, Architecture::Llama | Architecture::Qwen3 | Architecture::Gemma2);
    Ok(f.flag("attention_bias", false)? && may_have)
}

/// Tokens that end a generation.
pub(super) fn end_tokens(f: &Fields, defaults: &Defaults, vocab_size: usize) -> Result<Vec<u32>, String> {
    match defaults.end_token.filter(|_| f.is_absent("eos_token_id")) {
        Some(token) => Ok(vec![token]),
        None => Ok(f.tokens("eos_token_id", vocab_size)?.unwrap_or_default()),
    }
}

/// Query heads, key/value heads and the size of a head.
pub(super) fn heads(f: &Fields, defaults: &Defaults, hidden_size: usize) -> Result<(usize, usize, usize), String> {
    let heads = f.size("num_attention_heads", 1 << 14)?;
    let default = defaults.kv_heads.filter(|_| f.is_absent("num_key_value_heads"));
    let kv_heads = f.size_or("num_key_value_heads", 1 << 14, default.unwrap_or(heads))?;
    if heads % kv_heads != 0 {
        return Err(format!("num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}"));
    }
    let head_dim = match (f.get("head_dim"), defaults.head_dim.filter(|_| f.is_absent("head_dim"))) {
        (Some(_), _) => f.size("head_dim", 1 << 13)?,
        (None, Some(default)) => default,
        (None, None) if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        _ => return Err(format!("hidden_size {hidden_size} is not a multiple of num_attention_heads {heads}")),
    };
    if head_dim % 2 == 1 {
        return Err(format!("head_dim is {head_dim}; rotary embedding needs an even number"));
    }
    Ok((heads, kv_heads, head_dim))
}

/// The factor on attention scores: one over the root of the head size, or of Gemma's own number.
pub(super) fn attention_scale(f: &Fields, defaults: &Defaults, head_dim: usize) -> Result<f32, String> {
    let scalar = match defaults.query_scalar {
        Some(default) => f.number("query_pre_attn_scalar")?.unwrap_or(default),
        None => head_dim as f64,
    };
    if scalar > 0.0 {
        return Ok((1.0 / scalar.sqrt()) as f32);
    }
    Err(format!("query_pre_attn_scalar is {scalar}; it must be positive"))
}

/// A soft cap, which only a family with a default for it has.
pub(super) fn soft_cap(f: &Fields, name: &str, default: Option<f64>) -> Result<Option<f32>, String> {
    let cap = if f.is_absent(name) { default } else { f.number(name)? };
    match cap {
        Some(cap) if cap <= 0.0 => Err(format!("{name} is {cap}; it must be positive")),
        cap => Ok(cap.filter(|_| default.is_some()).map(|cap| cap as f32)),
    }
}

pub(super) fn norm_eps(f: &Fields, defaults: &Defaults) -> Result<f32, String> {
    epsilon(f, "rms_norm_eps", defaults.norm_eps)
}

/// The epsilon of norms, under the name that a family has for it.
pub(super) fn epsilon(f: &Fields, name: &str, default: f64) -> Result<f32, String> {
    let eps = f.number(name)?.unwrap_or(default);
    // Without it a row of zeros becomes NaN; with a large one norms leave next to nothing.
    if !(1e-12..=0.1).contains(&eps) {
        return Err(format!("{name} is {eps:?}; a number from 1e-12 to 0.1 is expected"));
    }
    Ok(eps as f32)
}

pub(super) fn activation(f: &Fields, architecture: Architecture) -> Result<Activation, String> {
    let default = if architecture == Architecture::Gemma2 { "gelu_pytorch_tanh" } else { "silu" };
    // Gemma has a key of its own; the general one is in its configs too, in old ones with another value.
    let key = if architecture == Architecture::Gemma2 { "hidden_activation" } else { "hidden_act" };
    match f.text(key)?.unwrap_or(default) {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        other => Err(format!("{key} is {}; supported: silu, gelu_pytorch_tanh", quoted(other))),
    }
}

/// Rotary settings, from `rope_theta` and `rope_scaling` or from the newer `rope_parameters`. `positions` are those of
/// the config.
pub(super) fn rope(
    f: &Fields,
    architecture: Architecture,
    (defaults, positions): (&Defaults, usize),
    head_dim: usize,
) -> Result<RopeConfig, String> {
    let object = |key: &'static str| match f.get(key) {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some((key, Fields(object.clone())))),
        Some(other) => Err(format!("{key} is {}; an object is expected", brief(other))),
    };
    let (older, newer) = (object("rope_scaling")?, object("rope_parameters")?);
    // Both are there where somebody added scaling to a config of the newer form: what was added counts. transformers
    // forgets the other one's base; the model was trained with it, so it stays here.
    let theta = |of: &Option<(&str, Fields)>| of.as_ref().map_or(Ok(None), |(_, fields)| fields.number("rope_theta"));
    let theta = theta(&older)?.or(theta(&newer)?);
    let given = older.filter(|(_, fields)| !fields.0.is_empty()).or(newer);
    let (key, nested) = given.unwrap_or(("rope_scaling", Fields(serde_json::Map::new())));
    if let Some((kind, _)) = nested.0.iter().find(|(_, value)| value.is_object()) {
        return Err(format!("{key} has settings of its own for {}; one for all layers is expected", quoted(kind)));
    }
    let theta = theta.or(f.number("rope_theta")?).unwrap_or(defaults.rope_theta);
    if !(1.0..=1e15).contains(&theta) {
        return Err(format!("rope_theta is {theta}; a number from 1 to 1e15 is expected"));
    }
    // Of the families here only Phi 3 rotates a part of each head.
    let factor = nested.number("partial_rotary_factor")?.or(f.number("partial_rotary_factor")?);
    let factor = factor.filter(|_| architecture == Architecture::Phi3).unwrap_or(1.0);
    let rotary_dim = (head_dim as f64 * factor) as usize;
    if !(factor > 0.0 && factor <= 1.0) || rotary_dim % 2 == 1 || rotary_dim == 0 {
        let what = "gives no even number of dimensions";
        return Err(format!("partial_rotary_factor {factor} of head_dim {head_dim} {what}"));
    }
    let kind = nested.text("rope_type")?.or(nested.text("type")?).unwrap_or("default");
    // Phi 3 had two other names for it.
    let is_long = kind == "longrope" || (architecture == Architecture::Phi3 && ["su", "yarn"].contains(&kind));
    let scaling = match is_long {
        true => long(f, architecture, (key, &nested), (positions, rotary_dim / 2))?,
        false => scaling(f, key, &nested, (kind, positions))?,
    };
    Ok(RopeConfig { theta, rotary_dim, scaling })
}

/// LongRoPE, with the factors for texts within the original context.
fn long(
    f: &Fields,
    architecture: Architecture,
    (key, nested): (&str, &Fields),
    (positions, frequencies): (usize, usize),
) -> Result<RopeScaling, String> {
    // Phi 3 has a default, which counts before the nested key.
    let known = match architecture {
        Architecture::Phi3 if f.get("original_max_position_embeddings").is_none() => Some(PHI_3_LENGTH),
        _ => original_length(f, key, nested)?,
    };
    let original_length = known.unwrap_or(positions as f64);
    let value = nested.get("short_factor").ok_or_else(|| format!("{key}.short_factor is missing"))?;
    let one = |value: &Value| value.as_f64().filter(|v| (1e-6..=1e12).contains(v)).map(|v| v as f32);
    let divisors: Option<Vec<f32>> = value.as_array().and_then(|list| list.iter().map(one).collect());
    let Some(divisors) = divisors.filter(|divisors| divisors.len() == frequencies) else {
        return Err(format!("{key}.short_factor is {}; {frequencies} positive numbers are expected", brief(value)));
    };
    let factor = nested.number("factor")?.unwrap_or(positions as f64 / original_length);
    let attention = nested.number("attention_factor")?.unwrap_or(long_attention(factor, original_length));
    let attention = within(key, "attention_factor", Some(attention))?;
    Ok(RopeScaling::LongRope { divisors: divisors.into(), original_length, attention })
}

/// How many positions a model has: linear scaling and YaRN multiply those that it was trained on. LongRoPE is read within
/// the original context.
pub(super) fn positions(given: usize, scaling: &RopeScaling) -> usize {
    let scaled = match *scaling {
        RopeScaling::Linear { factor } => given as f64 * factor,
        RopeScaling::Yarn { factor, original_length, .. } => original_length * factor,
        RopeScaling::None | RopeScaling::Llama3 { .. } => return given,
        RopeScaling::LongRope { original_length, .. } => return given.min((original_length as usize).max(1)),
    };
    given.max((scaled.round() as usize).min(MAX_POSITIONS))
}

fn scaling(f: &Fields, key: &str, nested: &Fields, (kind, positions): (&str, usize)) -> Result<RopeScaling, String> {
    let positive = |name: &str| within(key, name, nested.number(name)?);
    match kind {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear { factor: positive("factor")? }),
        "llama3" => {
            let (low, high) = (positive("low_freq_factor")?, positive("high_freq_factor")?);
            if high <= low {
                return Err(format!("{key}: high_freq_factor {high} must exceed low_freq_factor {low}"));
            }
            let original_length = original_length(f, key, nested)?.unwrap_or(positions as f64);
            Ok(RopeScaling::Llama3 { factor: positive("factor")?, low, high, original_length })
        }
        "yarn" => yarn(f, key, nested, positions),
        other => {
            let supported = "default, linear, llama3, yarn, longrope";
            Err(format!("{key}: type {} is not supported; supported: {supported}", quoted(other)))
        }
    }
}

/// A number that scaling can be done with.
fn within(key: &str, name: &str, value: Option<f64>) -> Result<f64, String> {
    match value {
        Some(v) if (1e-6..=1e12).contains(&v) => Ok(v),
        Some(v) => Err(format!("{key}.{name} is {v}; a number from 1e-6 to 1e12 is expected")),
        None => Err(format!("{key}.{name} is missing")),
    }
}

/// Positions that a model was trained on before its context was extended. The config's own key counts before the nested
/// one.
fn original_length(f: &Fields, key: &str, nested: &Fields) -> Result<Option<f64>, String> {
    let name = "original_max_position_embeddings";
    let given = f.number(name)?.or(nested.number(name)?);
    given.map(|length| within(key, name, Some(length))).transpose()
}

/// The keys are those of transformers: `attention_factor`, or what `mscale` and `mscale_all_dim` make of the factor.
fn yarn(f: &Fields, key: &str, nested: &Fields, positions: usize) -> Result<RopeScaling, String> {
    let given = |name: &str| nested.number(name)?.map(|value| within(key, name, Some(value))).transpose();
    let original = original_length(f, key, nested)?;
    // Where only the length before is known, the two lengths give the factor.
    let extended = original.map(|original| positions as f64 / original);
    let factor = within(key, "factor", nested.number("factor")?.or(extended))?;
    let original_length = original.unwrap_or(positions as f64);
    let (fast, slow) = (given("beta_fast")?.unwrap_or(32.0), given("beta_slow")?.unwrap_or(1.0));
    if fast < slow {
        return Err(format!("{key}: beta_fast {fast} is below beta_slow {slow}"));
    }
    let attention = match (given("attention_factor")?, nested.number("mscale")?, nested.number("mscale_all_dim")?) {
        (Some(attention), _, _) => attention,
        (None, Some(scale), Some(all)) if scale != 0.0 && all != 0.0 => {
            yarn_attention(factor, scale) / yarn_attention(factor, all)
        }
        _ => yarn_attention(factor, 1.0),
    };
    let attention = within(key, "attention_factor", Some(attention))?;
    let truncate = nested.flag("truncate", true)?;
    Ok(RopeScaling::Yarn { factor, fast, slow, original_length, attention, truncate })
}

pub(super) fn windows(
    f: &Fields,
    architecture: Architecture,
    defaults: &Defaults,
    layers: usize,
) -> Result<Vec<Option<usize>>, String> {
    use Architecture as A;
    let qwen = matches!(architecture, A::Qwen2 | A::Qwen3);
    let used = if qwen { f.flag("use_sliding_window", false)? } else { architecture != A::Llama };
    let window = match f.get("sliding_window").filter(|_| used) {
        Some(_) => Some(f.size("sliding_window", 1 << 30)?),
        None => defaults.window.filter(|_| used && f.is_absent("sliding_window")),
    };
    let Some(window) = window else { return Ok(vec![None; layers]) };
    if let Some(types) = f.get("layer_types") {
        let one = |v: &Value| match v.as_str() {
            Some("sliding_attention") => Ok(Some(window)),
            Some("full_attention") => Ok(None),
            _ => Err(format!("layer_types has {}; supported: sliding_attention, full_attention", brief(v))),
        };
        let types = types.as_array().ok_or("layer_types is no list")?;
        if types.len() != layers {
            return Err(format!("layer_types has {} entries for {layers} layers", types.len()));
        }
        let windows: Vec<_> = types.iter().map(one).collect::<Result<_, _>>()?;
        // Their published code knows no such list.
        if matches!(architecture, A::Phi3 | A::Mixtral) && windows.contains(&None) {
            let family = architecture.model_type();
            return Err(format!("layer_types has full_attention; models of type {family} have a window in all layers"));
        }
        return Ok(windows);
    }
    let first_windowed = if qwen { f.count_or("max_window_layers", 28)? } else { 0 };
    let sliding = |layer: usize| match architecture {
        A::Gemma2 => layer.is_multiple_of(2),
        _ => layer >= first_windowed,
    };
    Ok((0..layers).map(|layer| sliding(layer).then_some(window)).collect())
}

pub(super) fn experts(f: &Fields, architecture: Architecture) -> Result<Option<Experts>, String> {
    if architecture != Architecture::Mixtral {
        return Ok(None);
    }
    let count = f.size_or("num_local_experts", 4096, 8)?;
    let per_token = f.size_or("num_experts_per_tok", 4096, 2)?;
    if per_token > count {
        return Err(format!("num_experts_per_tok {per_token} exceeds num_local_experts {count}"));
    }
    Ok(Some(Experts { count, per_token }))
}
