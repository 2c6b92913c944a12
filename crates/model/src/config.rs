//! What a `config.json` says about a decoder, in one spelling.
//!
//! Hugging Face configs differ by architecture and by age (`rope_theta` beside `rope_parameters`, `torch_dtype` beside
//! `dtype`, defaults that live in Python classes). Everything is resolved here, so that the decoder reads plain facts
//! and never asks which architecture it is.

use crate::rope::{RopeConfig, RopeScaling};
use gorgon_kernels::activation::Activation;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Architectures this project loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Architecture {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
    Gemma2,
    Phi3,
    Mixtral,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Llama, Self::Mistral, Self::Qwen2, Self::Qwen3, Self::Gemma2, Self::Phi3, Self::Mixtral];

    /// The `model_type` of a config.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma2 => "gemma2",
            Self::Phi3 => "phi3",
            Self::Mixtral => "mixtral",
        }
    }

    /// The class name under `architectures`.
    pub fn class_name(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Mistral => "MistralForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
            Self::Gemma2 => "Gemma2ForCausalLM",
            Self::Phi3 => "Phi3ForCausalLM",
            Self::Mixtral => "MixtralForCausalLM",
        }
    }
}

/// Sparse mixture of experts: each position is served by its `per_token` likeliest experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Experts per layer.
    pub count: usize,
    /// Experts per position.
    pub per_token: usize,
}

/// A decoder's facts.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Which family the checkpoint belongs to (decides tensor names).
    pub architecture: Architecture,
    /// Width of the residual stream, d.
    pub hidden_size: usize,
    /// Width of the feed-forward network.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Size of one head.
    pub head_dim: usize,
    /// Vocabulary size, V.
    pub vocab_size: usize,
    /// Longest context, in tokens.
    pub max_positions: usize,
    /// Epsilon of every RMS norm.
    pub norm_eps: f32,
    /// Rotary embedding.
    pub rope: RopeConfig,
    /// Gate of the feed-forward network.
    pub activation: Activation,
    /// Whether the LM head is the embedding table.
    pub tied_embeddings: bool,
    /// Biases on the query, key and value projections.
    pub qkv_bias: bool,
    /// Bias on the attention's output projection.
    pub o_bias: bool,
    /// Biases in the feed-forward network.
    pub mlp_bias: bool,
    /// RMS norms on each query and key head.
    pub qk_norm: bool,
    /// Whether checkpoints store query, key and value (and gate and up) as one matrix.
    pub fused_projections: bool,
    /// Norm weights are stored minus one.
    pub norm_plus_one: bool,
    /// Norms after attention and feed-forward, beside those before them.
    pub post_norms: bool,
    /// Factor on embeddings.
    pub embedding_scale: f32,
    /// Factor on attention scores.
    pub attention_scale: f32,
    /// Soft cap on attention scores.
    pub attention_soft_cap: Option<f32>,
    /// Soft cap on logits.
    pub final_soft_cap: Option<f32>,
    /// Sliding window of each layer; `None` sees everything.
    pub windows: Vec<Option<usize>>,
    /// Mixture of experts in place of the feed-forward network.
    pub experts: Option<Experts>,
    /// Token that begins a sequence.
    pub bos_token: Option<u32>,
    /// Tokens that end a generation.
    pub eos_tokens: Vec<u32>,
}

/// Why a config cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no JSON object.
    #[error("{path}: not a JSON object: {reason}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// A value is missing, of the wrong type or out of range.
    #[error("{path}: {reason}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Which value and what is wrong with it.
        reason: String,
    },
}

impl ModelConfig {
    /// Reads `config.json`, and `generation_config.json` if it is there, from a model folder.
    ///
    /// # Errors
    /// One line that names the file and the value.
    pub fn read(dir: &Path) -> Result<Self, ConfigError> {
        let path = dir.join("config.json");
        let fields = Fields(read_object(&path)?);
        let mut config =
            Self::from_fields(&fields).map_err(|reason| ConfigError::Value { path: path.clone(), reason })?;
        let path = dir.join("generation_config.json");
        if path.exists() {
            let fields = Fields(read_object(&path)?);
            let wrong = |reason| ConfigError::Value { path: path.clone(), reason };
            if let Some(tokens) = fields.tokens("eos_token_id").map_err(wrong)? {
                config.eos_tokens = tokens;
            }
        }
        Ok(config)
    }

