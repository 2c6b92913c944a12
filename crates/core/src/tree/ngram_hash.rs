//! Runs of tokens by their hash.

use crate::Token;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Counts by a hash of the run. Runs whose hashes are equal are counted together, which costs a draft at worst.
pub(super) type Counts = HashMap<u64, u32, BuildHasherDefault<Hashed>>;

/// A hash of a run of tokens (the finaliser of splitmix64 after each).
pub(super) fn key(run: &[Token]) -> u64 {
    run.iter().fold(run.len() as u64, |state, &token| {
        let mut bits = state.wrapping_add(u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    })
}

/// Takes keys as they are: they are hashes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
