//! Self-attention over the cache.

use crate::cache::{LayerKv, write_rows};
use crate::config::ModelConfig;
use crate::layout::LayerNames;
use crate::linear::{Linear, Loader};
use crate::rope::RopeTable;
use crate::weights::WeightsError;
use burn::tensor::{Device, Tensor, TensorData};
use gorgon_kernels::tree_attention::{self, AttentionSpec, HostKv, Visible};
use gorgon_kernels::{Isa, host, norm, rope, team};

/// Slots are masked and read in multiples of this, so that a device sees few distinct shapes.
const SLOT_BUCKET: usize = 64;

/// The geometry of one forward pass, shared by all layers.
pub(crate) struct Pass<'a> {
    /// Committed rows.
    prefix: usize,
    visible: &'a Visible,
    rope: &'a RopeTable,
    on_device: Option<DevicePass>,
}

/// What a pass needs on a device other than the CPU.
struct DevicePass {
    cos: Tensor<2>,
    sin: Tensor<2>,
    slots: usize,
    /// One mask per distinct window.
    masks: Vec<(Option<usize>, Tensor<2>)>,
}

impl<'a> Pass<'a> {
    pub fn new(
        config: &ModelConfig,
        rope: &'a RopeTable,
        visible: &'a Visible,
        prefix: usize,
        capacity: usize,
        device: &Device,
    ) -> Self {
        let pass = Self { prefix, visible, rope, on_device: None };
        if host::is_host(device) {
            return pass;
        }
        let rows = visible.rows();
        let angles = |sine: bool| {
            let at = |row| if sine { rope.at(pass.position(row)).1 } else { rope.at(pass.position(row)).0 };
            let values: Vec<f32> = (0..rows).flat_map(at).copied().collect();
            Tensor::<2>::from_data(TensorData::new(values, [rows, rope.half()]), device)
        };
        let slots = (prefix + visible.in_flight()).next_multiple_of(SLOT_BUCKET).min(capacity);
        let mut masks: Vec<(Option<usize>, Tensor<2>)> = vec![];
        for &window in &config.windows {
            if masks.iter().all(|(known, _)| *known != window) {
                masks.push((window, tree_attention::mask(visible, prefix, slots, window, device)));
            }
        }
        let (cos, sin) = (angles(false), angles(true));
        Self { on_device: Some(DevicePass { cos, sin, slots, masks }), ..pass }
    }

    /// The slot of the first row.
    fn first_slot(&self) -> usize {
        self.prefix + self.visible.first()
    }

    /// Rows times slots that they may see.
    fn pairs(&self) -> usize {
        self.visible.rows() * (self.prefix + self.visible.in_flight())
    }

    /// The position id of a row.
    fn position(&self, row: usize) -> usize {
        self.prefix + self.visible.count(row) - 1
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
        let mixed = match passes.first().and_then(|pass| pass.on_device.as_ref()) {
            None => self.mix_on_host(&qkv, passes, kvs),
            Some(_) => {
                let mut start = 0;
                let parts = passes.iter().zip(kvs).map(|(pass, kv)| {
                    let part = qkv.clone().narrow(1, start, pass.visible.rows());
                    start += pass.visible.rows();
                    self.mix_on_device(part, pass, kv)
                });
                Tensor::cat(parts.collect(), 1)
            }
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
            let rows = pass.visible.rows();
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
        let (spec, isa) = (&self.spec, Isa::detect());
        let d = spec.head_dim;
        let (q_width, kv_width) = (spec.heads * d, spec.kv_heads * d);
        let mut queries = vec![0f32; out.len()];
        let mut keys = vec![0f32; kv_width];
        let first = pass.first_slot();
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
            let (cos, sin) = pass.rope.at(pass.position(row));
            rope::rotate_heads(isa, query, d, cos, sin);
            rope::rotate_heads(isa, &mut keys, d, cos, sin);
            kv.write(first + row, &keys, v);
        }
        tree_attention::attend_rows(isa, spec, &queries, kv, pass.prefix, pass.visible, out);
    }

    fn mix_on_device(&self, qkv: Tensor<3>, pass: &Pass<'_>, kv: &mut LayerKv) -> Tensor<3> {
        let (first, Some(pass), LayerKv::Device { keys, values }) = (pass.first_slot(), &pass.on_device, kv) else {
            unreachable!("a pass is made for the device its cache lives on")
        };
        let spec = &self.spec;
        let [batch, rows, _] = qkv.dims();
        let d = spec.head_dim;
        let part = |first: usize, heads: usize| {
            qkv.clone().narrow(2, first * d, heads * d).reshape([batch, rows, heads, d]).swap_dims(1, 2)
        };
        let (mut q, mut k) = (part(0, spec.heads), part(spec.heads, spec.kv_heads));
        let v = part(spec.heads + spec.kv_heads, spec.kv_heads);
        if let Some((q_norm, k_norm)) = &self.head_norms {
            q = norm::rms_norm(&q, q_norm, self.norm_eps);
            k = norm::rms_norm(&k, k_norm, self.norm_eps);
        }
        q = rope::rotate(q, &pass.cos, &pass.sin);
        write_rows(keys, rope::rotate(k, &pass.cos, &pass.sin), first);
        write_rows(values, v, first);
        let mask = pass.masks.iter().find(|(window, _)| *window == spec.window).map(|(_, mask)| mask);
        let mask = mask.expect("a pass has a mask for every window of its config");
        let seen = |cache: &Tensor<4>| cache.clone().narrow(2, 0, pass.slots);
        let mixed = tree_attention::attend(spec, q, seen(keys), seen(values), mask);
        mixed.swap_dims(1, 2).reshape([batch, rows, spec.heads * d])
    }
}
