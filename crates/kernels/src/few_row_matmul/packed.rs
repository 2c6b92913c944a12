//! Weights in panels.

use super::PANEL;
use super::element::{Bits, Element};
use super::pairs::{Pair, as_pairs};
use crate::Isa;
use half::{bf16, f16};
use memmap2::{MmapMut, MmapOptions};
use rayon::prelude::*;
use std::ops::Range;

/// How weights are stored. Products are always accumulated in `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightDtype {
    /// 32-bit.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// [`WeightDtype::Bf16`] with neighbouring inputs side by side, for processors that multiply two numbers at once.
    /// Pairs of `bf16`; the other factor is rounded to `bf16` too.
    Bf16Pairs,
}

impl WeightDtype {
    /// Bytes per weight.
    pub fn bytes(self) -> usize {
        match self {
            WeightDtype::F32 => 4,
            WeightDtype::F16 | WeightDtype::Bf16 | WeightDtype::Bf16Pairs => 2,
        }
    }

    /// Whether this processor can multiply with weights stored so.
    pub fn is_supported(self) -> bool {
        self != WeightDtype::Bf16Pairs || Isa::detect().has_pair_products()
    }

    /// Inputs that lie side by side.
    fn together(self) -> usize {
        if self == WeightDtype::Bf16Pairs { 2 } else { 1 }
    }
}

/// Where a weight matrix comes from: rows as checkpoints store them, one per output column of the product.
pub trait RowSource: Sync {
    /// Writes rows `rows` of the `[d_out, d_in]` matrix to `out` (`rows.len() * d_in` values).
    ///
    /// # Errors
    /// A one-line description of what could not be read.
    fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), String>;

    /// The 16-bit type in which the rows are stored, if [`Self::read_bits`] can hand them out as they are.
    fn stored_bits(&self) -> Option<WeightDtype> {
        None
    }

    /// As [`Self::read_rows`], without widening.
    ///
    /// # Errors
    /// As [`Self::read_rows`], or when [`Self::stored_bits`] says that it cannot.
    fn read_bits(&self, rows: Range<usize>, out: &mut [u16]) -> Result<(), String> {
        let _ = (rows, out);
        Err("the rows are not stored in 16 bits".into())
    }
}

impl RowSource for (&[f32], usize) {
    /// A matrix in memory with its row length.
    fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), String> {
        out.copy_from_slice(&self.0[rows.start * self.1..rows.end * self.1]);
        Ok(())
    }
}

/// Why packing failed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A size is zero or the product overflows.
    #[error("a weight matrix of {d_out} x {d_in} cannot be packed")]
    Size {
        /// Output columns.
        d_out: usize,
        /// Input width.
        d_in: usize,
    },
    /// The processor lacks the products.
    #[error("this processor has no products of bf16 numbers")]
    NoPairs,
    /// The source failed.
    #[error("{0}")]
    Source(String),
    /// The system has no memory left for it.
    #[error("{bytes} bytes of memory cannot be had: {reason}")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// Error of the operating system.
        reason: String,
    },
    /// A finite weight became infinite, or one that is not finite has no integer.
    #[error("weight {value} does not fit the number format that it is to be stored in")]
    Overflow {
        /// The offending weight.
        value: f32,
    },
}

/// Zeroed pages. The system hands them out when they are first touched, so the threads that fill the panels also fault
/// them in; and where it can, it hands out large ones, which spares a decode step most of its address translation.
pub(crate) fn pages(size: usize) -> Result<MmapMut, PackError> {
    let pages = MmapOptions::new().len(size).map_anon();
    let pages = pages.map_err(|error| PackError::Memory { bytes: size, reason: error.to_string() })?;
    #[cfg(target_os = "linux")]
    {
        // Only a wish: a kernel without large pages refuses, and small ones do.
        let _ = pages.advise(memmap2::Advice::HugePage);
    }
    Ok(pages)
}

/// A frozen weight matrix in panels `[ceil(d_out / PANEL)][d_in][PANEL]`; columns beyond `d_out` are zero. Pairs are in
/// panels `[ceil(d_out / PANEL)][ceil(d_in / 2)][PANEL][2]`, and an odd input's partner is zero.
pub struct Packed {
    panels: MmapMut,
    dtype: WeightDtype,
    d_in: usize,
    d_out: usize,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed[{} x {} {:?}]", self.d_out, self.d_in, self.dtype)
    }
}

