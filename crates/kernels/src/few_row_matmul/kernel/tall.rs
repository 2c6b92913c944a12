//! Tiles of up to fifteen rows by one panel, for AVX-512.
//!
//! Rows lie side by side (`[d_in][rows]`), and a multiply-add takes its value of `x` straight from memory (an embedded
//! broadcast), so 2 · 15 sums and one vector of weights fill the registers. Compilers keep the broadcast in a register
//! instead, for both vectors of a panel, and spill sums from thirteen rows on; hence the assembly.
//!
//! More rows are several tiles, which take turns on blocks of [`BLOCK`] inputs: a block stays in the second-level cache
//! for all of them, and while they compute on it each fetches its share of the next one, so memory is never idle. Sums
//! wait in memory between blocks, unrounded: each is still one chain of multiply-adds.

use super::super::element::Element;
use super::super::pairs::Pair;
use super::super::{PAIR, PANEL, TALLEST};
use crate::team;
use half::{bf16, f16};
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Rows from which these tiles are the faster ones where weights come from memory: they fetch further ahead.
pub const FROM: usize = 3;
/// Threshold for weights that are in a cache of so many bytes at most.
pub const FROM_IN_CACHE: usize = 7;
/// Bytes of such a matrix.
pub const IN_CACHE: usize = 1 << 19;
/// Inputs that all tiles work through before they go on.
const BLOCK: usize = 1024;
/// Bytes between what a lone tile fetches and what it uses: a thread has to have this many on their way for as long as
/// memory takes.
const AHEAD: usize = 8192;
/// Floats in a vector.
const LANES: usize = 16;

/// Rows of `x` as tiles read them.
pub struct SideBySide<'a> {
    /// Tile after tile, each `[d_in][height]` in a place of its own.
    values: &'a [f32],
    rows: usize,
    d_in: usize,
}

impl<'a> SideBySide<'a> {
    /// Lays the rows of `x [rows, d_in]` side by side in `space`.
    ///
    /// # Safety
    /// The processor has AVX-512 F and BW, and BF16 if pairs are to be multiplied.
    pub unsafe fn new(x: &[f32], d_in: usize, space: &'a mut Vec<f32>) -> Self {
        let rows = x.len() / d_in;
        let size = rows.div_ceil(TALLEST) * place(d_in);
        if space.len() < size {
            space.resize(size, 0.0);
        }
        // A move of a value is worth some multiply-adds.
        let lay = |tile: usize, out: &mut [f32]| {
            let (row, height) = tile_of(tile, rows);
            let x = &x[row * d_in..(row + height) * d_in];
            // SAFETY: the caller's promise about the processor.
            unsafe {
                match height {
                    0..=8 => transpose::<2>(x, d_in, out),
                    9..=12 => transpose::<3>(x, d_in, out),
                    _ => transpose::<4>(x, d_in, out),
                }
            }
        };
        match rows <= TALLEST {
            true => lay(0, &mut space[..size]),
            false => team::chunks(&mut space[..size], place(d_in), 4 * x.len(), lay),
        }
        Self { values: space, rows, d_in }
    }

    /// Rows that were laid in `space` before.
    pub fn again(rows: usize, d_in: usize, space: &'a [f32]) -> Self {
        assert!(space.len() >= rows.div_ceil(TALLEST) * place(d_in));
        Self { values: space, rows, d_in }
    }

