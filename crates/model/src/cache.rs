//! The key/value cache: allocated once, written in place, guarded.
//!
//! A forward pass writes the rows in flight into the slots after the committed ones. They count only once they are
//! committed: [`KvCache::reserve`] opens the room, [`KvCache::commit`] keeps one path of it and
//! [`KvCache::roll_back`] none. A pass without a reservation, or a second reservation, is an error.

use crate::config::ModelConfig;
use crate::device::Compute;
use crate::rope::RopeTable;
use burn::tensor::{Int, Tensor, TensorData};
use gorgon_kernels::cache_rows;
use gorgon_kernels::tree_attention::HostKv;

/// Why the cache refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// No room.
    #[error("{committed} tokens and {asked} more do not fit a context of {capacity} tokens")]
    Full {
        /// Committed rows.
        committed: usize,
        /// Rows asked for.
        asked: usize,
        /// Rows in all.
        capacity: usize,
    },
    /// A reservation is still open.
    #[error("{0} rows are reserved and neither committed nor rolled back")]
    Reserved(usize),
    /// A commit without a reservation.
    #[error("no rows are reserved")]
    NotReserved,
    /// A path that is no strictly increasing list of reserved rows.
    #[error("path {path:?} is no increasing list of rows below {reserved}")]
    Path {
        /// The path.
        path: Vec<usize>,
        /// Reserved rows.
        reserved: usize,
    },
}

/// One layer's keys and values.
#[derive(Clone, Debug)]
pub(crate) enum LayerKv {
    /// On the CPU.
    Host(HostKv),
    /// Elsewhere: a layer of the one tensor that all layers share.
    Device { cache: Tensor<4>, layer: usize },
}

/// What a cache has on a device other than the CPU, made once and written in place.
#[derive(Debug)]
struct OnDevice {
    /// All layers, `[2 · layers, kv_heads, capacity, head_dim]`: keys of layer `l` at `2 l`, values at `2 l + 1`.
    rows: Tensor<4>,
    /// Cosines and sines of every position, `[capacity, 2, rotary_dim / 2]`.
    angles: Tensor<3>,
}

