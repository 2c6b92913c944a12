//! The greatest outputs of a product, exactly, from a quarter to half of the reading: greedy decoding asks an LM head
//! for nothing else.
//!
//! A copy of the weights in 8 bits, `w ≈ ŵ = s · q`, and a row in 8 or 16 bits, `h ≈ ĥ = t · a`, have an integer
//! product that is exact and fast. The output lies about it by no more than (Cauchy-Schwarz)
//!
//! `|w·h − ŵ·ĥ| ≤ ‖w − ŵ‖ ‖h‖ + ‖ŵ‖ ‖h − ĥ‖`
//!
//! and what sums in `f32` round, `(d + 32) · 2⁻²⁴ ‖w‖ ‖h‖`. An output whose upper bound is below the `k`-th greatest
//! lower bound is none of the `k` greatest. Panels are filtered by rows in 8 bits, those that this leaves by rows in
//! 16; where 8 bits left much (a row with an input that is much greater than the others has little of those in them),
//! 16 are taken at once for a while. The few outputs that are still open are computed from the weights themselves, by
//! the kernel that computes all outputs and therefore with the same bits, and ordered: what comes out is what looking
//! at all of them would have said.

#[cfg(target_arch = "x86_64")]
mod kernel;
mod search;

use super::packed::{PackError, pages};
use super::{PANEL, Packed};
use crate::isa::per_isa;
use crate::{Isa, lanes};
use memmap2::MmapMut;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Inputs whose products one instruction adds.
const GROUP: usize = 4;
/// Weights of a matrix below this are read as fast as they are filtered.
const LEAST: usize = 1 << 19;
/// Inputs at most, so that sums of `255 · 128` each fit in 32 bits.
const MOST_INPUTS: usize = 1 << 16;
/// Rounds of doubling until a copy that is of no use is asked once in so many times.
const LONGEST_PAUSE: u32 = 8;
/// Room for what the bounds' own computation rounds.
const SLACK: f32 = 1.01;

/// A matrix and a copy of it in 8 bits, with what is known about the difference.
pub struct Int8Prefilter {
    weights: Arc<Packed>,
    /// `q + 128` in panels `[ceil(d_out / PANEL)][ceil(d_in / GROUP)][PANEL][GROUP]`. Columns beyond the last repeat
    /// it.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    panels: MmapMut,
    /// By column: `s`, at least `‖w − ŵ‖`, and at least `‖ŵ‖`.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    columns: [Vec<f32>; 3],
    /// The greatest `‖w‖` of all.
    longest: f32,
    /// When it was of no use lately, and when its bounds by rows in 8 bits were.
    backoff: Backoff,
    coarse_backoff: Backoff,
    d_in: usize,
    d_out: usize,
}

impl std::fmt::Debug for Int8Prefilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prefilter[{} x {}]", self.d_out, self.d_in)
    }
}

impl Int8Prefilter {
    /// Whether a copy of `w` would be faster to read: not without products of bytes (AVX-512 VNNI), of weights that are
    /// in 8 bits already, or of few of them.
    pub fn helps(w: &Packed) -> bool {
        Self::helps_shape(w.d_in(), w.d_out())
    }

    /// Whether the prefilter helps a matrix of this shape that is not in 8 bits.
    pub fn helps_shape(d_in: usize, d_out: usize) -> bool {
        d_in <= MOST_INPUTS && d_in.saturating_mul(d_out) >= LEAST && Isa::detect().has_byte_products()
    }

