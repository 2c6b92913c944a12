//! The key/value cache: it grows in steps, is written in place, and guards its rows.
//!
//! A forward pass writes its rows into the slots after the committed ones. They count only once they are committed:
//! [`KvCache::reserve`] opens slots for them, [`KvCache::commit`] keeps one path of them and [`KvCache::roll_back`]
//! none. A pass without a reservation, or a second reservation, is an error.

mod copied;
mod error;
mod on_device;
mod retrieved;
mod streaming;
mod uncommitted;

use crate::config::ModelConfig;
use crate::device::Compute;
use crate::rope::Rope;
use crate::source::EncodedSource;
use crate::stages::Stage;
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_kernels::tree_attention::{AttentionMask, HostKv};
use on_device::{OnDevice, grown};
use std::ops::Range;
use std::sync::Arc;
use uncommitted::Uncommitted;

pub use error::CacheError;
pub use retrieved::{Picked, Retrieval, RetrievedCache};

/// Rows that memory is allocated in multiples of.
const STEP: usize = 16;

/// One layer's keys and values.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one for each layer")]
pub(crate) enum LayerKv {
    /// On the CPU.
    Host(HostKv),
    /// Elsewhere: a layer of the one tensor that all layers of a stage share.
    Device { cache: Tensor<4>, layer: usize },
}

impl LayerKv {
    /// All layers on devices other than the CPU.
    fn of(on_device: &OnDevice) -> Vec<Self> {
        on_device.layers().map(|(cache, layer)| Self::Device { cache, layer }).collect()
    }
}

/// A cache as a pass reads it.
pub(crate) struct CacheView<'a> {
    /// Committed rows.
    pub prefix: usize,
    /// Rows there is memory for.
    pub capacity: usize,
    /// The rotary embedding.
    pub rope: &'a Rope,
    /// Its angles on a device other than the CPU.
    pub angles: Option<&'a Tensor<3>>,
    /// The source that was read.
    pub source: Option<&'a EncodedSource>,
    /// Positions of the uncommitted rows, where passes gave some.
    pub positions: Option<&'a [usize]>,
}

/// Keys and values of all layers for one sequence.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<LayerKv>,
    /// Devices with their layers.
    stages: Arc<[Stage]>,
    /// Key/value heads, size of a head.
    heads: [usize; 2],
    rope: Arc<Rope>,
    on_device: Option<OnDevice>,
    /// Tokens that can be committed.
    context: usize,
    /// Where doubling ends.
    longest: usize,
    capacity: usize,
    committed: usize,
    /// The source that was read last; it counts as text while `source_tokens` says so.
    source: Option<Arc<EncodedSource>>,
    source_tokens: usize,
    reserved: Option<usize>,
    uncommitted: Uncommitted,
    compute: Compute,
}

impl KvCache {
    /// A cache in which `context` tokens can be committed, with memory for `rows` rows.
    pub(crate) fn new(config: &ModelConfig, compute: &Compute, rope: &Arc<Rope>, context: usize, rows: usize) -> Self {
        Self::over(Stage::whole(config.layers, compute), config, compute, rope, (context, rows))
    }

    /// As [`Self::new`], with layers on the devices of `stages`.
    pub(crate) fn over(
        stages: Arc<[Stage]>,
        config: &ModelConfig,
        compute: &Compute,
        rope: &Arc<Rope>,
        (context, rows): (usize, usize),
    ) -> Self {
        let on_host = || LayerKv::Host(HostKv::new(config.kv_heads, 0, config.head_dim));
        let host_layers = if compute.is_host() { config.layers } else { 0 };
        let mut cache = Self {
            layers: (0..host_layers).map(|_| on_host()).collect(),
            stages,
            heads: [config.kv_heads, config.head_dim],
            rope: rope.clone(),
            on_device: None,
            context,
            longest: config.max_positions,
            capacity: 0,
            committed: 0,
            source: None,
            source_tokens: 0,
            reserved: None,
            uncommitted: Uncommitted::default(),
            compute: compute.clone(),
        };
        cache.allocate(rows);
        cache
    }

    /// The layers, and the rest as a pass reads it.
    pub(crate) fn parts(&mut self) -> (&mut [LayerKv], CacheView<'_>) {
        let view = CacheView {
            prefix: self.committed,
            capacity: self.capacity,
            rope: &self.rope,
            angles: self.on_device.as_ref().map(|on_device| &on_device.angles),
            source: self.source.as_deref().filter(|_| self.source_tokens > 0),
            positions: self.uncommitted.positions(),
        };
        (&mut self.layers, view)
    }

