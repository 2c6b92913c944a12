//! Lists of tensors as the writers of each format would make them, and ways to damage them.

use gorgon_draft::format::{Detected, HeadsFormat, TensorInfo, detect};
use serde_json::Value;

/// Hidden size.
pub const H: usize = 64;
/// The target's vocabulary.
pub const V: usize = 512;
/// Draft vocabulary.
pub const D: usize = 256;
/// Width of the feed-forward network.
pub const I: usize = 112;

/// Tensors of a file.
#[derive(Clone, Debug, Default)]
pub struct Tensors(pub Vec<TensorInfo>);

impl Tensors {
    pub fn with(mut self, name: &str, shape: &[usize]) -> Self {
        let dtype = if name.ends_with("d2t") || name.ends_with("token_map") { "I64" } else { "BF16" };
        let dtype = if name.ends_with("t2d") { "BOOL" } else { dtype };
        self.0.push(TensorInfo { name: name.into(), shape: shape.into(), dtype: dtype.into() });
        self
    }

    /// A weight and its bias.
    pub fn linear(self, name: &str, d_out: usize, d_in: usize) -> Self {
        self.with(&format!("{name}.weight"), &[d_out, d_in]).with(&format!("{name}.bias"), &[d_out])
    }

    pub fn without(mut self, name: &str) -> Self {
        let before = self.0.len();
        self.0.retain(|tensor| tensor.name != name);
        assert_eq!(self.0.len() + 1, before, "{name}");
        self
    }

    fn change(mut self, name: &str, change: impl Fn(&mut TensorInfo)) -> Self {
        let tensor = self.0.iter_mut().find(|tensor| tensor.name == name);
        change(tensor.unwrap_or_else(|| panic!("there is no {name}")));
        self
    }

    pub fn reshaped(self, name: &str, shape: &[usize]) -> Self {
        self.change(name, |tensor| tensor.shape = shape.into())
    }

    pub fn retyped(self, name: &str, dtype: &str) -> Self {
        self.change(name, |tensor| tensor.dtype = dtype.into())
    }

    pub fn renamed(self, name: &str, to: &str) -> Self {
        self.change(name, |tensor| tensor.name = to.into())
    }

    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Detection, which must find this format.
    pub fn detect(&self, format: HeadsFormat, config: Option<&Value>) -> Detected {
        let detected = detect(&self.0, config).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(detected.format, format, "{:?}", detected.problems);
        detected
    }

    /// Detection, which must find this format and no problems.
    pub fn clean(&self, format: HeadsFormat, config: Option<&Value>) -> Detected {
        let detected = self.detect(format, config);
        assert_eq!(detected.problems, [""; 0]);
        detected
    }

    /// Fails unless exactly these problems are found.
    pub fn broken(&self, format: HeadsFormat, config: Option<&Value>, problems: &[&str]) {
        assert_eq!(self.detect(format, config).problems, problems);
    }
}

/// Fails unless a note contains the text.
pub fn assert_note(detected: &Detected, text: &str) {
    assert!(detected.notes.iter().any(|note| note.contains(text)), "{text:?} not in {:?}", detected.notes);
}

/// A Llama-like decoder layer.
pub fn layer(prefix: &str, attention_input: usize, norms: &[&str]) -> Tensors {
    let name = |suffix: &str| format!("{prefix}{suffix}.weight");
    let mut tensors = Tensors::default()
        .with(&name("self_attn.q_proj"), &[H, attention_input])
        .with(&name("self_attn.k_proj"), &[H / 2, attention_input])
        .with(&name("self_attn.v_proj"), &[H / 2, attention_input])
        .with(&name("self_attn.o_proj"), &[H, H])
        .with(&name("mlp.gate_proj"), &[I, H])
        .with(&name("mlp.up_proj"), &[I, H])
        .with(&name("mlp.down_proj"), &[H, I]);
    for norm in norms {
        tensors = tensors.with(&name(norm), &[H]);
    }
    tensors
}

/// Medusa heads of the original layout behind a prefix, with a projection each if `own`.
pub fn medusa(prefix: &str, heads: usize, blocks: usize, own: bool) -> Tensors {
    let mut tensors = Tensors::default();
    for head in 0..heads {
        for block in 0..blocks {
            tensors = tensors.linear(&format!("{prefix}{head}.{block}.linear"), H, H);
        }
        if own {
            tensors = tensors.with(&format!("{prefix}{head}.{blocks}.weight"), &[V, H]);
        }
    }
    tensors
}

/// The parts of a full model that heads are compared with.
pub fn backbone() -> Tensors {
    layer("model.layers.0.", H, &["input_layernorm", "post_attention_layernorm"])
        .and(layer("model.layers.1.", H, &["input_layernorm", "post_attention_layernorm"]))
        .with("model.embed_tokens.weight", &[V, H])
        .with("model.norm.weight", &[H])
        .with("lm_head.weight", &[V, H])
}