    /// `sums[row][column] = Σ_k x[row, k] · panels[k, column]` over one or two panels, each `[d_in][PANEL]`. `next` is
    /// where the panels lie that this thread will probably ask for next.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn multiply<T: Tall>(&self, panels: &[T], next: *const T, sums: &mut [[f32; PAIR]]) {
        let size = self.d_in * PANEL;
        assert!(sums.len() == self.rows && (panels.len() == size || panels.len() == 2 * size));
        let blocks = self.d_in.div_ceil(BLOCK);
        let ends = |block: usize| block * self.d_in / blocks;
        for (p, panel) in panels.chunks_exact(size).enumerate() {
            for block in 0..blocks {
                let last = p + 1 == panels.len() / size && block + 1 == blocks;
                let next = if last { next } else { panel[ends(block + 1) * PANEL..].as_ptr() };
                self.block(panel, ends(block)..ends(block + 1), next, p * PANEL, sums);
            }
        }
    }

    /// All tiles on inputs `range` of a panel, whose columns of the sums begin at `column`.
    fn block<T: Tall>(
        &self,
        panel: &[T],
        range: Range<usize>,
        next: *const T,
        column: usize,
        sums: &mut [[f32; PAIR]],
    ) {
        let bytes = PANEL * size_of::<T>();
        let next = next.cast::<i8>();
        if self.rows > TALLEST {
            let count = self.rows.div_ceil(TALLEST);
            let share = range.len() * bytes / count;
            for tile in 0..count {
                let fetch = Fetch { from: next.wrapping_add(tile * share), step: bytes / count };
                self.tile(tile, panel, range.clone(), fetch, column, sums);
            }
        } else {
            // A lone tile fetches its own block, and at the end the beginning of the next one.
            let cut = range.end - (AHEAD / bytes).min(range.len());
            let own = panel.as_ptr().cast::<i8>().wrapping_add(range.start * bytes + AHEAD);
            self.tile(0, panel, range.start..cut, Fetch { from: own, step: bytes }, column, sums);
            self.tile(0, panel, cut..range.end, Fetch { from: next, step: bytes }, column, sums);
        }
    }

    fn tile<T: Tall>(
        &self,
        tile: usize,
        panel: &[T],
        range: Range<usize>,
        fetch: Fetch,
        column: usize,
        sums: &mut [[f32; PAIR]],
    ) {
        let (row, height) = tile_of(tile, self.rows);
        let x = &self.values[tile * place(self.d_in) + range.start * height..][..range.len() * height];
        let weights = &panel[range.start * PANEL..range.end * PANEL];
        let work = Work { x, weights, first: range.start == 0, column, fetch };
        // SAFETY: only `new` makes a `SideBySide`, whose caller promised the processor; `x` has the inputs of so many
        // rows, `weights` those of a panel, and there are as many rows of sums.
        unsafe { T::tile(&work, &mut sums[row..row + height]) };
    }
}

/// Distance of a tile's prefetches: so many bytes ahead for each input.
#[derive(Clone, Copy)]
struct Fetch {
    from: *const i8,
    step: usize,
}

/// Values from one tile's rows to the next one's: a vector more than they are, since they are written a vector at a
/// time.
fn place(d_in: usize) -> usize {
    TALLEST * d_in + LANES
}

/// First row and height of a tile; tiles are nearly equal, so that none wastes a pass on a single row.
fn tile_of(tile: usize, rows: usize) -> (usize, usize) {
    let count = rows.div_ceil(TALLEST);
    let end = |tile: usize| tile * rows / count;
    (end(tile), end(tile + 1) - end(tile))
}

/// A tile's part of a block.
pub struct Work<'a, T> {
    /// `[inputs][rows]`.
    x: &'a [f32],
    /// `[inputs][PANEL]`.
    weights: &'a [T],
    /// Whether sums begin at zero.
    first: bool,
    /// The first column of sums.
    column: usize,
    fetch: Fetch,
}

/// A weight format that has such tiles.
pub trait Tall: Element {
    /// Adds a block to the sums of `sums.len()` rows.
    ///
    /// # Safety The processor has AVX-512 F and BW, and BF16 for pairs; `x` and `weights` hold equally many inputs, and
    /// `column + PANEL <= PAIR`.
    unsafe fn tile(work: &Work<'_, Self>, sums: &mut [[f32; PAIR]]);
}

macro_rules! tall {
    ($element:ty, $tile:ident, $operation:literal, $load:expr, [$($height:literal),*]) => {
        /// # Safety
        /// As of [`Tall::tile`], with `R` rows.
        #[target_feature(enable = "avx512f,avx512bw")]
        unsafe fn $tile<const R: usize>(work: &Work<'_, $element>, sums: &mut [[f32; PAIR]]) {
            let mut acc = [[_mm512_setzero_ps(); R]; 2];
            let (x, weights) = (work.x.as_ptr(), work.weights.as_ptr());
            let mut fetch = work.fetch.from;
            // SAFETY: all offsets lie within the lengths that the caller guarantees; a prefetch never faults.
            unsafe {
                if !work.first {
                    for r in 0..R {
                        for v in 0..2 {
                            acc[v][r] = _mm512_loadu_ps(sums[r].as_ptr().add(work.column + LANES * v));
                        }
                    }
                }
                for k in 0..work.weights.len() / PANEL {
                    _mm_prefetch::<_MM_HINT_T1>(fetch);
                    if PANEL * size_of::<$element>() > 64 {
                        _mm_prefetch::<_MM_HINT_T1>(fetch.wrapping_add(64));
                    }
                    fetch = fetch.wrapping_add(work.fetch.step);
                    for v in 0..2 {
                        let w: __m512 = $load(weights.add(k * PANEL + LANES * v));
                        for r in 0..R {
                            asm!(concat!($operation, " {sum}, {w}, dword ptr [{x}]{{1to16}}"),
                                sum = inout(zmm_reg) acc[v][r], w = in(zmm_reg) w, x = in(reg) x.add(k * R + r),
                                options(pure, readonly, nostack, preserves_flags));
                        }
                    }
                }
                for r in 0..R {
                    for v in 0..2 {
                        _mm512_storeu_ps(sums[r].as_mut_ptr().add(work.column + LANES * v), acc[v][r]);
                    }
                }
            }
        }

        impl Tall for $element {
            unsafe fn tile(work: &Work<'_, Self>, sums: &mut [[f32; PAIR]]) {
                // SAFETY: the caller's promise.
                unsafe {
                    match sums.len() {
                        $($height => $tile::<$height>(work, sums),)*
                        rows => unreachable!("a tile of {rows} rows"),
                    }
                }
            }
        }
    };
    ($($element:ty, $tile:ident, $operation:literal, $load:expr;)*) => {
        $(tall!($element, $tile, $operation, $load, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);)*
    };
}
tall! {
    f32, tile_f32, "vfmadd231ps", |p: *const f32| _mm512_load_ps(p);
    f16, tile_f16, "vfmadd231ps", |p: *const f16| _mm512_cvtph_ps(_mm256_load_si256(p.cast()));
    bf16, tile_bf16, "vfmadd231ps", |p: *const bf16| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(
        _mm512_cvtepu16_epi32(_mm256_load_si256(p.cast()))
    ));
    i8, tile_i8, "vfmadd231ps", |p: *const i8| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128(p.cast())));
    // Of rows of pairs too, which are packed only on processors that have the instruction.
    Pair, tile_pair, "vdpbf16ps", |p: *const Pair| _mm512_load_ps(p.cast());
}