/// Where the angles of positions are found.
pub(crate) enum Place<'a> {
    /// On the CPU.
    Host(&'a RopeTable),
    /// Elsewhere.
    Device(&'a Tensor<3>),
}

/// Keys and values of all layers for one sequence.
#[derive(Debug)]
pub struct KvCache {
    pub(crate) layers: Vec<LayerKv>,
    /// Angles of every position there is room for.
    rope: RopeTable,
    on_device: Option<OnDevice>,
    capacity: usize,
    committed: usize,
    reserved: Option<usize>,
    compute: Compute,
}

impl KvCache {
    /// Room for `capacity` positions.
    pub fn new(config: &ModelConfig, compute: &Compute, capacity: usize) -> Self {
        let rope = RopeTable::new(&config.rope, capacity);
        let on_device = (!compute.is_host()).then(|| OnDevice::new(config, compute, capacity, &rope));
        let layer = |layer| match &on_device {
            None => LayerKv::Host(HostKv::new(config.kv_heads, capacity, config.head_dim)),
            Some(on_device) => LayerKv::Device { cache: on_device.rows.clone(), layer },
        };
        let layers = (0..config.layers).map(layer).collect();
        Self { layers, rope, on_device, capacity, committed: 0, reserved: None, compute: compute.clone() }
    }

    /// The layers, and where positions' angles are found.
    pub(crate) fn parts(&mut self) -> (&mut [LayerKv], Place<'_>) {
        let place = match &self.on_device {
            None => Place::Host(&self.rope),
            Some(on_device) => Place::Device(&on_device.angles),
        };
        (&mut self.layers, place)
    }

    /// Bytes that a cache of `capacity` positions takes, its table of angles included.
    pub fn bytes(config: &ModelConfig, compute: &Compute, capacity: usize) -> u128 {
        let size = if compute.is_host() { 4 } else { compute.format().bytes() } as u128;
        let row = 2 * (config.layers * config.kv_heads) as u128 * config.head_dim as u128 * size;
        (row + 4 * config.rope.rotary_dim as u128) * capacity as u128
    }

    /// Committed rows.
    pub fn len(&self) -> usize {
        self.committed
    }

    /// True before the first commit.
    pub fn is_empty(&self) -> bool {
        self.committed == 0
    }

    /// Rows in all.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Rows in flight, if there are any.
    pub fn reserved(&self) -> Option<usize> {
        self.reserved
    }

    /// Opens room for `rows` rows in flight.
    ///
    /// # Errors
    /// When rows are already in flight or the cache is full.
    pub fn reserve(&mut self, rows: usize) -> Result<(), CacheError> {
        if let Some(open) = self.reserved {
            return Err(CacheError::Reserved(open));
        }
        if self.committed + rows > self.capacity {
            let (committed, capacity) = (self.committed, self.capacity);
            return Err(CacheError::Full { committed, asked: rows, capacity });
        }
        self.reserved = Some(rows);
        Ok(())
    }

    /// Opens room for `rows` more rows in flight, beside those that are.
    ///
    /// # Errors
    /// When the cache is full.
    pub fn extend_reservation(&mut self, rows: usize) -> Result<(), CacheError> {
        let open = self.reserved.take().unwrap_or(0);
        let widened = self.reserve(open + rows);
        if widened.is_err() {
            self.reserved = Some(open).filter(|&open| open > 0);
        }
        widened
    }

    /// Makes room for `rows` more rows: a cache that is too small for them is replaced by one of at least twice its
    /// size, committed rows and rows in flight included. `config` is the one it was made for.
    pub fn grow(&mut self, rows: usize, config: &ModelConfig) {
        let needed = self.committed + self.reserved.unwrap_or(0) + rows;
        if needed <= self.capacity {
            return;
        }
        let mut grown = Self::new(config, &self.compute, needed.max(2 * self.capacity));
        if let (Some(to), Some(from)) = (&mut grown.on_device, &self.on_device) {
            *to = to.filled_from(from, &mut grown.layers);
        }
        for (to, from) in grown.layers.iter_mut().zip(&self.layers) {
            if let (LayerKv::Host(to), LayerKv::Host(from)) = (to, from) {
                *to = from.grown(grown.capacity);
            }
        }
        (grown.committed, grown.reserved) = (self.committed, self.reserved);
        *self = grown;
    }

    /// Keeps the rows of `path` (row numbers within the reservation, increasing), gathered to be contiguous, and drops
    /// the others.
    ///
    /// # Errors
    /// When nothing is in flight or the path is none of its.
    pub fn commit(&mut self, path: &[usize]) -> Result<(), CacheError> {
        let reserved = self.reserved.ok_or(CacheError::NotReserved)?;
        let increasing = path.windows(2).all(|pair| pair[0] < pair[1]);
        if !increasing || path.last().is_some_and(|&last| last >= reserved) {
            return Err(CacheError::Path { path: path.into(), reserved });
        }
        // The part of the path that already lies in place needs no copy: for a chain, all of it.
        let in_place = path.iter().enumerate().take_while(|&(i, &row)| i == row).count();
        if in_place < path.len() {
            self.gather(path, in_place);
        }
        self.committed += path.len();
        self.reserved = None;
        Ok(())
    }

    fn gather(&mut self, path: &[usize], in_place: usize) {
        let start = self.committed;
        if self.on_device.is_some() {
            let mut table = vec![start as i32, path.len() as i32];
            table.extend(path.iter().map(|&row| row as i32));
            let size = table.len();
            let table = Tensor::from_data(TensorData::new(table, [size]), self.compute.device());
            return self.keep(&table);
        }
        for layer in &mut self.layers {
            if let LayerKv::Host(kv) = layer {
                for (i, &row) in path.iter().enumerate().skip(in_place) {
                    kv.move_slot(start + row, start + i);
                }
            }
        }
    }

    /// Moves rows of a path on a GPU together, in every layer at once; the path is one of a pass that made its own
    /// table.
    pub(crate) fn keep(&self, path: &Tensor<1, Int>) {
        if let Some(on_device) = &self.on_device {
            cache_rows::gather(&on_device.rows, path);
        }
    }

    /// Takes note of the number of committed rows, of which some were committed on a GPU.
    pub(crate) fn set_len(&mut self, committed: usize) -> Result<(), CacheError> {
        if committed > self.capacity {
            let asked = committed - self.committed;
            return Err(CacheError::Full { committed: self.committed, asked, capacity: self.capacity });
        }
        (self.committed, self.reserved) = (committed, None);
        Ok(())
    }

    /// Drops the rows in flight, if there are any.
    pub fn roll_back(&mut self) {
        self.reserved = None;
    }

    /// Drops committed rows from `length` on, and the rows in flight.
    pub fn truncate(&mut self, length: usize) {
        self.reserved = None;
        self.committed = self.committed.min(length);
    }
}

impl OnDevice {
    fn new(config: &ModelConfig, compute: &Compute, capacity: usize, rope: &RopeTable) -> Self {
        let (device, shape) = (compute.device(), [2 * config.layers, config.kv_heads, capacity, config.head_dim]);
        // Made flat: a device may pad the rows of other tensors, and kernels count on none being padded.
        let size = shape.iter().product::<usize>();
        let rows = Tensor::<1>::zeros([size], (device, compute.format().tensor())).reshape(shape);
        let angles: Vec<f32> = (0..capacity).flat_map(|p| [rope.at(p).0, rope.at(p).1]).flatten().copied().collect();
        let size = angles.len();
        let angles = Tensor::<1>::from_data(TensorData::new(angles, [size]), device);
        Self { rows, angles: angles.reshape([capacity, 2, rope.half()]) }
    }

    /// The same with the rows of a smaller cache in front; `layers` are this one's.
    fn filled_from(&self, from: &Self, layers: &mut [LayerKv]) -> Self {
        let shape = self.rows.dims();
        let held = from.rows.dims()[2];
        let rest = self.rows.clone().narrow(2, held, shape[2] - held);
        let rows =
            Tensor::cat(vec![from.rows.clone(), rest], 2).reshape([shape.iter().product::<usize>()]).reshape(shape);
        for layer in layers {
            if let LayerKv::Device { cache, .. } = layer {
                *cache = rows.clone();
            }
        }
        Self { rows, angles: self.angles.clone() }
    }
}

#[cfg(test)]
mod tests;
