//! The CPU kernel: panels streamed once, accumulators in registers.

use super::packed::{Element, Packed, WeightDtype};
use super::{PANEL, TILE_ROWS};
use crate::Isa;
use crate::isa::Kind;
use half::{bf16, f16};

/// `y = x · W + bias`.
///
/// # Shapes
/// `x [rows, d_in]`, `bias [d_out]`, `y [rows, d_out]`.
///
/// # Panics
/// If a length does not fit.
pub fn few_row_matmul(isa: Isa, x: &[f32], w: &Packed, bias: Option<&[f32]>, y: &mut [f32]) {
    let (d_in, d_out) = (w.d_in(), w.d_out());
    let rows = x.len() / d_in;
    assert!(x.len() == rows * d_in && y.len() == rows * d_out, "{} values against {w:?}", x.len());
    assert!(bias.is_none_or(|b| b.len() == d_out), "a bias of another width than {w:?}");
    let out = Columns { y: y.as_mut_ptr(), d_out };
    let panels = d_out.div_ceil(PANEL);
    let one_panel = |panel: usize| match w.dtype() {
        WeightDtype::F32 => multiply_panel::<f32>(isa, x, rows, w, bias, panel, &out),
        WeightDtype::F16 => multiply_panel::<f16>(isa, x, rows, w, bias, panel, &out),
        WeightDtype::Bf16 => multiply_panel::<bf16>(isa, x, rows, w, bias, panel, &out),
    };
    crate::team::run(panels, rows * d_in * d_out, one_panel);
}

/// The output, written by one task per panel of columns.
struct Columns {
    y: *mut f32,
    d_out: usize,
}
// SAFETY: each panel writes only its own columns, and each panel is handled by one task.
unsafe impl Sync for Columns {}

fn multiply_panel<T: Tile>(
    isa: Isa,
    x: &[f32],
    rows: usize,
    w: &Packed,
    bias: Option<&[f32]>,
    panel: usize,
    out: &Columns,
) {
    let d_in = w.d_in();
    let weights = &w.elements::<T>()[panel * d_in * PANEL..(panel + 1) * d_in * PANEL];
    let first = panel * PANEL;
    let columns = PANEL.min(out.d_out - first);
    let mut tile = [[0f32; PANEL]; TILE_ROWS];
    let mut row = 0;
    while row < rows {
        let height = tile_height(rows - row);
        let xs = &x[row * d_in..(row + height) * d_in];
        T::multiply(isa, xs, d_in, weights, &mut tile[..height]);
        for (i, sums) in tile[..height].iter_mut().enumerate() {
            if let Some(bias) = bias {
                for (sum, b) in sums.iter_mut().zip(&bias[first..first + columns]) {
                    *sum += b;
                }
            }
            // SAFETY: row `row + i` and columns `first..first + columns` lie within y, and belong to this task.
            unsafe {
                let at = out.y.add((row + i) * out.d_out + first);
                std::ptr::copy_nonoverlapping(sums.as_ptr(), at, columns);
            }
        }
        row += height;
    }
}

/// Splits the remaining rows into tiles of nearly equal height, so that no tile wastes a pass on a single row.
fn tile_height(left: usize) -> usize {
    left.div_ceil(left.div_ceil(TILE_ROWS))
}

/// A tile: up to [`TILE_ROWS`] rows times one panel.
trait Tile: Element {
    fn multiply(isa: Isa, x: &[f32], d_in: usize, panel: &[Self], sums: &mut [[f32; PANEL]]);
}

macro_rules! tile {
    ($element:ty, $avx512:ident, $avx2:ident) => {
        impl Tile for $element {
            fn multiply(isa: Isa, x: &[f32], d_in: usize, panel: &[Self], sums: &mut [[f32; PANEL]]) {
                assert!(x.len() == sums.len() * d_in && panel.len() == d_in * PANEL);
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the features were detected, and the lengths were checked above.
                unsafe {
                    match (isa.kind(), sums.len()) {
                        (Kind::Avx512, 1) => return x86::avx512::$avx512::<1>(x, d_in, panel, sums),
                        (Kind::Avx512, 2) => return x86::avx512::$avx512::<2>(x, d_in, panel, sums),
                        (Kind::Avx512, 3) => return x86::avx512::$avx512::<3>(x, d_in, panel, sums),
                        (Kind::Avx512, 4) => return x86::avx512::$avx512::<4>(x, d_in, panel, sums),
                        (Kind::Avx512, 5) => return x86::avx512::$avx512::<5>(x, d_in, panel, sums),
                        (Kind::Avx512, 6) => return x86::avx512::$avx512::<6>(x, d_in, panel, sums),
                        (Kind::Avx2, _) => return x86::avx2::$avx2(x, d_in, panel, sums),
                        _ => {}
                    }
                }
                let _ = isa;
                portable(x, d_in, panel, sums);
            }
        }
    };
}
tile!(f32, tile_f32, rows_f32);
tile!(f16, tile_f16, rows_f16);
tile!(bf16, tile_bf16, rows_bf16);

