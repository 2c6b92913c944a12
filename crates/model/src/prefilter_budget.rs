//! Memory for the int8 prefilters of LM heads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that the int8 prefilters of LM heads on one device may still take; unlimited at first.
#[derive(Debug)]
pub struct Int8PrefilterBudget(AtomicU64);

/// No limit.
const UNLIMITED: u64 = u64::MAX;

impl Default for Int8PrefilterBudget {
    fn default() -> Self {
        Self(AtomicU64::new(UNLIMITED))
    }
}

impl Int8PrefilterBudget {
    /// Sets how many bytes prefilters may take from now on. LM heads whose prefilter does not fit compute all logits.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// Takes memory for a prefilter, if there is enough.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let left = |budget: u64| if budget == UNLIMITED { Some(budget) } else { budget.checked_sub(bytes) };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }
}

#[cfg(test)]
mod tests;
