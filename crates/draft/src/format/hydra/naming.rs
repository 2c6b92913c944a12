//! How the tensors of Hydra heads are called.

/// Prefix of the prefix-attention layer's names, spelt as the reference implementation spells it.
pub(in crate::format) const PREFIX_LAYER: &str = "prefix_embeding_layer.";

/// How the tensors of Hydra heads are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HydraNaming {
    /// Whether dropouts are counted in the names, as in Hydra++.
    pub dropouts: bool,
}

impl HydraNaming {
    /// The linear map of a block, without `.weight` and `.bias`.
    pub fn block(self, head: usize, block: usize) -> String {
        format!("{}.linear", self.place(head, block))
    }

    /// The way around the first block of a grounded head.
    pub fn residual(self, head: usize) -> String {
        format!("{}.res_connection", self.place(head, 0))
    }

    /// The projection of a head to the vocabulary.
    pub fn lm_head(self, head: usize) -> String {
        format!("hydra_lm_head.{head}{}", if self.dropouts { ".1" } else { "" })
    }

    /// Prefix of the prefix-attention layer's tensor names, the last dot included.
    pub fn prefix_layer(self) -> String {
        format!("{PREFIX_LAYER}layers.0.")
    }

    /// The norm after the prefix-attention layer.
    pub fn prefix_norm(self) -> String {
        format!("{PREFIX_LAYER}norm.weight")
    }

    fn place(self, head: usize, block: usize) -> String {
        format!("hydra_mlp.{head}.{}", if self.dropouts { 2 * block + 1 } else { block })
    }
}
