//! Inputs as they are: codes become `f32` weights in registers, `scale · (code - zero)` or `scale · number[code]`, and
//! are multiplied in order.

use super::super::matrix::Panel;
use super::super::{CodeBits, LINE, PANEL, QuantisedMatrix};
use super::output::Output;
use crate::Isa;
use crate::isa::per_isa;
use std::cell::RefCell;

/// Columns that are multiplied at once.
const LANES: usize = 16;
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

per_isa! {
    /// Up to [`ROWS`] rows times a panel.
    fn strips(x: &[f32], d_in: usize, panel: &Panel<'_>, sums: &mut [[f32; PANEL]]) {
        for column in (0..PANEL).step_by(LANES) {
            match sums.len() {
                1 => strip::<1>(x, d_in, panel, column, sums),
                2 => strip::<2>(x, d_in, panel, column, sums),
                3 => strip::<3>(x, d_in, panel, column, sums),
                4 => strip::<4>(x, d_in, panel, column, sums),
                5 => strip::<5>(x, d_in, panel, column, sums),
                _ => strip::<6>(x, d_in, panel, column, sums),
            }
        }
    }
}

/// The weights of an input of a line: `scale · (code - zero)`, or `scale · number[code]`.
#[inline(always)]
fn weights_at(
    panel: &Panel<'_>,
    place: usize,
    words: &[u32; LANES],
    scales: &[f32; LANES],
    zeros: &[i32; LANES],
) -> [f32; LANES] {
    let (shift, mask) = match panel.bits {
        CodeBits::Eight => (8 * place, 255),
        CodeBits::Four => (8 * (place % 4) + place / 4 * 4, 15),
    };
    let mut weights = [0f32; LANES];
    match panel.numbers {
        None => {
            for lane in 0..LANES {
                weights[lane] = scales[lane] * ((words[lane] >> shift & mask) as i32 - zeros[lane]) as f32;
            }
        }
        Some(numbers) => {
            for lane in 0..LANES {
                weights[lane] = scales[lane] * numbers[(words[lane] >> shift & mask & 255) as usize];
            }
        }
    }
    weights
}

/// `R` rows times the [`LANES`] columns from `column` on.
#[inline(always)]
fn strip<const R: usize>(x: &[f32], d_in: usize, panel: &Panel<'_>, column: usize, sums: &mut [[f32; PANEL]]) {
    let width = panel.bits.inputs_per_line();
    let rows: [&[f32]; R] = std::array::from_fn(|r| &x[r * d_in..(r + 1) * d_in]);
    let mut acc = [[0f32; LANES]; R];
    for group in 0..panel.groups {
        let (scales, zeros) = (panel.scales_of::<LANES>(group, column), panel.zeros_of::<LANES>(group, column));
        for line in panel.lines_of(group) {
            let cells = &panel.codes[line * LINE + 4 * column..][..4 * LANES];
            let mut words = [0u32; LANES];
            for (word, cell) in words.iter_mut().zip(cells.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*cell);
            }
            for place in 0..width.min(d_in - line * width) {
                let weights = weights_at(panel, place, &words, &scales, &zeros);
                for r in 0..R {
                    let value = rows[r][line * width + place];
                    for lane in 0..LANES {
                        acc[r][lane] = value.mul_add(weights[lane], acc[r][lane]);
                    }
                }
            }
        }
    }
    for (sums, acc) in sums.iter_mut().zip(acc) {
        sums[column..column + LANES].copy_from_slice(&acc);
    }
}
