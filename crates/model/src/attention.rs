//! Self-attention over the cache.

use crate::cache::{LayerKv, Place};
use crate::config::ModelConfig;
use crate::layout::LayerNames;
use crate::linear::{Linear, Loader};
use crate::rope::RopeTable;
use crate::weights::WeightsError;
use burn::tensor::Tensor;
use gorgon_kernels::cache_rows::{self, Placing};
use gorgon_kernels::tree_attention::{self, AttentionSpec, Flight, HostKv, Visible};
use gorgon_kernels::{Isa, host, norm, rope, team};

/// Slots are bounded by multiples of this, so that a device sees few distinct launches.
const SLOT_BUCKET: usize = 256;

/// The geometry of one forward pass over a sequence's rows, shared by all layers.
#[expect(clippy::large_enum_variant, reason = "one per sequence and pass")]
pub(crate) enum Pass<'a> {
    /// On the CPU.
    Host {
        /// Committed rows.
        prefix: usize,
        visible: &'a Visible,
        rope: &'a RopeTable,
    },
    /// Elsewhere: rows are padded, and what is seen is in a table on the device.
    Device { flight: Flight, angles: &'a Tensor<3> },
}

impl<'a> Pass<'a> {
    /// The pass over the rows in flight of a cache, whose tokens are `tokens`, or none if nobody will ask for them.
    pub fn new(
        config: &ModelConfig,
        place: Place<'a>,
        visible: &'a Visible,
        tokens: &[u32],
        (prefix, capacity): (usize, usize),
    ) -> Self {
        let angles = match place {
            Place::Host(rope) => return Self::Host { prefix, visible, rope },
            Place::Device(angles) => angles,
        };
        let slots = (prefix + visible.in_flight()).next_multiple_of(SLOT_BUCKET).min(capacity);
        let flight = Flight::new(tokens, visible, prefix, slots, &config.distinct_windows(), &angles.device());
        Self::Device { flight, angles }
    }

    /// Rows of the residual stream, padding included.
    pub fn rows(&self) -> usize {
        match self {
            Self::Host { visible, .. } => visible.rows(),
            Self::Device { flight, .. } => flight.padded_rows(),
        }
    }

    /// Rows times slots that they may see, on the CPU.
    fn pairs(&self) -> usize {
        match self {
            Self::Host { prefix, visible, .. } => visible.rows() * (prefix + visible.in_flight()),
            Self::Device { .. } => 0,
        }
    }

    /// Rows without padding.
    pub fn wanted(&self) -> usize {
        match self {
            Self::Host { visible, .. } => visible.rows(),
            Self::Device { flight, .. } => flight.rows(),
        }
    }
}

/// `x [1, rows, ..]` with the padding that a pass has.
pub(crate) fn pad(x: Tensor<3>, pass: &Pass<'_>) -> Tensor<3> {
    let [batch, rows, d] = x.dims();
    match pass.rows() - rows {
        0 => x,
        missing => {
            let zeros = Tensor::zeros([batch, missing, d], (&x.device(), x.dtype()));
            Tensor::cat(vec![x, zeros], 1)
        }
    }
}

