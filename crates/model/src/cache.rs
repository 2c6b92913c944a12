//! The key/value cache: allocated once, written in place, guarded.
//!
//! A forward pass writes the rows in flight into the slots after the committed ones. They count only once they are
//! committed: [`KvCache::reserve`] opens the room, [`KvCache::commit`] keeps one path of it and
//! [`KvCache::roll_back`] none. A pass without a reservation, or a second reservation, is an error.

use crate::config::ModelConfig;
use crate::device::Compute;
use crate::rope::RopeTable;
use burn::tensor::{Int, Tensor, TensorData};
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
#[expect(clippy::large_enum_variant, reason = "a handful per layer, never moved while decoding")]
#[derive(Clone, Debug)]
pub(crate) enum LayerKv {
    /// On the CPU.
    Host(HostKv),
    /// Elsewhere, `[1, kv_heads, capacity, head_dim]` each.
    Device { keys: Tensor<4>, values: Tensor<4> },
}

/// Keys and values of all layers for one sequence.
#[derive(Debug)]
pub struct KvCache {
    pub(crate) layers: Vec<LayerKv>,
    /// Angles of every position there is room for.
    pub(crate) rope: RopeTable,
    capacity: usize,
    committed: usize,
    reserved: Option<usize>,
    compute: Compute,
}

impl KvCache {
    /// Room for `capacity` positions.
    pub fn new(config: &ModelConfig, compute: &Compute, capacity: usize) -> Self {
        let layer = || {
            if compute.is_host() {
                return LayerKv::Host(HostKv::new(config.kv_heads, capacity, config.head_dim));
            }
            let shape = [1, config.kv_heads, capacity, config.head_dim];
            let zeros = || Tensor::zeros(shape, (compute.device(), compute.format().tensor()));
            LayerKv::Device { keys: zeros(), values: zeros() }
        };
        let layers = (0..config.layers).map(|_| layer()).collect();
        let rope = RopeTable::new(&config.rope, capacity);
        Self { layers, rope, capacity, committed: 0, reserved: None, compute: compute.clone() }
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
    pub fn widen(&mut self, rows: usize) -> Result<(), CacheError> {
        let open = self.reserved.take().unwrap_or(0);
        let widened = self.reserve(open + rows);
        if widened.is_err() {
            self.reserved = Some(open).filter(|&open| open > 0);
        }
        widened
    }

    /// Makes room for `rows` more rows: a cache that is too small for them is replaced by one of at least twice its size,
    /// committed rows and rows in flight included. `config` is the one it was made for.
    pub fn make_room(&mut self, rows: usize, config: &ModelConfig) {
        let needed = self.committed + self.reserved.unwrap_or(0) + rows;
        if needed <= self.capacity {
            return;
        }
        let mut grown = Self::new(config, &self.compute, needed.max(2 * self.capacity));
        for (to, from) in grown.layers.iter_mut().zip(&self.layers) {
            match (to, from) {
                (LayerKv::Host(to), LayerKv::Host(from)) => *to = from.grown(grown.capacity),
                (LayerKv::Device { keys, values }, LayerKv::Device { keys: old_keys, values: old_values }) => {
                    write_rows(keys, old_keys.clone(), 0);
                    write_rows(values, old_values.clone(), 0);
                }
                _ => unreachable!("both are caches of one device"),
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
        let moved = &path[in_place..];
        let index: Vec<i32> = moved.iter().map(|&row| (start + row) as i32).collect();
        let index = (!self.compute.is_host())
            .then(|| Tensor::<1, Int>::from_data(TensorData::new(index, [moved.len()]), self.compute.device()));
        for layer in &mut self.layers {
            match (layer, &index) {
                (LayerKv::Host(kv), _) => {
                    for (i, &row) in path.iter().enumerate().skip(in_place) {
                        kv.move_slot(start + row, start + i);
                    }
                }
                (LayerKv::Device { keys, values }, Some(index)) => {
                    for cache in [keys, values] {
                        let rows = cache.clone().select(2, index.clone());
                        write_rows(cache, rows, start + in_place);
                    }
                }
                (LayerKv::Device { .. }, None) => {}
            }
        }
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

/// Writes `rows [1, kv_heads, n, head_dim]` at slot `start`, in place.
pub(crate) fn write_rows(cache: &mut Tensor<4>, rows: Tensor<4>, start: usize) {
    let [b, h, n, d] = rows.dims();
    cache.inplace(|cache| cache.slice_assign([0..b, 0..h, start..start + n, 0..d], rows));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::FloatFormat;
    use crate::random::LlamaShape;

    fn config() -> ModelConfig {
        let shape = LlamaShape {
            hidden_size: 8,
            intermediate_size: 8,
            layers: 1,
            heads: 2,
            kv_heads: 1,
            vocab_size: 300,
            max_positions: 64,
        };
        ModelConfig::from_json(&shape.config(FloatFormat::F32)).unwrap()
    }

    fn cache(capacity: usize) -> KvCache {
        KvCache::new(&config(), &Compute::cpu(FloatFormat::F32), capacity)
    }

    #[test]
    fn only_committed_rows_count() {
        let mut cache = cache(10);
        cache.reserve(6).unwrap();
        assert_eq!((cache.len(), cache.reserved()), (0, Some(6)));
        cache.commit(&[0, 2, 5]).unwrap();
        assert_eq!((cache.len(), cache.reserved()), (3, None));
        cache.reserve(7).unwrap();
        cache.roll_back();
        assert_eq!((cache.len(), cache.reserved()), (3, None));
        cache.truncate(1);
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn room_is_made_and_reservations_are_widened() {
        let mut cache = cache(4);
        cache.reserve(2).unwrap();
        cache.commit(&[0, 1]).unwrap();
        cache.widen(2).unwrap();
        assert_eq!(cache.reserved(), Some(2));
        assert_eq!(cache.widen(1), Err(CacheError::Full { committed: 2, asked: 3, capacity: 4 }));
        assert_eq!(cache.reserved(), Some(2));
        if let LayerKv::Host(kv) = &mut cache.layers[0] {
            kv.write(3, &[7.0; 4], &[8.0; 4]);
        }
        cache.make_room(1, &config());
        assert_eq!((cache.len(), cache.reserved(), cache.capacity()), (2, Some(2), 8));
        cache.widen(1).unwrap();
        let LayerKv::Host(kv) = &cache.layers[0] else { panic!("a CPU cache") };
        assert_eq!((kv.key(0, 3), kv.value(0, 3)), (vec![7.0; 4], &[8.0; 4][..]));
        assert_eq!(kv.key(0, 4), [0.0; 4]);
    }

    #[test]
    fn misuse_is_an_error_and_changes_nothing() {
        let mut cache = cache(8);
        assert_eq!(cache.commit(&[0]), Err(CacheError::NotReserved));
        assert_eq!(cache.reserve(9), Err(CacheError::Full { committed: 0, asked: 9, capacity: 8 }));
        cache.reserve(4).unwrap();
        assert_eq!(cache.reserve(1), Err(CacheError::Reserved(4)));
        for path in [vec![0, 0], vec![2, 1], vec![4]] {
            assert_eq!(cache.commit(&path), Err(CacheError::Path { path, reserved: 4 }));
            assert_eq!((cache.len(), cache.reserved()), (0, Some(4)));
        }
        cache.commit(&[]).unwrap();
        assert!(cache.is_empty());
    }
}
