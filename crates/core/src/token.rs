//! Token ids.

/// A token id: an index into the target's vocabulary.
pub type Token = u32;
