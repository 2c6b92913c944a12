//! Where a tensor lies.

use safetensors::Dtype;

/// A tensor in a file.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) file: usize,
    /// Storage type.
    pub dtype: Dtype,
    /// Shape.
    pub shape: Vec<usize>,
    /// First byte within the file.
    pub(super) offset: u64,
    /// Length in bytes.
    pub(super) bytes: usize,
    /// Heads whose rows lie interleaved in the file; reading puts them in order.
    pub(super) interleaved_heads: Option<usize>,
}

impl Entry {
    /// Length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
