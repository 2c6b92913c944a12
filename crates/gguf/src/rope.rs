//! Scaling of rotary frequencies.

use crate::Gguf;
use crate::kind::Kind;
use crate::names::ROPE_FACTORS;
use serde_json::{Value, json};
use std::io::{Read, Seek, SeekFrom};

/// Most dimensions of a head.
const MOST: u64 = 1 << 13;

/// The value of `rope_scaling`; null without scaling.
pub fn scaling(gguf: &Gguf, architecture: &str, theta: f64, head_dim: u64) -> Result<Value, String> {
    let key = |name: &str| format!("{architecture}.rope.scaling.{name}");
    let data = &gguf.metadata;
    let linear = data.number(&format!("{architecture}.rope.scale_linear"))?;
    let factor = data.number(&key("factor"))?.or(linear).unwrap_or(1.0);
    let kind = match data.text(&key("type"))? {
        None if factor != 1.0 => "linear",
        None => "none",
        Some(kind) => kind,
    };
    if let Some(attention) = data.number(&key("attn_factor"))?.filter(|factor| *factor != 1.0) {
        return Err(format!("{} is {attention}; only 1 is supported", key("attn_factor")));
    }
    if let Some(factors) = factors(gguf, head_dim)? {
        if kind != "none" && factor != 1.0 {
            return Err(format!("{ROPE_FACTORS} beside {} {kind} is not supported", key("type")));
        }
        return llama3(&factors, theta);
    }
    match kind {
        "none" => Ok(Value::Null),
        "linear" => Ok(json!({"rope_type": "linear", "factor": factor})),
        "yarn" => {
            let name = key("original_context_length");
            let original = data.count(&name)?.ok_or_else(|| format!("{name} is missing"))?;
            let mut scaling =
                json!({"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original});
            for (ours, theirs) in [("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")] {
                if let Some(beta) = data.number(&key(ours))? {
                    scaling[theirs] = beta.into();
                }
            }
            Ok(scaling)
        }
        other => Err(format!("{} is {other:?}; supported: none, linear, yarn", key("type"))),
    }
}

/// The divisors of the frequencies, if they are stored and not all one.
fn factors(gguf: &Gguf, head_dim: u64) -> Result<Option<Vec<f64>>, String> {
    let Some(tensor) = gguf.tensors.get(ROPE_FACTORS) else { return Ok(None) };
    let fits = tensor.shape.len() == 1 && tensor.shape[0] as u64 == head_dim / 2 && head_dim <= MOST;
    if tensor.kind != Kind::F32 || !fits {
        let (kind, shape) = (tensor.kind.name(), &tensor.shape);
        return Err(format!("tensor {ROPE_FACTORS} is {kind} {shape:?}; F32 [{}] is expected", head_dim / 2));
    }
    let mut bytes = vec![0u8; tensor.bytes];
    let mut file = gguf.reopen().map_err(|error| error.to_string())?;
    file.seek(SeekFrom::Start(tensor.offset))
        .and_then(|_| file.read_exact(&mut bytes))
        .map_err(|error| format!("tensor {ROPE_FACTORS}: {error}"))?;
    let factors: Vec<f64> =
        bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect();
    if let Some(wrong) = factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
        return Err(format!("tensor {ROPE_FACTORS} holds {wrong}"));
    }
    Ok(Some(factors).filter(|factors| factors.iter().any(|factor| *factor != 1.0)))
}

/// The factors `low` and `high` of every Llama 3 model.
const BANDS: [f64; 2] = [1.0, 4.0];
/// Factors are stored in 32 bits.
const TOLERANCE: f64 = 1e-5;

/// The settings of Llama 3 of which these divisors were made. The file stores the divisors alone; the original context
/// length is found by trying powers of two, so that frequencies are computed from the settings themselves.
fn llama3(factors: &[f64], theta: f64) -> Result<Value, String> {
    let factor = factors.iter().copied().fold(1.0, f64::max);
    let error = |original: f64| {
        let each = factors.iter().enumerate().map(|(i, stored)| {
            let frequency = theta.powf(-(i as f64) / factors.len() as f64);
            (divisor(frequency, factor, original) / stored - 1.0).abs()
        });
        each.fold(0.0, f64::max)
    };
    // The best known length first, so that it is kept among equals.
    let lengths = std::iter::once(8192.0).chain((8..=24).map(|bits| f64::from(1u32 << bits)));
    let best = lengths.map(|length| (error(length), length)).min_by(|a, b| a.0.total_cmp(&b.0));
    match best.filter(|(error, _)| *error < TOLERANCE) {
        Some((_, original)) => Ok(json!({
            "rope_type": "llama3", "factor": factor, "low_freq_factor": BANDS[0], "high_freq_factor": BANDS[1],
            "original_max_position_embeddings": original,
        })),
        None => Err(format!("tensor {ROPE_FACTORS}: its factors are not those of Llama 3, which alone are supported")),
    }
}

fn divisor(frequency: f64, factor: f64, original: f64) -> f64 {
    let [low, high] = BANDS;
    let wavelength = std::f64::consts::TAU / frequency;
    if wavelength < original / high {
        1.0
    } else if wavelength > original / low {
        factor
    } else {
        let smooth = (original / wavelength - low) / (high - low);
        1.0 / ((1.0 - smooth) / factor + smooth)
    }
}