impl Packed {
    /// Packs a `[d_out, d_in]` matrix, in parallel over panels; beside the result it needs a panel or two of `f32` per
    /// thread.
    ///
    /// # Errors
    /// When a size is zero, the source fails, a finite weight does not fit the storage type, or the processor
    /// cannot multiply with it.
    pub fn pack(d_in: usize, d_out: usize, dtype: WeightDtype, source: &dyn RowSource) -> Result<Self, PackError> {
        let size = PackError::Size { d_out, d_in };
        if d_in == 0 || d_out == 0 {
            return Err(size);
        }
        if !dtype.is_supported() {
            return Err(PackError::NoPairs);
        }
        let panel_bytes = PANEL * dtype.bytes() * d_in.next_multiple_of(dtype.together());
        let Some(total) = d_out.div_ceil(PANEL).checked_mul(panel_bytes) else { return Err(size) };
        let mut panels = pages(total)?;
        if dtype.bytes() == 2 && source.stored_bits() == Some(dtype) {
            fill_panels(&mut panels, panel_bytes, d_in, d_out, |rows: &mut [u16], range, panel| {
                source.read_bits(range, rows).map_err(PackError::Source)?;
                transpose(rows, d_in, cast_mut::<u16>(panel), |line: &[u16; PANEL], out| out.copy_from_slice(line));
                Ok(())
            })?;
        } else {
            fill_panels(&mut panels, panel_bytes, d_in, d_out, |rows: &mut [f32], range, panel| {
                source.read_rows(range, rows).map_err(PackError::Source)?;
                match dtype {
                    WeightDtype::F32 => narrow::<f32>(rows, d_in, panel),
                    WeightDtype::F16 => narrow::<f16>(rows, d_in, panel),
                    WeightDtype::Bf16 => narrow::<bf16>(rows, d_in, panel),
                    WeightDtype::Bf16Pairs => {
                        fits::<bf16>(rows)?;
                        narrow::<Pair>(&as_pairs(rows, d_in), d_in.div_ceil(2), panel)
                    }
                }
            })?;
        }
        Ok(Self { panels, dtype, d_in, d_out })
    }

    /// Input width.
    pub fn d_in(&self) -> usize {
        self.d_in
    }

    /// Output columns.
    pub fn d_out(&self) -> usize {
        self.d_out
    }

    /// Lines of a panel: inputs, or pairs of them.
    pub(super) fn lines(&self) -> usize {
        self.d_in.div_ceil(self.dtype.together())
    }

    /// Storage type.
    pub fn dtype(&self) -> WeightDtype {
        self.dtype
    }

    /// Bytes held, padding included.
    pub fn bytes(&self) -> usize {
        self.panels.len()
    }

    /// Copies row `row` of the original `[d_out, d_in]` matrix to `out`: an embedding look-up in tied weights.
    ///
    /// # Panics
    /// If `row >= d_out` or `out` is not `d_in` long.
    pub fn copy_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.d_out && out.len() == self.d_in, "row {row} of {self:?}");
        match self.dtype {
            WeightDtype::F32 => self.gather::<f32>(row, out),
            WeightDtype::F16 => self.gather::<f16>(row, out),
            WeightDtype::Bf16 => self.gather::<bf16>(row, out),
            WeightDtype::Bf16Pairs => {
                let panel = &self.elements::<[bf16; 2]>()[row / PANEL * self.lines() * PANEL..];
                for (k, value) in out.iter_mut().enumerate() {
                    *value = panel[k / 2 * PANEL + row % PANEL][k % 2].widen();
                }
            }
        }
    }

    /// A panel's weights in `f32`; columns beyond the last are zero.
    ///
    /// # Shapes
    /// `lines [d_in, PANEL]`.
    pub(super) fn widen_panel(&self, panel: usize, lines: &mut [f32]) {
        fn widen<T: Element>(panel: &[T], lines: &mut [f32]) {
            lines.iter_mut().zip(panel).for_each(|(to, from)| *to = from.widen());
        }
        let first = panel * self.lines() * PANEL;
        match self.dtype {
            WeightDtype::F32 => widen(&self.elements::<f32>()[first..], lines),
            WeightDtype::F16 => widen(&self.elements::<f16>()[first..], lines),
            WeightDtype::Bf16 => widen(&self.elements::<bf16>()[first..], lines),
            WeightDtype::Bf16Pairs => {
                let pairs = &self.elements::<[bf16; 2]>()[first..];
                for (k, line) in lines.chunks_exact_mut(PANEL).enumerate() {
                    let pairs = &pairs[k / 2 * PANEL..][..PANEL];
                    line.iter_mut().zip(pairs).for_each(|(to, from)| *to = from[k % 2].widen());
                }
            }
        }
    }

    fn gather<T: Element>(&self, row: usize, out: &mut [f32]) {
        let panel = &self.elements::<T>()[row / PANEL * self.d_in * PANEL..];
        for (k, value) in out.iter_mut().enumerate() {
            *value = panel[k * PANEL + row % PANEL].widen();
        }
    }

    /// The panels as elements of the storage type.
    pub(super) fn elements<T: Bits>(&self) -> &[T] {
        assert_eq!(size_of::<T>(), self.dtype.bytes() * self.dtype.together());
        let bytes = &self.panels[..];
        // SAFETY: the pages begin on a multiple of 4096 bytes, above the alignment of every `T` here, and any bits are a value.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
    }
}

