//! Names of a layer's tensors.

/// Names of a layer's tensors. Projections that this project multiplies as one matrix are lists: their rows follow one
/// another, whether the checkpoint stores one tensor or several.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct LayerNames {
    pub input_norm: String,
    pub qkv: Vec<String>,
    pub q_norm: String,
    pub k_norm: String,
    pub o: String,
    pub post_attention_norm: String,
    pub pre_mlp_norm: String,
    pub post_mlp_norm: String,
    pub router: String,
    /// One entry, or one per expert.
    pub mlps: Vec<MlpNames>,
    /// Of a layer that reads an encoder's states.
    pub cross: Option<CrossNames>,
    /// Terms of attention scores by distance, where there are any.
    pub position_bias: Option<String>,
}

/// Names of an attention that reads an encoder's states.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct CrossNames {
    pub norm: String,
    pub q: String,
    pub kv: Vec<String>,
    pub o: String,
}

/// Names of one feed-forward network.
#[derive(Clone, Debug)]
pub struct MlpNames {
    /// Gate and up projections.
    pub gate_up: Vec<String>,
    /// Down projection.
    pub down: String,
}
