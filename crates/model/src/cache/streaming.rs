//! A cache of the first tokens and the last ones: the streaming cache of StreamingLLM (Xiao et al., 2023,
//! <https://arxiv.org/abs/2309.17453>), from which TriForce's smallest model drafts.
//!
//! Rows are at the positions of their slots, not of their tokens: a text may go on for longer than the model has
//! positions. Keys are kept rotated, so a row that moves `Δ` slots forward has its key turned back by `Δ` positions,
//! `R(p - Δ) k = R(-Δ) R(p) k`.

use super::{CacheError, KvCache, LayerKv};

impl KvCache {
    /// Forgets `dropped` committed rows behind the first `sinks`, and moves the rows behind them to their slots.
    ///
    /// # Errors
    /// When rows are uncommitted, or the cache is not on the CPU. Nothing changes then.
    pub fn slide(&mut self, sinks: usize, dropped: usize) -> Result<(), CacheError> {
        if let Some(open) = self.reserved {
            return Err(CacheError::Reserved(open));
        }
        if !self.compute.is_host() {
            return Err(CacheError::Device);
        }
        let dropped = dropped.min(self.committed.saturating_sub(sinks));
        if dropped == 0 {
            return Ok(());
        }
        let (cos, sin) = self.rope.table().turn(dropped);
        for layer in &mut self.layers {
            let LayerKv::Host(kv) = layer else { continue };
            for slot in sinks..self.committed - dropped {
                kv.move_slot(slot + dropped, slot);
                kv.turn_back(slot, &cos, &sin);
            }
        }
        self.committed -= dropped;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