/// Any processor: one row at a time, sixteen columns at a time, so that the partial sums stay in registers.
fn portable<T: Element>(x: &[f32], d_in: usize, panel: &[T], sums: &mut [[f32; PANEL]]) {
    const WIDTH: usize = 16;
    for (row, sums) in x.chunks_exact(d_in).zip(sums) {
        for start in (0..PANEL).step_by(WIDTH) {
            let mut acc = [0f32; WIDTH];
            for (&value, weights) in row.iter().zip(panel.chunks_exact(PANEL)) {
                for (a, w) in acc.iter_mut().zip(&weights[start..start + WIDTH]) {
                    *a = value.mul_add(w.widen(), *a);
                }
            }
            sums[start..start + WIDTH].copy_from_slice(&acc);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::PANEL;
    use half::{bf16, f16};
    use std::arch::x86_64::*;

    pub mod avx512 {
        use super::*;

        macro_rules! tile {
            ($name:ident, $element:ty, $load:expr) => {
                /// `R` rows by 64 columns: `4 R` accumulators of 16 lanes.
                ///
                /// # Safety
                /// AVX-512 F and BW present; `x` holds `R · d_in` values, `panel` `64 · d_in`, `sums` `R` rows.
                #[target_feature(enable = "avx512f,avx512bw,f16c")]
                pub unsafe fn $name<const R: usize>(
                    x: &[f32],
                    d_in: usize,
                    panel: &[$element],
                    sums: &mut [[f32; PANEL]],
                ) {
                    let mut acc = [[_mm512_setzero_ps(); 4]; R];
                    let (x, panel) = (x.as_ptr(), panel.as_ptr());
                    // SAFETY: all offsets stay below the lengths that the caller guarantees; a prefetch never faults.
                    unsafe {
                        for k in 0..d_in {
                            let row = panel.add(k * PANEL);
                            for ahead in 0..PANEL * size_of::<$element>() / 64 {
                                let line = row.wrapping_add(24 * PANEL + ahead * 64 / size_of::<$element>());
                                _mm_prefetch::<_MM_HINT_T0>(line.cast());
                            }
                            for v in 0..4 {
                                let w = $load(row.add(16 * v));
                                for r in 0..R {
                                    let value = _mm512_set1_ps(*x.add(r * d_in + k));
                                    acc[r][v] = _mm512_fmadd_ps(value, w, acc[r][v]);
                                }
                            }
                        }
                        for r in 0..R {
                            for v in 0..4 {
                                _mm512_storeu_ps(sums[r].as_mut_ptr().add(16 * v), acc[r][v]);
                            }
                        }
                    }
                }
            };
        }
        tile!(tile_f32, f32, |p: *const f32| _mm512_load_ps(p));
        tile!(tile_f16, f16, |p: *const f16| _mm512_cvtph_ps(_mm256_load_si256(p.cast())));
        tile!(tile_bf16, bf16, |p: *const bf16| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(
            _mm256_load_si256(p.cast())
        ))));
    }

    pub mod avx2 {
        use super::*;

        macro_rules! rows {
            ($name:ident, $element:ty, $load:expr) => {
                /// One row at a time by 64 columns: eight accumulators of 8 lanes.
                ///
                /// # Safety
                /// AVX2, FMA and F16C present; `x` holds `sums.len() · d_in` values, `panel` `64 · d_in`.
                #[target_feature(enable = "avx2,fma,f16c")]
                pub unsafe fn $name(x: &[f32], d_in: usize, panel: &[$element], sums: &mut [[f32; PANEL]]) {
                    let panel = panel.as_ptr();
                    for (row, sums) in x.chunks_exact(d_in).zip(sums) {
                        let mut acc = [_mm256_setzero_ps(); 8];
                        // SAFETY: all offsets stay below the lengths that the caller guarantees.
                        unsafe {
                            for k in 0..d_in {
                                let value = _mm256_set1_ps(*row.as_ptr().add(k));
                                for v in 0..8 {
                                    let w = $load(panel.add(k * PANEL + 8 * v));
                                    acc[v] = _mm256_fmadd_ps(value, w, acc[v]);
                                }
                            }
                            for v in 0..8 {
                                _mm256_storeu_ps(sums.as_mut_ptr().add(8 * v), acc[v]);
                            }
                        }
                    }
                }
            };
        }
        rows!(rows_f32, f32, |p: *const f32| _mm256_load_ps(p));
        rows!(rows_f16, f16, |p: *const f16| _mm256_cvtph_ps(_mm_load_si128(p.cast())));
        rows!(rows_bf16, bf16, |p: *const bf16| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(
            _mm_load_si128(p.cast())
        ))));
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;

    fn values(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        (0..n)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// Weights as the storage type keeps them.
    fn stored(w: &[f32], dtype: WeightDtype) -> Vec<f32> {
        match dtype {
            WeightDtype::F32 => w.to_vec(),
            WeightDtype::F16 => w.iter().map(|&v| f16::from_f32(v).to_f32()).collect(),
            WeightDtype::Bf16 => w.iter().map(|&v| bf16::from_f32(v).to_f32()).collect(),
        }
    }

    #[test]
    fn every_instruction_set_equals_the_reference_bit_for_bit() {
        for (d_in, d_out) in [(1, 1), (24, 130), (96, 64), (130, 200)] {
            let w = values(d_in * d_out, 3);
            let bias = values(d_out, 5);
            for dtype in [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16] {
                let packed = Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)).unwrap();
                for rows in [1, 2, 3, 4, 5, 6, 7, 11, 13, 64] {
                    let x = values(rows * d_in, rows as u32);
                    let mut want = reference::few_row_matmul(&x, &stored(&w, dtype), d_in, d_out);
                    for (i, v) in want.iter_mut().enumerate() {
                        *v += bias[i % d_out];
                    }
                    for isa in Isa::available() {
                        let mut y = vec![0f32; rows * d_out];
                        few_row_matmul(isa, &x, &packed, Some(&bias), &mut y);
                        assert_eq!(y, want, "{isa:?} {dtype:?} {rows}x{d_in}x{d_out}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_company_or_the_threads() {
        let (d_in, d_out) = (256, 1100);
        let w = values(d_in * d_out, 1);
        let packed = Packed::pack(d_in, d_out, WeightDtype::F16, &(&w[..], d_in)).unwrap();
        let x = values(64 * d_in, 9);
        let alone: Vec<f32> = x
            .chunks(d_in)
            .flat_map(|row| {
                let mut y = vec![0f32; d_out];
                few_row_matmul(Isa::detect(), row, &packed, None, &mut y);
                y
            })
            .collect();
        for rows in 1..=64 {
            let mut y = vec![0f32; rows * d_out];
            few_row_matmul(Isa::detect(), &x[..rows * d_in], &packed, None, &mut y);
            assert_eq!(y, alone[..rows * d_out], "{rows} rows");
        }
    }

    #[test]
    fn rows_of_packed_weights_can_be_read_back() {
        let (d_in, d_out) = (37, 150);
        let w = values(d_in * d_out, 4);
        for dtype in [WeightDtype::F32, WeightDtype::F16, WeightDtype::Bf16] {
            let packed = Packed::pack(d_in, d_out, dtype, &(&w[..], d_in)).unwrap();
            let mut row = vec![0f32; d_in];
            for r in 0..d_out {
                packed.copy_row(r, &mut row);
                assert_eq!(row, stored(&w[r * d_in..(r + 1) * d_in], dtype));
            }
        }
    }

    #[test]
    fn weights_that_do_not_fit_are_refused() {
        let w = [1.0, 70_000.0];
        let error = Packed::pack(2, 1, WeightDtype::F16, &(&w[..], 2)).unwrap_err();
        assert!(error.to_string().contains("70000"), "{error}");
        assert!(Packed::pack(2, 1, WeightDtype::Bf16, &(&w[..], 2)).is_ok());
        assert!(Packed::pack(0, 1, WeightDtype::F32, &(&w[..], 2)).is_err());
    }

    #[test]
    fn tiles_are_balanced() {
        let split = |mut left: usize| {
            let mut heights = vec![];
            while left > 0 {
                let height = tile_height(left);
                heights.push(height);
                left -= height;
            }
            heights
        };
        assert_eq!(split(7), [4, 3]);
        assert_eq!(split(8), [4, 4]);
        assert_eq!(split(13), [5, 4, 4]);
        assert_eq!(split(6), [6]);
        assert_eq!(split(1), [1]);
    }
}