    /// Resolves a parsed `config.json`.
    ///
    /// # Errors
    /// A description of the first value that is missing, of the wrong type or out of range.
    pub fn from_json(config: &Value) -> Result<Self, String> {
        let object = config.as_object().ok_or("not a JSON object")?;
        Self::from_fields(&Fields(object.clone()))
    }

    fn from_fields(f: &Fields) -> Result<Self, String> {
        let architecture = architecture(f)?;
        if let Some(method) = f.get("quantization_config") {
            let method = method.get("quant_method").and_then(Value::as_str).unwrap_or("unknown");
            return Err(format!("quantization_config: quantised checkpoints (method \"{method}\") are not supported"));
        }
        let hidden_size = f.size("hidden_size", 1 << 20)?;
        let layers = f.size("num_hidden_layers", 4096)?;
        let heads = f.size("num_attention_heads", 1 << 14)?;
        let kv_heads = f.size_or("num_key_value_heads", 1 << 14, heads)?;
        if heads % kv_heads != 0 {
            return Err(format!("num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}"));
        }
        let head_dim = head_dim(f, hidden_size, heads)?;
        use Architecture as A;
        let attention_bias = f.flag("attention_bias", false)?;
        let query_scalar = f.number("query_pre_attn_scalar")?.filter(|_| architecture == A::Gemma2);
        let query_scalar = query_scalar.unwrap_or(head_dim as f64);
        if query_scalar <= 0.0 {
            return Err(format!("query_pre_attn_scalar is {query_scalar}; it must be positive"));
        }
        let gemma = architecture == A::Gemma2;
        let cap = |name: &str| -> Result<Option<f32>, String> {
            match f.number(name)? {
                Some(cap) if cap <= 0.0 => Err(format!("{name} is {cap}; it must be positive")),
                cap => Ok(cap.filter(|_| gemma).map(|cap| cap as f32)),
            }
        };
        let config = Self {
            architecture,
            hidden_size,
            intermediate_size: f.size("intermediate_size", 1 << 22)?,
            layers,
            heads,
            kv_heads,
            head_dim,
            vocab_size: f.size("vocab_size", 1 << 24)?,
            max_positions: f.size_or("max_position_embeddings", 1 << 30, 2048)?,
            norm_eps: norm_eps(f)?,
            rope: rope(f, head_dim)?,
            activation: activation(f, architecture)?,
            tied_embeddings: f.flag("tie_word_embeddings", gemma)?,
            qkv_bias: attention_bias || architecture == A::Qwen2,
            o_bias: attention_bias && architecture != A::Qwen2,
            mlp_bias: architecture == A::Llama && f.flag("mlp_bias", false)?,
            qk_norm: architecture == A::Qwen3,
            fused_projections: architecture == A::Phi3,
            norm_plus_one: gemma,
            post_norms: gemma,
            embedding_scale: if gemma { (hidden_size as f32).sqrt() } else { 1.0 },
            attention_scale: (1.0 / query_scalar.sqrt()) as f32,
            attention_soft_cap: cap("attn_logit_softcapping")?,
            final_soft_cap: cap("final_logit_softcapping")?,
            windows: windows(f, architecture, layers)?,
            experts: experts(f, architecture)?,
            bos_token: f.tokens("bos_token_id")?.and_then(|tokens| tokens.first().copied()),
            eos_tokens: f.tokens("eos_token_id")?.unwrap_or_default(),
        };
        config.check_total()
    }

    /// Refuses sizes that are fine one by one and absurd together.
    fn check_total(self) -> Result<Self, String> {
        const LIMIT: u128 = 1 << 41;
        let total = self.parameters();
        if total > LIMIT {
            return Err(format!("the sizes amount to {total} parameters; at most {LIMIT} are supported"));
        }
        let widest = self.heads.max(self.kv_heads).saturating_mul(self.head_dim);
        if widest > 1 << 24 {
            return Err(format!("{} heads of {} are {widest} wide", self.heads, self.head_dim));
        }
        Ok(self)
    }