/// `out[k][r] = x[r][k]` for up to `4 · G` rows. A vector is written for each `k`, in increasing order, so `out` needs
/// a vector more than it keeps.
///
/// # Safety
/// The processor has AVX-512 F.
#[target_feature(enable = "avx512f")]
unsafe fn transpose<const G: usize>(x: &[f32], d_in: usize, out: &mut [f32]) {
    let rows = x.len() / d_in;
    assert!((1..=4 * G).contains(&rows) && x.len() == rows * d_in && out.len() >= x.len() + LANES);
    let mut k = 0;
    while k + LANES <= d_in {
        // What stays zero costs nothing: `G` is known to the compiler.
        let mut block = [_mm512_setzero_ps(); LANES];
        for (r, vector) in block.iter_mut().enumerate().take(4 * G) {
            if r < rows {
                // SAFETY: row `r` has `d_in` values, of which sixteen begin at `k`.
                *vector = unsafe { _mm512_loadu_ps(x.as_ptr().add(r * d_in + k)) };
            }
        }
        for (i, vector) in transposed(block).into_iter().enumerate() {
            // SAFETY: at most `x.len() - rows + LANES` values, by the assertion.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr().add((k + i) * rows), vector) };
        }
        k += LANES;
    }
    for k in k..d_in {
        for r in 0..rows {
            out[k * rows + r] = x[r * d_in + k];
        }
    }
}

/// A 16 × 16 transposition in registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: [__m512; LANES]) -> [__m512; LANES] {
    // Pairs within quarters, then pairs of pairs: quarter q of `quads[4g + c]` is column 4q + c of rows 4g to 4g + 3.
    let mut quads = rows;
    for group in quads.chunks_exact_mut(4) {
        let (a, b) = (_mm512_unpacklo_ps(group[0], group[1]), _mm512_unpackhi_ps(group[0], group[1]));
        let (c, d) = (_mm512_unpacklo_ps(group[2], group[3]), _mm512_unpackhi_ps(group[2], group[3]));
        let low = |a, b| _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
        let high = |a, b| _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
        group.copy_from_slice(&[low(a, c), high(a, c), low(b, d), high(b, d)]);
    }
    let even = |a, b| _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
    let odd = |a, b| _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b);
    let mut out = rows;
    for c in 0..4 {
        // Of two vectors, quarters 0 and 2, and quarters 1 and 3.
        let [q0, q1, q2, q3] = [quads[c], quads[4 + c], quads[8 + c], quads[12 + c]];
        let (a, b) = (even(q0, q1), even(q2, q3));
        let (e, f) = (odd(q0, q1), odd(q2, q3));
        out[c] = even(a, b);
        out[8 + c] = odd(a, b);
        out[4 + c] = even(e, f);
        out[12 + c] = odd(e, f);
    }
    out
}

#[cfg(test)]
mod tests;
