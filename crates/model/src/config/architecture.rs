//! Families of decoders, and the mixtures of experts that some of them are.

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
    T5,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Llama, Self::Mistral, Self::Qwen2, Self::Qwen3, Self::Gemma2, Self::Phi3, Self::Mixtral, Self::T5];

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
            Self::T5 => "t5",
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
            Self::T5 => "T5ForConditionalGeneration",
        }
    }
}

/// Sparse mixture of experts: each position is served by its `per_token` experts of greatest weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Experts per layer.
    pub count: usize,
    /// Experts per position.
    pub per_token: usize,
}

/// The encoder of an encoder-decoder model, and what its decoder reads of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderConfig {
    /// Its layers.
    pub layers: usize,
    /// The token that the decoder's text begins with.
    pub start_token: u32,
    /// Terms of attention scores by distance.
    pub buckets: PositionBuckets,
}

/// Distances that share a term of attention scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionBuckets {
    /// Number of terms of a head.
    pub count: usize,
    /// All distances from here on share one.
    pub max_distance: usize,
}
