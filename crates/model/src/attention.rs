//! Self-attention over the cache.

use crate::cache::{CacheError, CacheView, LayerKv};
use crate::config::ModelConfig;
use crate::hidden_states::HiddenStates;
use crate::layout::LayerNames;
use crate::linear::{Linear, Loader};
use crate::linear_output::LinearOutput;
use crate::norm::Norm;
use crate::rope::{Rope, RopeTable};
use crate::source::EncodedSource;
use crate::weights::WeightsError;
use burn::tensor::{Device, Tensor};
use gorgon_core::PooledVec;
use gorgon_kernels::cache_rows::{self, Placing};
use gorgon_kernels::partial_sums::PartialSums;
use gorgon_kernels::tree_attention::{self, AttentionMask, AttentionSpec, HostKv, PassRows, PassTable, PositionBias};
use gorgon_kernels::{Isa, rope, team};
use smallvec::SmallVec;
use std::sync::Arc;

/// Slots are bounded by multiples of this, so that a device sees few distinct launches.
const SLOT_BUCKET: usize = 256;

/// One sequence's rows in a forward pass, as all layers read them.
#[expect(clippy::large_enum_variant, reason = "one per sequence and pass")]
pub(crate) enum Pass<'a> {
    /// On the CPU. Layers with cross-attention read the encoded source.
    Host { rows: PassRows<'a>, rope: &'a RopeTable, source: Option<&'a EncodedSource> },
    /// Elsewhere: rows are padded, and the mask is in a table on the device.
    Device { pass_table: PassTable, angles: Tensor<3> },
}

impl<'a> Pass<'a> {
    /// The pass over uncommitted rows of a cache. `tokens` are the rows' tokens, or none where nothing reads them.
    pub fn new(config: &ModelConfig, view: &CacheView<'a>, mask: &'a AttentionMask, tokens: &[u32]) -> Self {
        let rows = PassRows { prefix: view.prefix, mask, positions: view.positions };
        let Some(angles) = view.angles else {
            return Self::Host { rows, rope: view.rope.table(), source: view.source };
        };
        let device = angles.device();
        let positions = 1 + (0..mask.rows()).map(|row| rows.position(row)).max().unwrap_or(0);
        let angles =
            if positions <= angles.dims()[0] { angles.clone() } else { view.rope.on_device(positions, &device) };
        let slots = rows.slots().next_multiple_of(SLOT_BUCKET).min(view.capacity);
        let pass_table = PassTable::of(tokens, &rows, slots, &config.distinct_windows(), &device);
        Self::Device { pass_table, angles }
    }

    /// The pass over a table of rows that may have been written on a GPU.
    ///
    /// # Errors
    /// When the cache is on the CPU.
    pub fn of_table(pass_table: &PassTable, view: &CacheView<'a>) -> Result<Self, CacheError> {
        let angles = view.angles.ok_or(CacheError::Host)?.clone();
        Ok(Self::Device { pass_table: pass_table.clone(), angles })
    }

    /// The pass on another GPU; `None` on the CPU.
    pub fn on(&self, device: &Device, rope: &Rope) -> Option<Pass<'static>> {
        match self {
            Self::Host { .. } => None,
            Self::Device { pass_table, angles } => Some(Pass::Device {
                pass_table: pass_table.to_device(device),
                angles: rope.on_device(angles.dims()[0], device),
            }),
        }
    }

    /// Rows of the residual stream, padding included.
    pub fn padded_rows(&self) -> usize {
        match self {
            Self::Host { rows, .. } => rows.mask.rows(),
            Self::Device { pass_table, .. } => pass_table.padded_rows(),
        }
    }

    /// Rows without padding.
    pub fn rows(&self) -> usize {
        match self {
            Self::Host { rows, .. } => rows.mask.rows(),
            Self::Device { pass_table, .. } => pass_table.rows(),
        }
    }

    /// Rows times slots that they may see, on the CPU.
    fn pairs(&self) -> usize {
        match self {
            Self::Host { rows, .. } => rows.mask.rows() * rows.slots(),
            Self::Device { .. } => 0,
        }
    }
}