/// The rows of a packed matrix, to be packed anew in another type.
impl RowSource for Packed {
    fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), String> {
        for (row, out) in rows.zip(out.chunks_exact_mut(self.d_in)) {
            self.copy_row(row, out);
        }
        Ok(())
    }
}

fn cast_mut<T: Bits>(bytes: &mut [u8]) -> &mut [T] {
    assert!(bytes.as_ptr().cast::<T>().is_aligned(), "a panel begins at an element");
    // SAFETY: as in `elements`, and the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// Fills panels in parallel: `fill` gets a staging buffer for the rows of a panel, their range, and the panel's bytes.
fn fill_panels<S: Copy + Default + Send>(
    panels: &mut [u8],
    panel_bytes: usize,
    d_in: usize,
    d_out: usize,
    fill: impl Fn(&mut [S], Range<usize>, &mut [u8]) -> Result<(), PackError> + Sync,
) -> Result<(), PackError> {
    panels.par_chunks_mut(panel_bytes).enumerate().try_for_each_init(
        || vec![S::default(); PANEL * d_in],
        |rows, (panel, bytes)| {
            let range = panel * PANEL..((panel + 1) * PANEL).min(d_out);
            fill(&mut rows[..range.len() * d_in], range, bytes)
        },
    )
}

/// Transposes rows into a panel and converts them to its type.
fn narrow<T: Element>(rows: &[f32], d_in: usize, panel: &mut [u8]) -> Result<(), PackError> {
    transpose(rows, d_in, cast_mut::<T>(panel), T::narrow_row);
    fits::<T>(rows)
}

/// Whether a type has values for these numbers. All are looked at without leaving early, which vectorises; then, if
/// need be, the culprit is found.
fn fits<T: Element>(rows: &[f32]) -> Result<(), PackError> {
    if rows.iter().fold(false, |any, &value| any | T::clips(value)) {
        let value = rows.iter().copied().find(|&value| T::clips(value)).unwrap_or(f32::NAN);
        return Err(PackError::Overflow { value });
    }
    Ok(())
}

/// Transposes rows `[columns ≤ PANEL, d_in]` into a panel `[d_in][PANEL]`, a line of it at a time through `write`.
fn transpose<S: Copy + Default, T>(rows: &[S], d_in: usize, panel: &mut [T], write: impl Fn(&[S; PANEL], &mut [T])) {
    // Blocks of input positions keep the transposition within the first-level cache.
    const BLOCK: usize = 16;
    let mut block = [[S::default(); PANEL]; BLOCK];
    for start in (0..d_in).step_by(BLOCK) {
        let height = BLOCK.min(d_in - start);
        for (column, row) in rows.chunks_exact(d_in).enumerate() {
            for (line, &value) in block.iter_mut().zip(&row[start..start + height]) {
                line[column] = value;
            }
        }
        for (k, line) in block[..height].iter().enumerate() {
            let at = (start + k) * PANEL;
            write(line, &mut panel[at..at + PANEL]);
        }
    }
}