    /// Bytes of a cache with memory for `rows` rows, and of the angles of as many positions, which the caches of a
    /// decoder share.
    pub fn bytes(config: &ModelConfig, compute: &Compute, rows: usize) -> u128 {
        let size = if compute.is_host() { 4 } else { compute.format().bytes() } as u128;
        let row = 2 * (config.layers * config.kv_heads) as u128 * config.head_dim as u128 * size;
        // A source has keys and values too.
        let row = if config.encoder.is_some() { 2 * row } else { row };
        (row + 4 * config.rope.rotary_dim as u128) * rows.next_multiple_of(STEP) as u128
    }

    /// Committed tokens, those of a source included.
    pub fn len(&self) -> usize {
        self.source_tokens + self.committed
    }

    /// True before the first commit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens that can be committed, those of a source included.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The source that was read, if it counts as text.
    pub fn source(&self) -> Option<&Arc<EncodedSource>> {
        self.source.as_ref().filter(|_| self.source_tokens > 0)
    }

    /// Forgets the text and begins with a source: the one that `encode` makes, unless it is the one that was read last.
    pub(crate) fn begin_source(&mut self, tokens: &[u32], encode: impl FnOnce() -> EncodedSource) -> &EncodedSource {
        self.truncate(0);
        let known = self.source.take().filter(|source| source.tokens() == tokens);
        self.source_tokens = tokens.len();
        self.source.insert(known.unwrap_or_else(|| Arc::new(encode())))
    }

    /// Rows there is memory for. It grows where more are reserved.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Uncommitted rows, if there are any.
    pub fn reserved(&self) -> Option<usize> {
        self.reserved
    }

    /// Opens `rows` rows after the committed ones. They may reach beyond the context.
    ///
    /// # Errors
    /// When there are uncommitted rows.
    pub fn reserve(&mut self, rows: usize) -> Result<(), CacheError> {
        if let Some(open) = self.reserved {
            return Err(CacheError::Reserved(open));
        }
        self.open(rows);
        Ok(())
    }

    /// Opens `rows` more rows after the uncommitted ones, if there are any.
    pub fn extend_reservation(&mut self, rows: usize) {
        self.open(self.reserved.unwrap_or(0) + rows);
    }

    /// Opens `open` rows in all. A cache that is too small for them doubles, but not beyond the context. Past the
    /// context there is room for as many rows as are open, so that a tree at its end does not move it at every step.
    fn open(&mut self, open: usize) {
        let (needed, limit) = (self.committed + open, self.context.min(self.longest));
        if needed > self.capacity {
            let ahead = if needed <= limit { (2 * self.capacity).min(limit) } else { limit + open };
            self.allocate(needed.max(ahead));
        }
        self.reserved = Some(open);
    }

    /// Goes back to a number of reserved rows after a pass that failed.
    pub(crate) fn restore(&mut self, reserved: Option<usize>) {
        self.reserved = reserved;
        self.uncommitted.truncate(reserved.unwrap_or(0));
    }

    /// Makes room for `rows` rows beyond those that are committed or reserved: exactly so many, so that nothing is
    /// copied until they are used up. Without it a cache grows when rows are reserved.
    pub fn grow(&mut self, rows: usize) {
        let needed = self.committed + self.reserved.unwrap_or(0) + rows;
        if needed > self.capacity {
            self.allocate(needed);
        }
    }

    /// Makes room for `capacity` rows. On the CPU layers are moved one by one, so that two copies of one layer are the
    /// most there ever are. Elsewhere the layers of a stage are one tensor, which a larger one replaces.
    fn allocate(&mut self, capacity: usize) {
        let capacity = capacity.next_multiple_of(STEP);
        if self.compute.is_host() {
            self.rope.table().reserve(capacity);
            for layer in &mut self.layers {
                if let LayerKv::Host(kv) = layer {
                    kv.grow(capacity);
                }
            }
            self.capacity = capacity;
        } else {
            self.allocate_on_device(capacity.max(STEP));
        }
    }

    fn allocate_on_device(&mut self, capacity: usize) {
        let size = (capacity, self.compute.format().tensor());
        let held = |stage: usize| self.on_device.as_ref().map(|held| &held.rows[stage]);
        let rows = self.stages.iter().enumerate().map(|(i, stage)| grown(stage, self.heads, size, held(i))).collect();
        let on_device = OnDevice { rows, angles: self.rope.on_device(capacity, self.compute.device()) };
        self.layers = LayerKv::of(&on_device);
        self.on_device = Some(on_device);
        self.capacity = capacity;
    }

    /// Fails unless the rows of a pass are reserved: the last ones for a pass that begins at the first layer, any that
    /// have run the layers before for one that resumes. Rows that it sees must have run its layers too.
    pub(crate) fn check(&self, mask: &AttentionMask, layers: &Range<usize>, partial: bool) -> Result<(), CacheError> {
        let (rows, reserved) = (mask.uncommitted(), self.reserved.ok_or(CacheError::NotReserved)?);
        let fits = if layers.start == 0 { rows == reserved } else { rows <= reserved };
        if !fits {
            return Err(CacheError::Rows { rows, reserved });
        }
        self.uncommitted.check_pass(mask, layers, partial)
    }