/// Has the tables of several passes on a GPU lie in one tensor, where kernels that serve all sequences read them.
pub(crate) fn join_tables(passes: &mut [Pass<'_>]) {
    let table = |pass: &Pass<'_>| match pass {
        Pass::Device { pass_table, .. } => Some(pass_table.clone()),
        Pass::Host { .. } => None,
    };
    let Some(tables) = passes.iter().map(table).collect::<Option<Vec<_>>>().filter(|tables| tables.len() > 1) else {
        return;
    };
    let joined = PassTable::joined(&tables.iter().collect::<Vec<_>>());
    for (pass, table) in passes.iter_mut().zip(joined) {
        if let Pass::Device { pass_table, .. } = pass {
            *pass_table = table;
        }
    }
}

/// Rows of one pass with the padding that it has; on the CPU there is none.
///
/// # Shapes
/// `x [rows, width]`, result `[padded rows, width]`.
pub(crate) fn pad(x: HiddenStates, pass: &Pass<'_>) -> HiddenStates {
    match x {
        HiddenStates::Device(x) if x.dims()[1] < pass.padded_rows() => {
            let [batch, rows, width] = x.dims();
            let zeros = Tensor::zeros([batch, pass.padded_rows() - rows, width], (&x.device(), x.dtype()));
            HiddenStates::on_device(Tensor::cat(vec![*x, zeros], 1))
        }
        x => x,
    }
}

/// The rows of all passes without their padding.
///
/// # Shapes
/// `x [padded rows, width]`, result `[rows, width]`.
pub(crate) fn unpad(x: HiddenStates, passes: &[Pass<'_>]) -> HiddenStates {
    if passes.iter().all(|pass| pass.rows() == pass.padded_rows()) {
        return x;
    }
    let mut start = 0;
    let rows_of = |pass: &Pass<'_>| {
        let rows = x.narrow(start, pass.rows());
        start += pass.padded_rows();
        rows
    };
    HiddenStates::concat(&passes.iter().map(rows_of).collect::<Vec<_>>())
}

/// One sequence's rows on the CPU.
struct Sequence<'a> {
    pass: &'a Pass<'a>,
    kv: &'a mut LayerKv,
    /// `[rows, queries, keys and values]`.
    qkv: &'a [f32],
    /// Room for its rotated queries and a row of keys.
    rotated: &'a mut [f32],
    /// `[rows, heads · head_dim]`.
    out: &'a mut [f32],
}

