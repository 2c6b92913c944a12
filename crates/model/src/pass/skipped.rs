//! Sub-layers that a pass leaves out.

/// The attentions and feed-forward networks that a pass leaves out: the residual stream goes past them unchanged
/// (Draft & Verify, Zhang et al., 2024, <https://arxiv.org/abs/2309.08168>).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SkippedSublayers {
    attention: Vec<bool>,
    mlp: Vec<bool>,
}

impl SkippedSublayers {
    /// Leaves out nothing of a model with `layers` layers.
    pub fn none(layers: usize) -> Self {
        Self { attention: vec![false; layers], mlp: vec![false; layers] }
    }

    /// Leaves out the attentions and the feed-forward networks of some layers, numbered from 0.
    ///
    /// # Errors
    /// The first layer that the model does not have.
    pub fn new(layers: usize, attention: &[usize], mlp: &[usize]) -> Result<Self, usize> {
        let mut skipped = Self::none(layers);
        for (all, left_out) in [(&mut skipped.attention, attention), (&mut skipped.mlp, mlp)] {
            for &layer in left_out {
                *all.get_mut(layer).ok_or(layer)? = true;
            }
        }
        Ok(skipped)
    }

    /// Layers of the model.
    pub fn layers(&self) -> usize {
        self.attention.len()
    }

    /// Whether the attention of a layer is left out.
    pub fn attention(&self, layer: usize) -> bool {
        self.attention[layer]
    }

    /// Whether the feed-forward network of a layer is left out.
    pub fn mlp(&self, layer: usize) -> bool {
        self.mlp[layer]
    }

    /// The number of sub-layers left out.
    pub fn count(&self) -> usize {
        self.attention.iter().chain(&self.mlp).filter(|&&left_out| left_out).count()
    }

    /// The layers whose attention is left out, and those whose feed-forward network is.
    pub fn lists(&self) -> [Vec<usize>; 2] {
        [&self.attention, &self.mlp].map(|all| (0..all.len()).filter(|&layer| all[layer]).collect())
    }

    /// A copy with one sub-layer left out where it is in, or in where it is left out: `index` counts the attentions
    /// first, then the feed-forward networks.
    pub fn toggled(&self, index: usize) -> Self {
        let mut copy = self.clone();
        let all = copy.attention.iter_mut().chain(&mut copy.mlp);
        all.skip(index).take(1).for_each(|left_out| *left_out = !*left_out);
        copy
    }
}