    /// A copy of `w`. `None` where it would not help ([`Self::helps`]) or a weight is not finite.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn of(w: &Arc<Packed>) -> Result<Option<Self>, PackError> {
        if Self::helps(w) { Self::copy(w) } else { Ok(None) }
    }

    /// A copy of `w` of any size. `None` where a weight is not finite or the processor has no products of bytes.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn copy(w: &Arc<Packed>) -> Result<Option<Self>, PackError> {
        let (d_in, d_out) = (w.d_in(), w.d_out());
        if d_in > MOST_INPUTS || !Isa::detect().has_byte_products() {
            return Ok(None);
        }
        let groups = d_in.div_ceil(GROUP);
        let (count, size) = (d_out.div_ceil(PANEL), PANEL * groups * GROUP);
        let mut panels = pages(count * size)?;
        let stats: Vec<Option<[[f32; PANEL]; 3]>> = panels
            .par_chunks_mut(size)
            .enumerate()
            .map_init(
                || vec![0f32; d_in * PANEL],
                |lines, (panel, bytes)| {
                    w.widen_panel(panel, lines);
                    repeat_last(lines, d_out - panel * PANEL);
                    eight_bits(lines, bytes)
                },
            )
            .collect();
        let Some(stats) = stats.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        let column = |what: usize| stats.iter().flat_map(|panel| panel[what]).collect::<Vec<f32>>();
        let columns = [column(0), column(1), column(2)];
        let longest = columns[1].iter().zip(&columns[2]).map(|(lost, kept)| lost + kept).fold(0.0, f32::max);
        Ok(Some(Self {
            weights: w.clone(),
            panels,
            columns,
            longest,
            backoff: Backoff::default(),
            coarse_backoff: Backoff::default(),
            d_in,
            d_out,
        }))
    }

    /// Bytes that a copy takes, which are those that filtering reads.
    pub fn bytes_for(d_in: usize, d_out: usize) -> usize {
        d_out.next_multiple_of(PANEL) * (d_in.next_multiple_of(GROUP) + 3 * size_of::<f32>())
    }

    /// Bytes of the copy.
    pub fn bytes(&self) -> usize {
        Self::bytes_for(self.d_in, self.d_out)
    }

    fn groups(&self) -> usize {
        self.d_in.div_ceil(GROUP)
    }
}

/// After something was of no use it is left alone for a while, longer each time (exponential backoff).
#[derive(Default)]
struct Backoff {
    /// How often it was of no use since it was of use.
    refused: AtomicU32,
    /// How often it is not asked from now on.
    pause: AtomicU32,
}

