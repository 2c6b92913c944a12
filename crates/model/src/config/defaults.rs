//! Values that stand in a family's Python class when a config leaves them out.
//!
//! Only keys that are absent get them. A key that is `null` means "none", or for head counts and sizes "as usual".

use super::Architecture;

/// Defaults of one family.
pub(super) struct Defaults {
    /// `num_key_value_heads`; as many as query heads if `None`.
    pub kv_heads: Option<usize>,
    /// `head_dim`; hidden size over heads if `None`.
    pub head_dim: Option<usize>,
    /// `max_position_embeddings`.
    pub max_positions: usize,
    /// `rms_norm_eps`.
    pub norm_eps: f64,
    /// `rope_theta`.
    pub rope_theta: f64,
    /// `sliding_window`.
    pub window: Option<usize>,
    /// `attn_logit_softcapping`.
    pub attention_soft_cap: Option<f64>,
    /// `final_logit_softcapping`.
    pub final_soft_cap: Option<f64>,
    /// `query_pre_attn_scalar`; the head size if `None`.
    pub query_scalar: Option<f64>,
    /// `eos_token_id`.
    pub end_token: Option<u32>,
}

impl Defaults {
    pub fn of(architecture: Architecture) -> Self {
        let plain = Self::plain();
        match architecture {
            Architecture::Llama => Self { end_token: Some(2), ..plain },
            Architecture::Mistral => Self { kv_heads: Some(8), max_positions: 131_072, window: Some(4096), ..plain },
            Architecture::Mixtral => Self {
                kv_heads: Some(8),
                max_positions: 131_072,
                norm_eps: 1e-5,
                rope_theta: 1e6,
                end_token: Some(2),
                ..plain
            },
            Architecture::Qwen2 => Self { kv_heads: Some(32), max_positions: 32_768, window: Some(4096), ..plain },
            Architecture::Qwen3 => {
                Self { kv_heads: Some(32), head_dim: Some(128), max_positions: 32_768, window: Some(4096), ..plain }
            }
            Architecture::Gemma2 => Self {
                kv_heads: Some(4),
                head_dim: Some(256),
                max_positions: 8192,
                window: Some(4096),
                attention_soft_cap: Some(50.0),
                final_soft_cap: Some(30.0),
                query_scalar: Some(256.0),
                end_token: Some(1),
                ..plain
            },
            Architecture::T5 => Self { end_token: Some(1), ..plain },
            Architecture::Phi3 => Self { max_positions: 4096, norm_eps: 1e-5, end_token: Some(32_000), ..plain },
        }
    }

    fn plain() -> Self {
        Self {
            kv_heads: None,
            head_dim: None,
            max_positions: 2048,
            norm_eps: 1e-6,
            rope_theta: 10_000.0,
            window: None,
            attention_soft_cap: None,
            final_soft_cap: None,
            query_scalar: None,
            end_token: None,
        }
    }
}