/// The rows of all passes without their padding.
pub(crate) fn unpad(x: Tensor<3>, passes: &[Pass<'_>]) -> Tensor<3> {
    if passes.iter().all(|pass| pass.rows() == pass.wanted()) {
        return x;
    }
    let mut start = 0;
    let mut parts: Vec<Tensor<3>> = vec![];
    for pass in passes {
        parts.push(x.clone().narrow(1, start, pass.wanted()));
        start += pass.rows();
    }
    match parts.len() {
        1 => parts.remove(0),
        _ => Tensor::cat(parts, 1),
    }
}

#[derive(Debug)]
pub(crate) struct Attention {
    qkv: Linear,
    /// Norms on query and key heads.
    head_norms: Option<(Tensor<1>, Tensor<1>)>,
    o: Linear,
    spec: AttentionSpec,
    norm_eps: f32,
}

impl Attention {
    pub fn load(
        loader: &Loader<'_>,
        config: &ModelConfig,
        names: &LayerNames,
        layer: usize,
    ) -> Result<Self, WeightsError> {
        let head_norms = match config.qk_norm {
            true => Some((loader.norm(&names.q_norm, false)?, loader.norm(&names.k_norm, false)?)),
            false => None,
        };
        let spec = AttentionSpec {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            scale: config.attention_scale,
            soft_cap: config.attention_soft_cap,
            window: config.windows[layer],
        };
        Ok(Self {
            qkv: loader.linear(&names.qkv, config.qkv_bias)?,
            head_norms,
            o: loader.linear(std::slice::from_ref(&names.o), config.o_bias)?,
            spec,
            norm_eps: config.norm_eps,
        })
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.qkv.bytes() + self.o.bytes()
    }

    /// Attention of the rows in flight, sequence after sequence; their keys and values are written to the caches.
    ///
    /// # Shapes
    /// `x [1, rows, d]` with the rows of all passes, result the same.
    pub fn forward(&self, x: &Tensor<3>, passes: &[Pass<'_>], kvs: &mut [&mut LayerKv]) -> Tensor<3> {
        let qkv = self.qkv.forward(x);
        let mixed = match passes.first() {
            Some(Pass::Device { .. }) => {
                let mut start = 0;
                let parts = passes.iter().zip(kvs).map(|(pass, kv)| {
                    let part = qkv.clone().narrow(1, start, pass.rows());
                    start += pass.rows();
                    self.mix_on_device(&part, pass, kv)
                });
                let mut parts: Vec<Tensor<3>> = parts.collect();
                if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 1) }
            }
            _ => self.mix_on_host(&qkv, passes, kvs),
        };
        self.o.forward(&mixed)
    }

    fn mix_on_host(&self, qkv: &Tensor<3>, passes: &[Pass<'_>], kvs: &mut [&mut LayerKv]) -> Tensor<3> {
        let [batch, rows, width] = qkv.dims();
        let q_width = self.spec.heads * self.spec.head_dim;
        let values = host::read(qkv).expect("a CPU cache goes with CPU tensors");
        let norms = self.head_norms.as_ref().map(|(q, k)| (host::read(q), host::read(k)));
        let norms = match &norms {
            Some((Some(q), Some(k))) => Some((q.as_slice(), k.as_slice())),
            _ => None,
        };
        let mut out = vec![0f32; rows * q_width];
        let (mut qkv, mut left, mut parts) = (values.as_slice(), out.as_mut_slice(), vec![]);
        for (pass, kv) in passes.iter().zip(kvs) {
            let rows = pass.rows();
            let (mine, others) = qkv.split_at(rows * width);
            let (to, rest) = left.split_at_mut(rows * q_width);
            (qkv, left) = (others, rest);
            parts.push((pass, &mut **kv, mine, to));
        }
        let mix = |(pass, kv, qkv, out): &mut (&Pass<'_>, &mut LayerKv, &[f32], &mut [f32])| match kv {
            LayerKv::Host(kv) => self.mix_sequence(qkv, norms, pass, kv, out),
            LayerKv::Device { .. } => unreachable!("a pass is made for the device its cache lives on"),
        };
        match parts.as_mut_slice() {
            [alone] => mix(alone),
            // The team is at work for the sequences, so each of them is one thread's.
            parts => team::each(parts, 2 * q_width * passes.iter().map(Pass::pairs).sum::<usize>(), mix),
        }
        host::tensor(out, [batch, rows, q_width])
    }

    /// One sequence's rows: `qkv [rows, width]`, `out [rows, heads · head_dim]`.
    fn mix_sequence(
        &self,
        qkv: &[f32],
        norms: Option<(&[f32], &[f32])>,
        pass: &Pass<'_>,
        kv: &mut HostKv,
        out: &mut [f32],
    ) {
        let Pass::Host { prefix, visible, rope: table } = pass else {
            unreachable!("a pass is made for the device its cache lives on")
        };
        let (spec, isa) = (&self.spec, Isa::detect());
        let d = spec.head_dim;
        let (q_width, kv_width) = (spec.heads * d, spec.kv_heads * d);
        let mut queries = vec![0f32; out.len()];
        let mut keys = vec![0f32; kv_width];
        let first = prefix + visible.first();
        for (row, qkv) in qkv.chunks_exact(q_width + 2 * kv_width).enumerate() {
            let (q, kv_row) = qkv.split_at(q_width);
            let (k, v) = kv_row.split_at(kv_width);
            let query = &mut queries[row * q_width..(row + 1) * q_width];
            match norms {
                Some((q_norm, k_norm)) => {
                    norm::rms_norm_rows(isa, q, q_norm, self.norm_eps, query);
                    norm::rms_norm_rows(isa, k, k_norm, self.norm_eps, &mut keys);
                }
                None => {
                    query.copy_from_slice(q);
                    keys.copy_from_slice(k);
                }
            }
            let (cos, sin) = table.at(prefix + visible.count(row) - 1);
            rope::rotate_heads(isa, query, d, cos, sin);
            rope::rotate_heads(isa, &mut keys, d, cos, sin);
            kv.write(first + row, &keys, v);
        }
        tree_attention::attend_rows(isa, spec, &queries, kv, *prefix, visible, out);
    }

    /// One sequence's rows, padding included.
    fn mix_on_device(&self, qkv: &Tensor<3>, pass: &Pass<'_>, kv: &mut LayerKv) -> Tensor<3> {
        let (Pass::Device { flight, angles }, LayerKv::Device { cache, layer }) = (pass, kv) else {
            unreachable!("a pass is made for the device its cache lives on")
        };
        let norms = self.head_norms.as_ref().map(|(q, k)| (q, k, self.norm_eps));
        let placing = Placing { spec: &self.spec, norms, angles };
        let q = cache_rows::place(&placing, qkv, cache, *layer, flight);
        tree_attention::attend_cached(&self.spec, &q, cache, *layer, flight)
    }
}
