//! Attention of the decoder's rows over an encoded source. There is no mask, and no position counts.

use crate::attention::Pass;
use crate::config::ModelConfig;
use crate::hidden_states::HiddenStates;
use crate::layout::CrossNames;
use crate::linear::{Linear, Loader};
use crate::linear_output::LinearOutput;
use crate::norm::Norm;
use crate::weights::WeightsError;
use gorgon_core::PooledVec;
use gorgon_kernels::Isa;
use gorgon_kernels::tree_attention::{self, AttentionMask, AttentionSpec, HostKv, PassRows};

#[derive(Debug)]
pub(crate) struct CrossAttention {
    norm: Norm,
    q: Linear,
    /// Keys, then values.
    kv: Linear,
    o: Linear,
    spec: AttentionSpec,
    norm_eps: f32,
    /// The layer that it is in.
    layer: usize,
}

impl CrossAttention {
    pub fn load(
        loader: &Loader<'_>,
        config: &ModelConfig,
        names: &CrossNames,
        layer: usize,
    ) -> Result<Self, WeightsError> {
        let spec = AttentionSpec {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            scale: config.attention_scale,
            soft_cap: config.attention_soft_cap,
            window: None,
        };
        Ok(Self {
            norm: Norm::load(loader, &names.norm, config.norm_plus_one)?,
            q: loader.linear(std::slice::from_ref(&names.q), false)?,
            kv: loader.linear(&names.kv, false)?,
            o: loader.linear(std::slice::from_ref(&names.o), false)?,
            spec,
            norm_eps: config.norm_eps,
            layer,
        })
    }

    /// Bytes of the weights that a step reads.
    pub fn bytes(&self) -> usize {
        self.q.bytes() + self.o.bytes()
    }

    /// Keys and values of an encoder's states.
    ///
    /// # Shapes
    /// `states [source, d]`.
    pub fn keys_and_values(&self, states: &HiddenStates) -> HostKv {
        let (rows, width) = (states.rows(), self.spec.kv_heads * self.spec.head_dim);
        let both = self.kv.forward(states).into_values();
        let mut kv = HostKv::new(self.spec.kv_heads, rows, self.spec.head_dim);
        for (row, both) in both.chunks_exact(2 * width).enumerate() {
            let (keys, values) = both.split_at(width);
            kv.write(row, keys, values);
        }
        kv
    }

    /// `x + attended`, and the attention's output, which is not added yet: the next norm adds it.
    ///
    /// # Shapes
    /// `x`, `attended` and both results `[rows, d]` with the rows of all passes.
    pub fn add_forward(
        &self,
        x: HiddenStates,
        attended: LinearOutput,
        passes: &[Pass<'_>],
    ) -> (HiddenStates, LinearOutput) {
        let (x, normed) = self.norm.add_forward(x, attended, self.norm_eps);
        let q = self.q.forward(&normed).into_values();
        let width = self.spec.heads * self.spec.head_dim;
        let mut values = PooledVec::unset(q.len());
        let mut start = 0;
        for pass in passes {
            let range = start..start + pass.rows() * width;
            start = range.end;
            self.attend(&q[range.clone()], pass, &mut values[range]);
        }
        (x, self.o.output(&HiddenStates::Host { values, width }))
    }

    /// One sequence's rows over its source.
    fn attend(&self, q: &[f32], pass: &Pass<'_>, out: &mut [f32]) {
        let Pass::Host { rows, source: Some(source), .. } = pass else {
            unreachable!("a pass is checked to have a source, and to run on the CPU")
        };
        let mask = AttentionMask::Committed { rows: rows.mask.rows() };
        let over = PassRows::new(source.tokens().len(), &mask);
        tree_attention::attend_rows(Isa::detect(), &self.spec, q, source.layer(self.layer), &over, out);
    }
}
