//! Tiles of 16 rows by 64 bytes (AMX), which the processor multiplies with one another.

#[cfg(target_arch = "x86_64")]
pub(crate) use self::hardware::{Hardware, is_there};

/// Columns whose sums are kept.
#[cfg(target_arch = "x86_64")]
pub(crate) const COLUMNS: usize = 32;

/// A multiplier of tiles: the processor, or a model of it.
pub(crate) trait Unit {
    /// Prepares for products of `rows` rows, `depth` inputs deep, and sets both sums to zero.
    ///
    /// # Safety
    /// `rows` is 1 to 16, `depth` a multiple of 4 from 4 to 64.
    unsafe fn begin(&mut self, rows: usize, depth: usize);

    /// Adds `inputs [rows][depth]`, signed, times `codes [depth / 4][COLUMNS][4]`, unsigned, to the sums.
    ///
    /// # Safety
    /// The rows of inputs, `stride` bytes apart, and the codes are there.
    unsafe fn add(&mut self, inputs: *const u8, stride: usize, codes: *const u8);

    /// Writes the sums `[rows][COLUMNS]` and ends what [`Self::begin`] began.
    ///
    /// # Safety
    /// There is room.
    unsafe fn end(&mut self, sums: *mut i32);
}

#[cfg(target_arch = "x86_64")]
mod hardware;
