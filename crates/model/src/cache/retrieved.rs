//! A part of a cache that is read instead of the whole: the retrieval cache of TriForce (Sun et al., 2024,
//! <https://arxiv.org/abs/2404.11912>).
//!
//! The committed rows of the whole cache are cut into chunks of `C`. For each layer and key/value head the score of chunk
//! `c` is `s_c = q·mean(k_c)`: `k_c` are the chunk's keys after the rotary embedding, `q` is the query of the last row
//! that was read, summed over the query heads that the key/value head serves. Kept are chunk 0, the chunks of the
//! greatest scores, and the rows behind the last whole chunk, together `B` rows at most. They keep the order of their
//! positions, and their keys are rotated already. So a part of at least as many rows as are committed is the whole
//! cache, bit for bit.
//!
//! Rows that are committed later are added while there is room. Then they overwrite the lowest-ranked rows: those of the
//! chunks in increasing order of scores, then those behind the chunks, then the rows that were added first. Those of
//! chunk 0 stay.

use super::{CacheError, KvCache, LayerKv};
use gorgon_core::accept::RandomSource;
use gorgon_core::accept::random::SeededRandom;
use gorgon_kernels::tree_attention::HostKv;

/// By what chunks are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picked {
    /// Their scores.
    Score,
    /// Chance: what scores are measured against.
    Random(u64),
}

/// How much is retrieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrieval {
    /// Rows of the part at most, B; at least two chunks.
    pub rows: usize,
    /// Rows of a chunk, C.
    pub chunk: usize,
    /// By what chunks are picked.
    pub picked: Picked,
}

impl Retrieval {
    /// Chunks that are kept of `committed` rows, chunk 0 among them, and the rows behind the last whole chunk.
    fn kept(&self, committed: usize) -> (usize, usize) {
        let (chunks, behind) = (committed / self.chunk, committed % self.chunk);
        ((self.rows.saturating_sub(behind) / self.chunk).min(chunks), behind)
    }

    /// The chunks of a head that are kept beside chunk 0, the best first.
    fn best(&self, kv: &HostKv, kv_head: usize, committed: usize, random: &mut dyn RandomSource) -> Vec<usize> {
        let (kept, chunks) = (self.kept(committed).0, committed / self.chunk);
        let mean = |scores: &[f32]| scores.iter().map(|&score| f64::from(score)).sum::<f64>() / scores.len() as f64;
        let scores: Vec<f64> = match self.picked {
            Picked::Score if kv.query().is_empty() => vec![0.0; chunks],
            Picked::Score => kv.scores(kv_head, chunks * self.chunk).chunks_exact(self.chunk).map(mean).collect(),
            Picked::Random(_) => (0..chunks).map(|_| random.pick(&[1.0; 1024]) as f64).collect(),
        };
        let mut ranked: Vec<usize> = (1..chunks).collect();
        ranked.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
        ranked.truncate(kept.saturating_sub(1));
        ranked
    }
}

/// A part of a cache, with rows of its own for drafts.
#[derive(Debug)]
pub struct RetrievedCache {
    retrieval: Retrieval,
    cache: Option<KvCache>,
    /// Slots in the order in which they are overwritten, by layer and key/value head.
    order: Vec<Vec<u32>>,
    /// Place in that order of the next slot to be overwritten.
    next: usize,
    /// Committed rows of the whole cache when it was read last; 0 where a part has to be retrieved anew.
    read: usize,
    /// Rows of drafts that are kept behind the part's own.
    kept: usize,
}

impl RetrievedCache {
    /// Nothing yet.
    pub fn new(retrieval: Retrieval) -> Self {
        Self { retrieval, cache: None, order: vec![], next: 0, read: 0, kept: 0 }
    }

    /// Retrieves anew when it is brought up to date next.
    pub fn forget(&mut self) {
        self.read = 0;
    }

    /// Committed rows.
    pub fn len(&self) -> usize {
        self.cache.as_ref().map_or(0, KvCache::len)
    }

    /// True before anything was retrieved.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the rows of a path of drafts, and drops the other uncommitted ones. Later rows see them, at the positions
    /// behind them. The whole cache does not have them.
    ///
    /// # Errors
    /// When nothing was retrieved, nothing is uncommitted, or the path is no increasing list of uncommitted rows.
    pub fn keep(&mut self, path: &[usize]) -> Result<(), CacheError> {
        let cache = self.cache()?;
        cache.check_path(path)?;
        cache.keep(path);
        self.kept += path.len();
        Ok(())
    }

    /// Rows of drafts that are kept.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Drops the uncommitted rows, and those of drafts that were kept.
    pub fn roll_back(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        if let Some(cache) = &mut self.cache {
            cache.truncate(cache.len() - kept);
        }
    }