#[derive(Debug)]
pub(crate) struct Attention {
    qkv: Linear,
    /// Norms on query and key heads.
    head_norms: Option<(Norm, Norm)>,
    o: Linear,
    spec: AttentionSpec,
    /// Terms of the scores by distance.
    bias: Option<Arc<PositionBias>>,
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
            true => Some((Norm::load(loader, &names.q_norm, false)?, Norm::load(loader, &names.k_norm, false)?)),
            false => None,
        };
        let spec = AttentionSpec {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            scale: config.attention_scale,
            soft_cap: config.attention_soft_cap,
            window: config.windows.get(layer).copied().flatten(),
        };
        Ok(Self {
            qkv: loader.linear(&names.qkv, config.qkv_bias)?,
            head_norms,
            o: loader.linear(std::slice::from_ref(&names.o), config.o_bias)?,
            spec,
            bias: None,
            norm_eps: config.norm_eps,
        })
    }

    /// With terms of the scores by distance, which all layers of a stack share.
    pub fn biased(self, bias: Option<Arc<PositionBias>>) -> Self {
        Self { bias, ..self }
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        self.qkv.bytes() + self.o.bytes()
    }

    /// Attention of the uncommitted rows, sequence after sequence. Their keys and values are written to the caches.
    ///
    /// # Shapes
    /// `x [rows, width]` with the rows of all passes, result `[rows, d]`.
    pub fn forward(&self, x: &HiddenStates, passes: &[Pass<'_>], kvs: &mut [&mut LayerKv]) -> LinearOutput {
        let mixed = match x {
            HiddenStates::Device(x) => self.mix_on_device(&self.qkv.product(x), passes, kvs),
            x => self.mix_on_host(&self.qkv.forward(x).into_values(), passes, kvs),
        };
        self.o.output(&mixed)
    }

    /// The mixed values of all sequences on the CPU.
    ///
    /// # Shapes
    /// `qkv [rows, (heads + 2 · kv_heads) · head_dim]`, result `[rows, heads · head_dim]`.
    fn mix_on_host(&self, qkv: &[f32], passes: &[Pass<'_>], kvs: &mut [&mut LayerKv]) -> HiddenStates {
        let (q_width, kv_width) = (self.spec.heads * self.spec.head_dim, self.spec.kv_heads * self.spec.head_dim);
        let rows = qkv.len() / (q_width + 2 * kv_width);
        let mut out = PooledVec::unset(rows * q_width);
        let mut rotated = PooledVec::unset(rows * q_width + passes.len() * kv_width);
        match (passes, kvs) {
            ([pass], [kv]) => self.mix_sequence(Sequence { pass, kv, qkv, rotated: &mut rotated, out: &mut out }),
            (passes, kvs) => self.mix_sequences(passes, kvs, qkv, &mut rotated, &mut out),
        }
        HiddenStates::Host { values: out, width: q_width }
    }

    /// The mixed values of all sequences on a GPU. `qkv` is without its bias.
    ///
    /// # Shapes
    /// `qkv [1, rows, (heads + 2 · kv_heads) · head_dim]`, result `[rows, heads · head_dim]`.
    fn mix_on_device(&self, qkv: &PartialSums, passes: &[Pass<'_>], kvs: &mut [&mut LayerKv]) -> HiddenStates {
        let (q, places) = self.place_on_device(qkv, passes, kvs.iter().map(|kv| &**kv));
        let mixed = tree_attention::attend_cached(&self.spec, &q, &places.caches, places.layer, &places.tables);
        HiddenStates::on_device(mixed)
    }

    /// Several sequences' rows, side by side.
    fn mix_sequences(
        &self,
        passes: &[Pass<'_>],
        kvs: &mut [&mut LayerKv],
        qkv: &[f32],
        rotated: &mut [f32],
        out: &mut [f32],
    ) {
        let (q_width, kv_width) = (self.spec.heads * self.spec.head_dim, self.spec.kv_heads * self.spec.head_dim);
        let (mut qkv, mut rotated, mut out, mut parts) = (qkv, rotated, out, vec![]);
        for (pass, kv) in passes.iter().zip(kvs) {
            let rows = pass.rows();
            let (mine, space, to);
            (mine, qkv) = qkv.split_at(rows * (q_width + 2 * kv_width));
            (space, rotated) = rotated.split_at_mut(rows * q_width + kv_width);
            (to, out) = out.split_at_mut(rows * q_width);
            parts.push(Some(Sequence { pass, kv, qkv: mine, rotated: space, out: to }));
        }
        // The team is at work for the sequences, so each of them is one thread's.
        let work = 2 * q_width * passes.iter().map(Pass::pairs).sum::<usize>();
        team::each(&mut parts, work, |sequence| {
            if let Some(sequence) = sequence.take() {
                self.mix_sequence(sequence);
            }
        });
    }

    fn mix_sequence(&self, sequence: Sequence<'_>) {
        let Sequence { pass, kv, qkv, rotated, out } = sequence;
        let (Pass::Host { rows, rope: table, .. }, LayerKv::Host(kv)) = (pass, kv) else {
            unreachable!("a pass is made for the device its cache lives on")
        };
        self.place_rows(rows, table, qkv, rotated, kv);
        let biased = (&self.spec, self.bias.as_deref());
        tree_attention::attend_biased(Isa::detect(), biased, &rotated[..out.len()], kv, rows, out);
    }

    /// Writes the rows' keys and values to a cache. `rotated` takes the rotated queries and has room for a row of keys.
    fn place_rows(&self, rows: &PassRows<'_>, table: &RopeTable, qkv: &[f32], rotated: &mut [f32], kv: &mut HostKv) {
        let (isa, d) = (Isa::detect(), self.spec.head_dim);
        let (q_width, kv_width) = (self.spec.heads * d, self.spec.kv_heads * d);
        let (queries, keys) = rotated.split_at_mut(rotated.len() - kv_width);
        let first = rows.first_slot();
        for (row, qkv) in qkv.chunks_exact(q_width + 2 * kv_width).enumerate() {
            let (q, kv_row) = qkv.split_at(q_width);
            let (k, v) = kv_row.split_at(kv_width);
            let query = &mut queries[row * q_width..(row + 1) * q_width];
            match &self.head_norms {
                Some((q_norm, k_norm)) => {
                    q_norm.rows(q, self.norm_eps, query);
                    k_norm.rows(k, self.norm_eps, keys);
                }
                None => {
                    query.copy_from_slice(q);
                    keys.copy_from_slice(k);
                }
            }
            let (cos, sin) = table.at(rows.position(row));
            rope::rotate_heads(isa, query, d, cos, sin);
            rope::rotate_heads(isa, keys, d, cos, sin);
            kv.write(first + row, keys, v);
        }
        kv.keep_query(&queries[(rows.mask.rows() - 1) * q_width..rows.mask.rows() * q_width]);
    }

    /// Keys and values of rows that nothing attends from yet, written to a cache.
    ///
    /// # Shapes
    /// `x [rows, width]` with the rows of the pass.
    pub fn place(&self, x: &HiddenStates, pass: &Pass<'_>, kv: &mut LayerKv) {
        match (x, pass, kv) {
            (HiddenStates::Device(x), pass, kv) => {
                self.place_on_device(&self.qkv.product(x), std::slice::from_ref(pass), std::iter::once(&*kv));
            }
            (x, Pass::Host { rows, rope, .. }, LayerKv::Host(kv)) => {
                let values = self.qkv.forward(x).into_values();
                let kv_width = self.spec.kv_heads * self.spec.head_dim;
                let wide = self.spec.heads * self.spec.head_dim * rows.mask.rows();
                self.place_rows(rows, rope, &values, &mut PooledVec::unset(wide + kv_width), kv);
            }
            (HiddenStates::Host { .. }, ..) => unreachable!("a pass is made for the device its cache lives on"),
        }
    }

    /// Writes the rows' keys and values to the caches; the rotated queries, and where they attend to. `qkv` is without
    /// its bias.
    fn place_on_device<'a>(
        &self,
        qkv: &PartialSums,
        passes: &'a [Pass<'_>],
        kvs: impl Iterator<Item = &'a LayerKv>,
    ) -> (Tensor<3>, Places<'a>) {
        let places = Places::new(passes, kvs);
        let norms = self.head_norms.as_ref().map(|(q, k)| (q.weight(), k.weight(), self.norm_eps));
        let placing = Placing { spec: &self.spec, bias: self.qkv.bias(), norms, angles: places.angles };
        (cache_rows::place(&placing, qkv, &places.caches, places.layer, &places.tables), places)
    }
}

/// The caches and tables of some sequences on a GPU.
struct Places<'a> {
    caches: SmallVec<[&'a Tensor<4>; 1]>,
    tables: SmallVec<[&'a PassTable; 1]>,
    /// In all caches the same.
    layer: usize,
    /// Angles of rotary embeddings, of the pass with the most positions. The angles of the others are its first rows.
    angles: &'a Tensor<3>,
}

impl<'a> Places<'a> {
    fn new(passes: &'a [Pass<'_>], kvs: impl Iterator<Item = &'a LayerKv>) -> Self {
        let mut found: Option<Self> = None;
        for (pass, kv) in passes.iter().zip(kvs) {
            let (Pass::Device { pass_table, angles }, LayerKv::Device { cache, layer }) = (pass, kv) else {
                unreachable!("a pass is made for the device its cache lives on")
            };
            let none = || Self { caches: SmallVec::new(), tables: SmallVec::new(), layer: *layer, angles };
            let places = found.get_or_insert_with(none);
            places.caches.push(cache);
            places.tables.push(pass_table);
            if angles.dims()[0] > places.angles.dims()[0] {
                places.angles = angles;
            }
        }
        found.unwrap_or_else(|| unreachable!("a pass has rows of a sequence"))
    }
}