    /// Takes note of the rows of a pass: their positions, the layers that run on them, and whether sub-layers are left
    /// out.
    pub(crate) fn begin(
        &mut self,
        mask: &AttentionMask,
        positions: Option<&[usize]>,
        layers: &Range<usize>,
        partial: bool,
    ) {
        self.uncommitted.begin(mask, positions, layers, partial);
    }

    /// Keeps the rows of `path` (row numbers within the reservation, increasing), gathered to be contiguous, and drops
    /// the others.
    ///
    /// # Errors
    /// When nothing is uncommitted, the path is no list of uncommitted rows, or its tokens do not fit the context.
    /// Nothing changes then.
    pub fn commit(&mut self, path: &[usize]) -> Result<(), CacheError> {
        self.check_path(path)?;
        self.check_context(path.len())?;
        self.uncommitted.check_path(path, self.layers.len())?;
        self.keep(path);
        Ok(())
    }

    /// Fails unless a path is an increasing list of uncommitted rows.
    fn check_path(&self, path: &[usize]) -> Result<(), CacheError> {
        let reserved = self.reserved.ok_or(CacheError::NotReserved)?;
        let increasing = path.windows(2).all(|pair| pair[0] < pair[1]);
        match !increasing || path.last().is_some_and(|&last| last >= reserved) {
            true => Err(CacheError::Path { path: path.into(), reserved }),
            false => Ok(()),
        }
    }

    /// Keeps the rows of a path that was checked.
    fn keep(&mut self, path: &[usize]) {
        // The part of the path that already lies in place needs no copy: for a chain, all of it.
        let in_place = path.iter().enumerate().take_while(|&(i, &row)| i == row).count();
        if in_place < path.len() {
            self.gather(path, in_place);
        }
        self.committed += path.len();
        self.roll_back();
    }

    /// Fails unless so many more tokens can be committed.
    pub(crate) fn check_context(&self, requested: usize) -> Result<(), CacheError> {
        let (committed, context) = (self.len(), self.context);
        match context.saturating_sub(committed) < requested {
            true => Err(CacheError::Full { committed, requested, context }),
            false => Ok(()),
        }
    }

    fn gather(&mut self, path: &[usize], in_place: usize) {
        let start = self.committed;
        if self.on_device.is_some() {
            let mut table = vec![start as i32, path.len() as i32];
            table.extend(path.iter().map(|&row| row as i32));
            let size = table.len();
            let table = Tensor::from_data(TensorData::new(table, [size]), self.compute.device());
            return self.compact(&table);
        }
        for layer in &mut self.layers {
            if let LayerKv::Host(kv) = layer {
                for (i, &row) in path.iter().enumerate().skip(in_place) {
                    kv.move_slot(start + row, start + i);
                }
            }
        }
    }

    /// Moves the rows of a path on a GPU together, in every layer at once; the path is one of a pass that made its own
    /// table.
    pub(crate) fn compact(&self, path: &Tensor<1, Int>) {
        if let Some(on_device) = &self.on_device {
            on_device.compact(path);
        }
    }

    /// Sets the number of committed rows after commits on a GPU. Fails where there is no room for so many.
    pub fn set_len(&mut self, committed: usize) -> Result<(), CacheError> {
        let context = self.context.min(self.capacity);
        if committed > context {
            let requested = committed.saturating_sub(self.committed);
            return Err(CacheError::Full { committed: self.committed, requested, context });
        }
        self.committed = committed;
        self.roll_back();
        Ok(())
    }

    /// Drops the uncommitted rows, if there are any.
    pub fn roll_back(&mut self) {
        self.restore(None);
    }

    /// A cache of its own with a copy of the first `length` committed tokens.
    #[must_use]
    pub fn copied(&self, length: usize) -> Self {
        let on_device = self.on_device.as_ref().map(OnDevice::copied);
        let layers = on_device.as_ref().map_or_else(|| self.layers.clone(), LayerKv::of);
        let mut copy = Self {
            layers,
            on_device,
            stages: self.stages.clone(),
            rope: self.rope.clone(),
            source: self.source.clone(),
            reserved: None,
            uncommitted: Uncommitted::default(),
            compute: self.compute.clone(),
            ..*self
        };
        copy.truncate(length);
        copy
    }

    /// Drops committed tokens from `length` on, and the uncommitted rows. A source is dropped as a whole.
    pub fn truncate(&mut self, length: usize) {
        self.roll_back();
        if length < self.source_tokens {
            self.source_tokens = 0;
            self.committed = 0;
        }
        self.committed = self.committed.min(length - self.source_tokens);
    }
}

#[cfg(test)]
mod tests;
