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

/// Sparse mixture of experts: each position is served by its `per_token` experts of greatest weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Experts per layer.
    pub count: usize,
    /// Experts per position.
    pub per_token: usize,
}