    /// Number of parameters of the checkpoint, tied embeddings counted once.
    pub fn parameters(&self) -> u128 {
        let product = |shape: &[usize]| shape.iter().map(|&n| n as u128).product::<u128>();
        // All layers are alike, so one is enough: a config may name thousands.
        let one = Self { layers: 1, ..self.clone() };
        let none = Self { layers: 0, ..self.clone() };
        let count = |c: &Self| crate::layout::tensors(c).iter().map(|t| product(&t.shape)).sum::<u128>();
        let (one, none) = (count(&one), count(&none));
        none + (one - none) * self.layers as u128
    }
}

/// A JSON object whose fields are read with a type and a range.
struct Fields(serde_json::Map<String, Value>);

impl Fields {
    /// A field that is present and not null.
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn size(&self, name: &str, limit: usize) -> Result<usize, String> {
        let value = self.get(name).ok_or_else(|| format!("{name} is missing"))?;
        match value.as_u64() {
            Some(n) if n > 0 && n <= limit as u64 => Ok(n as usize),
            _ => Err(format!("{name} is {}; a whole number from 1 to {limit} is expected", brief(value))),
        }
    }

    fn size_or(&self, name: &str, limit: usize, default: usize) -> Result<usize, String> {
        if self.get(name).is_some() { self.size(name, limit) } else { Ok(default) }
    }

    fn number(&self, name: &str) -> Result<Option<f64>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|v| v.is_finite()) {
                Some(v) => Ok(Some(v)),
                None => Err(format!("{name} is {}; a number is expected", brief(value))),
            },
        }
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => {
                value.as_bool().ok_or_else(|| format!("{name} is {}; true or false is expected", brief(value)))
            }
        }
    }

    fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => {
                value.as_str().map(Some).ok_or_else(|| format!("{name} is {}; a text is expected", brief(value)))
            }
        }
    }

    /// A token id or a list of them.
    fn tokens(&self, name: &str) -> Result<Option<Vec<u32>>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
        let list = match value {
            Value::Array(list) => list.iter().map(one).collect::<Option<Vec<u32>>>(),
            one_value => one(one_value).map(|token| vec![token]),
        };
        list.map(Some).ok_or_else(|| format!("{name} is {}; a token id or a list of them is expected", brief(value)))
    }
}

/// A value short enough for a one-line message.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn read_object(path: &Path) -> Result<serde_json::Map<String, Value>, ConfigError> {
    const LIMIT: u64 = 16 << 20;
    let read = |source| ConfigError::Read { path: path.into(), source };
    let json = |reason: String| ConfigError::Json { path: path.into(), reason };
    let size = std::fs::metadata(path).map_err(read)?.len();
    if size > LIMIT {
        return Err(json(format!("{size} bytes long; at most {LIMIT} are expected")));
    }
    let bytes = std::fs::read(path).map_err(read)?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(json(format!("it holds {}", brief(&other)))),
        Err(error) => Err(json(error.to_string())),
    }
}

fn architecture(f: &Fields) -> Result<Architecture, String> {
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
            Err(format!("architectures says \"{class}\" but model_type \"{model_type}\""))
        }
        (class, model_type, a, _) => {
            let unknown = if a.is_none() { class.or(model_type) } else { model_type }.unwrap_or_default();
            Err(format!("unknown architecture \"{unknown}\"; {}", supported()))
        }
    }
}

fn head_dim(f: &Fields, hidden_size: usize, heads: usize) -> Result<usize, String> {
    let head_dim = match f.get("head_dim") {
        Some(_) => f.size("head_dim", 1 << 13)?,
        None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => return Err(format!("hidden_size {hidden_size} is not a multiple of num_attention_heads {heads}")),
    };
    if head_dim % 2 == 1 {
        return Err(format!("head_dim is {head_dim}; rotary embedding needs an even number"));
    }
    Ok(head_dim)
}

fn norm_eps(f: &Fields) -> Result<f32, String> {
    let eps = f.number("rms_norm_eps")?.unwrap_or(1e-6);
    if !(0.0..=1.0).contains(&eps) {
        return Err(format!("rms_norm_eps is {eps}; a number from 0 to 1 is expected"));
    }
    Ok(eps as f32)
}

