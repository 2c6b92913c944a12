//! Tiles of 16 rows by 64 bytes (AMX), which the processor multiplies with one another.

#[cfg(target_arch = "x86_64")]
pub(crate) use self::hardware::{Hardware, is_there};

/// Columns whose sums are kept.
pub(crate) const COLUMNS: usize = 32;
/// Inputs that a tile takes of a row.
pub(crate) const DEPTH: usize = 64;

/// A multiplier of tiles: the processor, or a model of it.
pub(crate) trait Unit {
    /// Prepares for products of `rows` rows.
    ///
    /// # Safety
    /// `rows` is 1 to 16.
    unsafe fn begin(&mut self, rows: usize);

    /// Sums `[rows][COLUMNS]` of `inputs [rows][blocks · DEPTH]`, signed, times `codes [blocks · DEPTH / 4][COLUMNS][4]`,
    /// unsigned.
    ///
    /// # Safety
    /// There is at least one block. The rows of inputs, `stride` bytes apart, the codes and room for the sums are there.
    unsafe fn multiply(&mut self, inputs: *const u8, stride: usize, codes: *const u8, blocks: usize, sums: *mut i32);

    /// Ends what [`Self::begin`] began.
    fn end(&mut self);
}

#[cfg(target_arch = "x86_64")]
mod hardware;