    /// Drops the uncommitted rows.
    pub fn drop_uncommitted(&mut self) {
        if let Some(cache) = &mut self.cache {
            cache.roll_back();
        }
    }

    /// Key and value of a slot of a layer and key/value head; `None` where there is none.
    pub fn row(&self, layer: usize, kv_head: usize, slot: usize) -> Option<(Vec<f32>, &[f32])> {
        match self.cache.as_ref()?.layers.get(layer)? {
            LayerKv::Host(kv) if slot < self.len() => Some((kv.key(kv_head, slot), kv.value(kv_head, slot))),
            LayerKv::Host(_) | LayerKv::Device { .. } => None,
        }
    }

    /// Rows of the whole cache that are not in the part: its next row is at that many positions behind the part's last,
    /// drafts that are kept included.
    pub(crate) fn behind(&self, whole: &KvCache) -> usize {
        (whole.len() + self.kept).saturating_sub(self.len())
    }

    /// The cache that passes run on.
    pub(crate) fn cache(&mut self) -> Result<&mut KvCache, CacheError> {
        self.cache.as_mut().ok_or(CacheError::NotReserved)
    }

    /// Brings it up to date with the committed rows of the whole cache. `empty` makes a cache of the model for so many
    /// rows.
    pub(crate) fn update(&mut self, whole: &KvCache, empty: impl Fn(usize) -> KvCache) -> Result<(), CacheError> {
        if !whole.compute.is_host() {
            return Err(CacheError::Device);
        }
        self.roll_back();
        let mut cache = self.cache.take().unwrap_or_else(|| empty(self.retrieval.rows));
        if self.read == 0 || self.read > whole.committed {
            self.select(whole, &mut cache);
        }
        for row in self.read..whole.committed {
            self.add(whole, row, &mut cache);
        }
        self.read = whole.committed;
        self.cache = Some(cache);
        Ok(())
    }

    /// Fills the part from all committed rows.
    fn select(&mut self, whole: &KvCache, cache: &mut KvCache) {
        let Retrieval { chunk, picked, .. } = self.retrieval;
        let (kept, behind) = self.retrieval.kept(whole.committed);
        cache.truncate(0);
        cache.grow(self.retrieval.rows.min(whole.capacity));
        let seed = if let Picked::Random(seed) = picked { seed } else { 0 };
        let mut random = SeededRandom::new(seed);
        self.order.clear();
        for (layer, part) in whole.layers.iter().zip(&mut cache.layers) {
            let (LayerKv::Host(from), LayerKv::Host(to)) = (layer, part) else { continue };
            for head in 0..from.kv_heads() {
                let best = self.retrieval.best(from, head, whole.committed, &mut random);
                let mut chunks = best.clone();
                chunks.extend((kept > 0).then_some(0));
                chunks.sort_unstable();
                let rows = chunks.iter().flat_map(|c| c * chunk..(c + 1) * chunk);
                let rows = rows.chain(whole.committed - behind..whole.committed);
                rows.enumerate().for_each(|(slot, row)| to.copy_from(from, head, row, slot));
                // The place of each kept chunk, from the lowest score on; then the rows behind the chunks.
                let places = best.iter().rev().filter_map(|c| chunks.binary_search(c).ok());
                let slots = places.flat_map(|place| place * chunk..(place + 1) * chunk);
                let slots = slots.chain(kept * chunk..kept * chunk + behind).filter(|&slot| slot >= chunk);
                self.order.push(slots.map(|slot| slot as u32).collect());
            }
        }
        cache.committed = kept * chunk + behind;
        (self.next, self.read) = (0, whole.committed);
    }

    /// Adds a row of the whole cache.
    fn add(&mut self, whole: &KvCache, row: usize, cache: &mut KvCache) {
        let room = cache.committed < self.retrieval.rows;
        let (added, chunk) = (cache.committed, self.retrieval.chunk);
        if room {
            if cache.committed == cache.capacity {
                cache.grow(self.retrieval.rows.min(2 * cache.capacity) - cache.committed);
            }
            cache.committed += 1;
        }
        let mut orders = self.order.iter_mut();
        for (layer, part) in whole.layers.iter().zip(&mut cache.layers) {
            let (LayerKv::Host(from), LayerKv::Host(to)) = (layer, part) else { continue };
            for (head, order) in (0..from.kv_heads()).zip(orders.by_ref()) {
                if room && added >= chunk {
                    order.push(added as u32);
                }
                let slot = if room { added } else { order[self.next] as usize };
                to.copy_from(from, head, row, slot);
            }
        }
        if !room {
            self.next = (self.next + 1) % self.order.first().map_or(1, |order| order.len().max(1));
        }
    }
}

#[cfg(test)]
mod tests;