fn activation(f: &Fields, architecture: Architecture) -> Result<Activation, String> {
    let default = if architecture == Architecture::Gemma2 { "gelu_pytorch_tanh" } else { "silu" };
    // Gemma's own key wins over the general one, which old Gemma configs carry with another value.
    let key = if f.get("hidden_activation").is_some() { "hidden_activation" } else { "hidden_act" };
    match f.text(key)?.unwrap_or(default) {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        other => Err(format!("{key} is \"{other}\"; supported: silu, gelu_pytorch_tanh")),
    }
}

/// Rotary settings, from `rope_theta` and `rope_scaling` or from the newer `rope_parameters`.
fn rope(f: &Fields, head_dim: usize) -> Result<RopeConfig, String> {
    let (key, object) = match (f.get("rope_parameters"), f.get("rope_scaling")) {
        (Some(value), _) => ("rope_parameters", Some(value)),
        (None, value) => ("rope_scaling", value),
    };
    let nested = match object {
        None => Fields(serde_json::Map::new()),
        Some(Value::Object(object)) => Fields(object.clone()),
        Some(other) => return Err(format!("{key} is {}; an object is expected", brief(other))),
    };
    let theta = nested.number("rope_theta")?.or(f.number("rope_theta")?).unwrap_or(10_000.0);
    if theta <= 0.0 {
        return Err(format!("rope_theta is {theta}; it must be positive"));
    }
    let factor = nested.number("partial_rotary_factor")?.or(f.number("partial_rotary_factor")?).unwrap_or(1.0);
    let rotary_dim = (head_dim as f64 * factor) as usize;
    if !(factor > 0.0 && factor <= 1.0) || rotary_dim % 2 == 1 || rotary_dim == 0 {
        return Err(format!(
            "partial_rotary_factor {factor} of head_dim {head_dim} gives no even number of dimensions"
        ));
    }
    let positive = |name: &str| match nested.number(name)? {
        Some(v) if v > 0.0 => Ok(v),
        Some(v) => Err(format!("{key}.{name} is {v}; it must be positive")),
        None => Err(format!("{key}.{name} is missing")),
    };
    let kind = nested.text("rope_type")?.or(nested.text("type")?);
    let scaling = match kind.unwrap_or("default") {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: positive("factor")? },
        "llama3" => {
            let (low, high) = (positive("low_freq_factor")?, positive("high_freq_factor")?);
            if high <= low {
                return Err(format!("{key}: high_freq_factor {high} must exceed low_freq_factor {low}"));
            }
            let original_length = positive("original_max_position_embeddings")?;
            RopeScaling::Llama3 { factor: positive("factor")?, low, high, original_length }
        }
        other => return Err(format!("{key}: type \"{other}\" is not supported; supported: default, linear, llama3")),
    };
    Ok(RopeConfig { theta, rotary_dim, scaling })
}

fn windows(f: &Fields, architecture: Architecture, layers: usize) -> Result<Vec<Option<usize>>, String> {
    use Architecture as A;
    let default = (architecture == A::Gemma2).then_some(4096);
    let window = match f.get("sliding_window") {
        Some(_) => Some(f.size("sliding_window", 1 << 30)?),
        None if f.0.contains_key("sliding_window") => None,
        None => default,
    };
    let qwen = matches!(architecture, A::Qwen2 | A::Qwen3);
    let Some(window) =
        window.filter(|_| architecture != A::Llama && (!qwen || f.flag("use_sliding_window", false) == Ok(true)))
    else {
        return Ok(vec![None; layers]);
    };
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
        return types.iter().map(one).collect();
    }
    let first_windowed = if qwen { f.count_or("max_window_layers", 28)? } else { 0 };
    let sliding = |layer: usize| match architecture {
        A::Gemma2 => layer.is_multiple_of(2),
        _ => layer >= first_windowed,
    };
    Ok((0..layers).map(|layer| sliding(layer).then_some(window)).collect())
}

impl Fields {
    /// A whole number, zero included.
    fn count_or(&self, name: &str, default: usize) -> Result<usize, String> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
                Some(n) => Ok(n),
                None => Err(format!("{name} is {}; a whole number is expected", brief(value))),
            },
        }
    }
}

fn experts(f: &Fields, architecture: Architecture) -> Result<Option<Experts>, String> {
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
