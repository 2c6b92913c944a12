//! Inputs as they are: codes become `f32` weights in registers, `scale · (code - zero)` or `scale · number[code]`, and
//! are multiplied in order.

pub(in crate::quantised_matmul) use self::decode::E4m3;
#[cfg(target_arch = "x86_64")]
use self::decode::x86::{E4m3Halves, Sixteen256, Sixteen512};
use self::decode::{Decode, Integers, Table};
use super::super::matrix::{Meaning, Panel};
use super::super::{CodeBits, LINE, PANEL, QuantisedMatrix};
use super::output::Output;
use crate::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Kind;
use crate::isa::per_isa;
use std::cell::RefCell;

/// Columns that are multiplied at once.
const LANES: usize = 16;
/// Bytes between a line that is fetched and the one that is used.
const AHEAD: usize = 4096;
/// Rows of a strip at most.
const ROWS: usize = 6;

/// `y = x · Wᵀ + bias`.
pub(super) fn multiply(isa: Isa, x: &[f32], w: &QuantisedMatrix, out: &Output<'_>) {
    thread_local! {
        /// Rows in the order of the codes; kept, so that steps after the first allocate nothing.
        static ORDERED: RefCell<Vec<f32>> = const { RefCell::new(vec![]) };
    }
    let Some(order) = w.order() else { return in_order(isa, x, w, out) };
    ORDERED.with_borrow_mut(|ordered| {
        ordered.clear();
        for x in x.chunks_exact(w.d_in()) {
            ordered.extend(order.iter().map(|&place| x[place as usize]));
        }
        in_order(isa, ordered, w, out);
    });
}

fn in_order(isa: Isa, x: &[f32], w: &QuantisedMatrix, out: &Output<'_>) {
    let (d_in, rows) = (w.d_in(), x.len() / w.d_in());
    crate::team::run(w.d_out().div_ceil(PANEL), x.len() * w.d_out(), |index| {
        let panel = w.panel(index);
        let mut first = 0;
        while first < rows {
            // Strips of nearly equal height, so that none unpacks codes for a single row.
            let left = rows - first;
            let height = left.div_ceil(left.div_ceil(ROWS));
            let mut sums = [[0f32; PANEL]; ROWS];
            strips(isa, &x[first * d_in..(first + height) * d_in], d_in, &panel, &mut sums[..height]);
            out.write(first, index * PANEL, &mut sums[..height]);
            first += height;
        }
    });
}

/// Up to [`ROWS`] rows times a panel.
fn strips(isa: Isa, x: &[f32], d_in: usize, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
    match (panel.meaning, panel.bits) {
        (Meaning::Integers, CodeBits::Four) => decoded(isa, Integers::<true>, x, d_in, panel, sums),
        (Meaning::Integers, CodeBits::Eight) => decoded(isa, Integers::<false>, x, d_in, panel, sums),
        (Meaning::E4m3, _) => match isa.kind() {
            // SAFETY: an `Isa` comes from `Isa::available`, which asked the processor.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => decoded(isa, unsafe { E4m3Halves::new() }, x, d_in, panel, sums),
            _ => decoded(isa, E4m3, x, d_in, panel, sums),
        },
        (Meaning::Table(numbers), CodeBits::Eight) => decoded(isa, Table::<false>(numbers), x, d_in, panel, sums),
        (Meaning::Table(numbers), CodeBits::Four) => match isa.kind() {
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => decoded(isa, unsafe { Sixteen512::new(numbers) }, x, d_in, panel, sums),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => decoded(isa, unsafe { Sixteen256::new(numbers) }, x, d_in, panel, sums),
            _ => decoded(isa, Table::<true>(numbers), x, d_in, panel, sums),
        },
    }
}

per_isa! {
    /// [`strips`] with codes of one kind.
    fn decoded<D: Decode>(decode: D, x: &[f32], d_in: usize, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
        for column in (0..PANEL).step_by(LANES) {
            match sums.len() {
                1 => strip::<1, LANES, D>(decode, x, d_in, panel, column, sums),
                2 => strip::<2, LANES, D>(decode, x, d_in, panel, column, sums),
                3 => strip::<3, LANES, D>(decode, x, d_in, panel, column, sums),
                4 => strip::<4, LANES, D>(decode, x, d_in, panel, column, sums),
                5 => strip::<5, LANES, D>(decode, x, d_in, panel, column, sums),
                _ => strip::<6, LANES, D>(decode, x, d_in, panel, column, sums),
            }
        }
    }
}

/// `R` rows times the `N` columns from `column` on.
#[inline(always)]
fn strip<const R: usize, const N: usize, D: Decode>(
    decode: D,
    x: &[f32],
    d_in: usize,
    panel: &Panel<'_>,
    column: usize,
    sums: &mut [[f32; PANEL]],
) {
    let width = D::BITS.inputs_per_line();
    let rows: [&[f32]; R] = std::array::from_fn(|r| &x[r * d_in..(r + 1) * d_in]);
    let mut acc = [[0f32; N]; R];
    for group in 0..panel.groups {
        let (scales, zeros) = (panel.scales_of::<N>(group, column), panel.zeros_of::<N>(group, column));
        for line in panel.lines_of(group) {
            let cells = &panel.codes[line * LINE + 4 * column..][..4 * N];
            fetch(cells.as_ptr().wrapping_add(AHEAD));
            let words = words::<N>(cells);
            let at = line * width;
            let inputs: [&[f32]; R] = rows.map(|row| &row[at..(at + width).min(d_in)]);
            let weights = |place| weights::<N, D>(decode, place, &words, &scales, &zeros);
            // Whole lines have a length that is known, so that all of their shifts are constants.
            if inputs[0].len() == width {
                for place in 0..width {
                    add::<R, N>(&mut acc, inputs.map(|inputs| inputs[place]), weights(place));
                }
            } else {
                for place in 0..inputs[0].len() {
                    add::<R, N>(&mut acc, inputs.map(|inputs| inputs[place]), weights(place));
                }
            }
        }
    }
    for (sums, acc) in sums.iter_mut().zip(acc) {
        sums[column..column + N].copy_from_slice(&acc);
    }
}

/// The codes of a line, a word for each column.
#[inline(always)]
fn words<const N: usize>(cells: &[u8]) -> [u32; N] {
    let mut words = [0u32; N];
    for (word, cell) in words.iter_mut().zip(cells.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*cell);
    }
    words
}

/// Asks for a later part of the codes: processors do not foresee that every other 64 bytes are read.
#[inline(always)]
fn fetch(codes: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and a prefetch never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(codes.cast());
    }
    let _ = codes;
}

/// The weights of an input of a line.
#[inline(always)]
fn weights<const N: usize, D: Decode>(
    decode: D,
    place: usize,
    words: &[u32; N],
    scales: &[f32; N],
    zeros: &[i32; N],
) -> [f32; N] {
    let shift = match D::BITS {
        CodeBits::Eight => 8 * place,
        CodeBits::Four => 8 * (place % 4) + place / 4 * 4,
    };
    let mut weights = decode.numbers(words.map(|word| word >> shift), zeros);
    for lane in 0..N {
        weights[lane] *= scales[lane];
    }
    weights
}

/// Adds the products of an input of each row.
#[inline(always)]
fn add<const R: usize, const N: usize>(acc: &mut [[f32; N]; R], inputs: [f32; R], weights: [f32; N]) {
    for (acc, value) in acc.iter_mut().zip(inputs) {
        for lane in 0..N {
            acc[lane] = value.mul_add(weights[lane], acc[lane]);
        }
    }
}

mod decode;