impl Backoff {
    /// Whether it is asked now.
    fn asks(&self) -> bool {
        self.pause.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Takes note of whether it was of use.
    fn note(&self, useful: bool) {
        if useful {
            self.refused.store(0, Ordering::Relaxed);
        } else {
            let times = self.refused.fetch_add(1, Ordering::Relaxed).min(LONGEST_PAUSE);
            self.pause.store((1 << times) - 1, Ordering::Relaxed);
        }
    }
}

/// Fills the lines' columns from `columns` on with the one before.
fn repeat_last(lines: &mut [f32], columns: usize) {
    if columns < PANEL {
        for line in lines.chunks_exact_mut(PANEL) {
            let last = line[columns - 1];
            line[columns..].fill(last);
        }
    }
}

/// Lines `[d_in][PANEL]` in 8 bits: scales, and the lengths of what is lost and of what is kept. `None` if a weight is
/// not finite.
fn eight_bits(lines: &[f32], bytes: &mut [u8]) -> Option<[[f32; PANEL]; 3]> {
    let (lines, _) = lines.as_chunks::<PANEL>();
    bytes.fill(128);
    let mut columns = [[0f32; PANEL]; 3];
    round_columns(Isa::detect(), lines, bytes, &mut columns).then_some(columns)
}

per_isa! {
    /// See [`eight_bits`]. False if a weight is not finite.
    fn round_columns(lines: &[[f32; PANEL]], bytes: &mut [u8], columns: &mut [[f32; PANEL]; 3]) -> bool {
        let (mut greatest, mut sum) = ([0f32; PANEL], [0f32; PANEL]);
        for line in lines {
            for c in 0..PANEL {
                greatest[c] = greatest[c].max(line[c].abs());
                sum[c] += line[c].abs();
            }
        }
        let scales = greatest.map(|greatest| greatest / 127.0);
        // Of a column of subnormal numbers all is lost.
        let factors = greatest.map(|greatest| if greatest > 1e-30 { 127.0 / greatest } else { 0.0 });
        let (mut lost, mut kept) = ([0f32; PANEL], [0f32; PANEL]);
        for (k, line) in lines.iter().enumerate() {
            let group = &mut bytes[k / GROUP * PANEL * GROUP..][..PANEL * GROUP];
            for c in 0..PANEL {
                // The magic number rounds as in `lanes::exp`; the lowest byte of its bits is the whole number plus 128.
                let rounded = line[c] * factors[c] + ROUNDER;
                let q = rounded - ROUNDER;
                let (near, off) = (q * scales[c], q.mul_add(-scales[c], line[c]));
                lost[c] = off.mul_add(off, lost[c]);
                kept[c] = near.mul_add(near, kept[c]);
                group[c * GROUP + k % GROUP] = (rounded.to_bits() as u8).wrapping_add(128);
            }
        }
        let length = |squares: [f32; PANEL]| squares.map(|sum| sum.sqrt() * SLACK + 1e-16);
        *columns = [scales, length(lost), length(kept)];
        sum.iter().all(|sum| sum.is_finite())
    }
}

/// 1.5 · 2²³: adding it rounds to the nearest whole number.
const ROUNDER: f32 = 12_582_912.0;
/// Rows whose sums fit in the registers, two vectors each.
const TILE: usize = 14;

/// The rows of a tile; tiles are nearly equal, so that none wastes a pass on a single row.
fn tile_of(tile: usize, rows: usize) -> Range<usize> {
    let tiles = rows.div_ceil(TILE);
    tile * rows / tiles..(tile + 1) * rows / tiles
}

/// The tile of a row.
fn tile_of_row(row: usize, rows: usize) -> Range<usize> {
    let tiles = rows.div_ceil(TILE);
    // Tiles may differ by a row, so that this may be one too few.
    let tile = row * tiles / rows;
    let found = tile_of(tile, rows);
    if found.contains(&row) { found } else { tile_of(tile + 1, rows) }
}

/// Rows in 16 bits, as two of 8 bits each: `a = 256 · upper + lower`.
#[derive(Default)]
struct Rows {
    /// Upper parts, tile after tile, `[groups][tile's rows]`, with `GROUP` inputs each in its bytes.
    upper: Vec<u32>,
    /// Lower parts, `[rows][groups]`.
    lower: Vec<u32>,
    facts: Vec<RowFacts>,
    /// A row in 16 bits.
    whole: Vec<i32>,
}

/// Facts of a row that bounds need.
#[derive(Clone, Copy, Default)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "read by instructions of x86"))]
struct RowFacts {
    /// `t`.
    scale: f32,
    /// Factors of a column's lost length and of its kept one.
    on_lost: f32,
    on_kept: f32,
    /// `128 · Σ upper` and `128 · Σ lower`: what adding 128 to weights added to sums.
    offsets: [i32; 2],
    /// Of the upper part alone.
    coarse: Coarse,
}

/// Facts that bounds by the upper part of a row need.
#[derive(Clone, Copy, Default)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "read by instructions of x86"))]
struct Coarse {
    scale: f32,
    on_kept: f32,
}

impl Rows {
    /// Takes rows `[.., d_in]` in. False if one is not finite, or so large that outputs might overflow.
    fn set(&mut self, x: &[f32], prefilter: &Int8Prefilter) -> bool {
        let (d_in, groups) = (prefilter.d_in, prefilter.groups());
        let rows = x.len() / d_in;
        let size = (rows * groups).max(self.upper.len());
        self.upper.resize(size, 0);
        self.lower.resize(size, 0);
        self.whole.clear();
        self.whole.resize(groups * GROUP, 0);
        self.facts.clear();
        for (i, row) in x.chunks_exact(d_in).enumerate() {
            let tile = tile_of_row(i, rows);
            let Some(mut facts) = sixteen_bits(row, &mut self.whole) else { return false };
            let reach = facts.on_lost * prefilter.longest;
            if reach.is_nan() || reach >= 1e30 {
                return false;
            }
            let upper = &mut self.upper[tile.start * groups + i - tile.start..];
            let left = lay(&self.whole, upper, tile.len(), &mut self.lower[i * groups..(i + 1) * groups], &mut facts);
            facts.coarse =
                Coarse { scale: 256.0 * facts.scale, on_kept: facts.on_kept + facts.scale * left.sqrt() * SLACK };
            self.facts.push(facts);
        }
        true
    }
}

/// Writes the groups of a row's two parts, the upper ones each `stride` behind the one before. Returns the sum of the
/// lower part's squares.
fn lay(whole: &[i32], upper: &mut [u32], stride: usize, lower: &mut [u32], facts: &mut RowFacts) -> f32 {
    let (mut sums, mut squares) = ([0i32; 2], 0i64);
    let groups = whole.as_chunks::<GROUP>().0;
    for ((group, upper), lower) in groups.iter().zip(upper.chunks_mut(stride)).zip(lower) {
        let high = group.map(|a| (a + 128) >> 8);
        let low = std::array::from_fn::<i32, GROUP, _>(|i| group[i] - 256 * high[i]);
        squares += low.iter().map(|&a| i64::from(a * a)).sum::<i64>();
        sums[0] += high.iter().sum::<i32>();
        sums[1] += low.iter().sum::<i32>();
        upper[0] = u32::from_le_bytes(high.map(|value| value as u8));
        *lower = u32::from_le_bytes(low.map(|value| value as u8));
    }
    facts.offsets = sums.map(|sum| 128 * sum);
    squares as f32
}

/// A row in 16 bits; `None` if it is not finite.
fn sixteen_bits(row: &[f32], whole: &mut [i32]) -> Option<RowFacts> {
    let [greatest, squares, off_squares] = round_row(Isa::detect(), row, whole);
    if !squares.is_finite() {
        return None;
    }
    let length = squares.sqrt() * SLACK + 1e-16;
    let rounded = (row.len() + 32) as f32 * f32::EPSILON / 2.0 * SLACK * length;
    let off = off_squares.sqrt() * SLACK + 1e-16;
    Some(RowFacts {
        scale: greatest / GREATEST,
        on_lost: length + rounded,
        on_kept: off + rounded,
        ..RowFacts::default()
    })
}

/// The greatest number of 16 bits whose upper part fits in 8 bits after rounding.
const GREATEST: f32 = 127.0 * 256.0;

per_isa! {
    /// Rounds a row to 16 bits: its greatest magnitude, the sum of its squares, and that of the squares of what is
    /// lost.
    fn round_row(row: &[f32], whole: &mut [i32]) -> [f32; 3] {
        let greatest = lanes::max_abs(row);
        let scale = greatest / GREATEST;
        let factor = if greatest > 1e-15 { GREATEST / greatest } else { 0.0 };
        let (mut squares, mut lost) = ([0f32; lanes::LANES], [0f32; lanes::LANES]);
        for (row, whole) in row.chunks(lanes::LANES).zip(whole.chunks_mut(lanes::LANES)) {
            for i in 0..row.len() {
                let rounded = row[i] * factor + ROUNDER;
                let off = (rounded - ROUNDER).mul_add(-scale, row[i]);
                squares[i] = row[i].mul_add(row[i], squares[i]);
                lost[i] = off.mul_add(off, lost[i]);
                whole[i] = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()) as i32;
            }
        }
        [greatest, lanes::fold(squares), lanes::fold(lost)]
    }
}

#[cfg(test)]
mod tests;
