//! The CPU kernel: panels streamed once, accumulators in registers.

use super::element::Element;
use super::{PAIR, PANEL, Packed, TILE_ROWS, WeightDtype};
use crate::Isa;
use half::{bf16, f16};
use std::cell::RefCell;
use std::mem::MaybeUninit;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU64, Ordering};

/// `y = x · W + bias`.
///
/// # Shapes
/// `x [rows, d_in]`, `bias [d_out]`, `y [rows, d_out]`.
///
/// # Panics
/// If a length does not fit.
pub fn few_row_matmul(isa: Isa, x: &[f32], w: &Packed, bias: Option<&[f32]>, y: &mut [f32]) {
    // SAFETY: a product writes numbers only.
    write_product(isa, x, w, bias, unsafe { crate::host::as_unwritten(y) });
}

/// [`few_row_matmul`] into memory that may hold nothing yet; all of `y` is written.
pub(super) fn write_product(isa: Isa, x: &[f32], w: &Packed, bias: Option<&[f32]>, y: &mut [MaybeUninit<f32>]) {
    let (d_in, d_out) = (w.d_in(), w.d_out());
    let rows = x.len() / d_in;
    assert!(x.len() == rows * d_in && y.len() == rows * d_out, "{} values against {w:?}", x.len());
    assert!(bias.is_none_or(|b| b.len() == d_out), "a bias of another width than {w:?}");
    match w.dtype() {
        WeightDtype::F32 => multiply::<f32>(isa, x, w, bias, y),
        WeightDtype::F16 => multiply::<f16>(isa, x, w, bias, y),
        WeightDtype::Bf16 => multiply::<bf16>(isa, x, w, bias, y),
        #[cfg(target_arch = "x86_64")]
        WeightDtype::Bf16Pairs => multiply_pairs(isa, x, w, bias, y),
        #[cfg(not(target_arch = "x86_64"))]
        WeightDtype::Bf16Pairs => unreachable!("packing refuses them"),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn multiply<T: Tile>(isa: Isa, x: &[f32], w: &Packed, bias: Option<&[f32]>, y: &mut [MaybeUninit<f32>]) {
    multiply_low::<T>(isa, x, w, &Output::new(w, bias, y));
}

/// The product in the type of the panels, whose rows are as wide as a panel has lines.
#[cfg(target_arch = "x86_64")]
fn multiply<T: Tile + tall::Tall>(isa: Isa, x: &[f32], w: &Packed, bias: Option<&[f32]>, y: &mut [MaybeUninit<f32>]) {
    let (d_in, d_out) = (w.lines(), w.d_out());
    let from = if w.bytes() > tall::IN_CACHE { tall::FROM } else { tall::FROM_IN_CACHE };
    if isa.kind() != crate::isa::Kind::Avx512 || x.len() < from * d_in {
        return multiply_low::<T>(isa, x, w, &Output::new(w, bias, y));
    }
    let chunk = chunk_rows(x.len() / d_in, d_in);
    for (x, y) in x.chunks(chunk * d_in).zip(y.chunks_mut(chunk * d_out)) {
        let (rows, out) = (x.len() / d_in, Output::new(w, bias, y));
        // What is left over may be less than the lowest tile.
        match rows < from {
            true => multiply_low::<T>(isa, x, w, &out),
            // SAFETY: the instruction set was looked at above, and that of pairs when they were packed.
            false => unsafe { multiply_tall::<T>(x, rows, w, &out) },
        }
    }
}

/// `y = x · W + bias` for any number of rows, with weights in pairs; all of `y` is written.
///
/// # Shapes
/// As of [`few_row_matmul`].
#[cfg(target_arch = "x86_64")]
fn multiply_pairs(isa: Isa, x: &[f32], w: &Packed, bias: Option<&[f32]>, y: &mut [MaybeUninit<f32>]) {
    thread_local! {
        /// Kept, so that steps after the first allocate nothing.
        static PAIRED: RefCell<Vec<f32>> = const { RefCell::new(vec![]) };
    }
    let (d_in, d_out, width) = (w.d_in(), w.d_out(), w.lines());
    let chunk = chunk_rows(x.len() / d_in, width);
    for (x, y) in x.chunks(chunk * d_in).zip(y.chunks_mut(chunk * d_out)) {
        PAIRED.with_borrow_mut(|paired| {
            // SAFETY: packing saw that the processor has the instructions.
            unsafe { super::pairs::pair_rows(x, d_in, paired) }
            multiply::<super::pairs::Pair>(isa, &paired[..x.len() / d_in * width], w, bias, y);
        });
    }
}

/// Rows that are computed at once, in chunks of nearly equal size.
#[cfg(target_arch = "x86_64")]
fn chunk_rows(rows: usize, d_in: usize) -> usize {
    rows.div_ceil(rows.div_ceil(super::rows_side_by_side(d_in)).max(1)).max(1)
}

/// Tiles of up to six rows, which read rows of `x` as they are.
fn multiply_low<T: Tile>(isa: Isa, x: &[f32], w: &Packed, out: &Output<'_>) {
    let d_in = w.lines();
    let rows = x.len() / d_in;
    crate::team::run(w.d_out().div_ceil(PAIR), x.len() * w.d_out(), |pair| {
        let weights = pair_of::<T>(w, pair);
        with_sums(rows, |sums| {
            let mut row = 0;
            while row < rows {
                let height = tile_height(rows - row);
                T::multiply(isa, &x[row * d_in..(row + height) * d_in], d_in, weights, &mut sums[row..row + height]);
                row += height;
            }
            out.write(pair, sums);
        });
    });
}

/// Tiles of up to fifteen rows, which read rows side by side. Only the first `rows` rows' results are written.
///
/// # Safety
/// The processor has AVX-512 F and BW, and for pairs BF16.
#[cfg(target_arch = "x86_64")]
unsafe fn multiply_tall<T: tall::Tall>(x: &[f32], rows: usize, w: &Packed, out: &Output<'_>) {
    let (count, d_in) = (x.len() / w.lines(), w.lines());
    // Pairs are handed out in order, so a thread's next one is probably as many further on as there are threads.
    let stride = crate::team::threads() * PAIR * d_in;
    let multiply = |laid: &tall::SideBySide<'_>, pair: usize| {
        let weights = pair_of::<T>(w, pair);
        with_sums(count, |sums| {
            laid.multiply(weights, weights.as_ptr().wrapping_add(stride), sums);
            out.write(pair, &mut sums[..rows]);
        });
    };
    let (tasks, work) = (w.d_out().div_ceil(PAIR), x.len() * w.d_out());
    if count <= super::TALLEST || x.len() <= OWN_COPIES {
        // Few rows are laid by each thread for itself: memory that others have read lately is slow to write.
        let product = PRODUCTS.fetch_add(1, Ordering::Relaxed);
        return crate::team::run(tasks, work, |pair| {
            OWN.with_borrow_mut(|(of, space)| {
                if *of != product {
                    // SAFETY: the caller's promise.
                    unsafe { tall::SideBySide::new(x, d_in, space) };
                    *of = product;
                }
                multiply(&tall::SideBySide::again(count, d_in, space), pair);
            });
        });
    }
    SPACE.with_borrow_mut(|space| {
        // SAFETY: the caller's promise.
        let laid = unsafe { tall::SideBySide::new(x, d_in, space) };
        crate::team::run(tasks, work, |pair| multiply(&laid, pair));
    });
}

#[cfg(target_arch = "x86_64")]
thread_local! {
    /// Rows side by side; kept, so that steps after the first allocate nothing.
    static SPACE: RefCell<Vec<f32>> = const { RefCell::new(vec![]) };
    /// A thread's own copy of few rows, and the product that they are of.
    static OWN: RefCell<(u64, Vec<f32>)> = const { RefCell::new((0, vec![])) };
}
/// Values of more rows than one tile's that each thread copies for itself.
#[cfg(target_arch = "x86_64")]
const OWN_COPIES: usize = 1 << 14;
/// Products of few rows so far, and one.
#[cfg(target_arch = "x86_64")]
static PRODUCTS: AtomicU64 = AtomicU64::new(1);

/// Rows as a product's panels are multiplied with them.
pub(super) struct Read<'a> {
    /// Rows in the panels' lines: numbers, or pairs of them.
    lines: &'a [f32],
    width: usize,
    /// The numbers that are multiplied, `[rows, d_in]`.
    pub numbers: &'a [f32],
}

impl<'a> Read<'a> {
    /// A row's lines.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.lines[row * self.width..(row + 1) * self.width]
    }
}

/// Converts `x [rows, d_in]` into the form that a matmul with `w` multiplies, in `paired` and `rounded` if that is
/// another one.
pub(super) fn as_read<'a>(x: &'a [f32], w: &Packed, paired: &'a mut Vec<f32>, rounded: &'a mut Vec<f32>) -> Read<'a> {
    if w.dtype() != WeightDtype::Bf16Pairs {
        return Read { lines: x, width: w.d_in(), numbers: x };
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: packing saw that the processor has the instructions.
    unsafe {
        super::pairs::pair_rows(x, w.d_in(), paired);
    }
    rounded.clear();
    rounded.extend(x.iter().map(|&value| bf16::from_f32(value).to_f32()));
    Read { lines: paired, width: w.lines(), numbers: rounded }
}

/// One row times one panel, `out = x · panel`: the same bits as in a product of all panels. `x` is a row of [`Read`].
pub(super) fn panel(isa: Isa, x: &[f32], w: &Packed, panel: usize, out: &mut [f32; PANEL]) {
    fn one<T: Tile>(isa: Isa, x: &[f32], w: &Packed, panel: usize) -> [f32; PAIR] {
        let size = PANEL * w.lines();
        let mut sums = [[0f32; PAIR]];
        T::multiply(isa, x, w.lines(), &w.elements::<T>()[panel * size..][..size], &mut sums);
        sums[0]
    }
    let sums = match w.dtype() {
        WeightDtype::F32 => one::<f32>(isa, x, w, panel),
        WeightDtype::F16 => one::<f16>(isa, x, w, panel),
        WeightDtype::Bf16 => one::<bf16>(isa, x, w, panel),
        #[cfg(target_arch = "x86_64")]
        WeightDtype::Bf16Pairs => one::<super::pairs::Pair>(isa, x, w, panel),
        #[cfg(not(target_arch = "x86_64"))]
        WeightDtype::Bf16Pairs => unreachable!("packing refuses them"),
    };
    out.copy_from_slice(&sums[..PANEL]);
}

/// One or two panels.
fn pair_of<T: Element>(w: &Packed, pair: usize) -> &[T] {
    let first = pair * PAIR;
    let columns = PAIR.min(w.d_out() - first);
    &w.elements::<T>()[first * w.lines()..][..columns.next_multiple_of(PANEL) * w.lines()]
}

/// The output, written by one task per pair of panels.
struct Output<'a> {
    y: *mut f32,
    d_out: usize,
    bias: Option<&'a [f32]>,
}
// SAFETY: each pair of panels writes only its own columns, and each is handled by one task.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    fn new(w: &'a Packed, bias: Option<&'a [f32]>, y: &'a mut [MaybeUninit<f32>]) -> Self {
        Self { y: y.as_mut_ptr().cast(), d_out: w.d_out(), bias }
    }

    /// Adds the bias to the sums of a pair's columns and writes them.
    fn write(&self, pair: usize, sums: &mut [[f32; PAIR]]) {
        let first = pair * PAIR;
        let columns = PAIR.min(self.d_out - first);
        for (row, sums) in sums.iter_mut().enumerate() {
            if let Some(bias) = self.bias {
                for (sum, b) in sums.iter_mut().zip(&bias[first..first + columns]) {
                    *sum += b;
                }
            }
            // SAFETY: row `row` and columns `first..first + columns` lie within y, and belong to this task.
            unsafe {
                let to = self.y.add(row * self.d_out + first);
                // A known length is a few stores instead of a call.
                match columns {
                    PAIR => std::ptr::copy_nonoverlapping(sums.as_ptr(), to, PAIR),
                    _ => std::ptr::copy_nonoverlapping(sums.as_ptr(), to, columns),
                }
            }
        }
    }
}

/// Sums of `rows` rows, of any value, for `work` to fill.
fn with_sums(rows: usize, work: impl FnOnce(&mut [[f32; PAIR]])) {
    thread_local! {
        /// Kept, so that steps after the first allocate nothing.
        static SUMS: RefCell<Vec<[f32; PAIR]>> = const { RefCell::new(vec![]) };
    }
    SUMS.with_borrow_mut(|sums| {
        if sums.len() < rows {
            sums.resize(rows, [0.0; PAIR]);
        }
        work(&mut sums[..rows]);
    });
}

/// Splits the remaining rows into tiles of nearly equal height, so that no tile wastes a pass on a single row.
fn tile_height(left: usize) -> usize {
    left.div_ceil(left.div_ceil(TILE_ROWS))
}

/// A tile: up to [`TILE_ROWS`] rows times one or two panels.
pub(super) trait Tile: Element {
    fn multiply(isa: Isa, x: &[f32], d_in: usize, panels: &[Self], sums: &mut [[f32; PAIR]]);
}

macro_rules! tile {
    ($element:ty, $name:ident) => {
        impl Tile for $element {
            fn multiply(isa: Isa, x: &[f32], d_in: usize, panels: &[Self], sums: &mut [[f32; PAIR]]) {
                let size = d_in * PANEL;
                assert!(x.len() == sums.len() * d_in && (panels.len() == size || panels.len() == 2 * size));
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the features were detected, and the lengths were checked above.
                unsafe {
                    match isa.kind() {
                        crate::isa::Kind::Avx512 => return x86::avx512::$name(x, d_in, panels, sums),
                        crate::isa::Kind::Avx2 => return x86::avx2::$name(x, d_in, panels, sums),
                        crate::isa::Kind::Portable => {}
                    }
                }
                let _ = isa;
                portable(x, d_in, panels, sums);
            }
        }
    };
}
tile!(f32, rows_f32);
tile!(f16, rows_f16);
tile!(bf16, rows_bf16);

#[cfg(target_arch = "x86_64")]
impl Tile for super::pairs::Pair {
    fn multiply(_: Isa, x: &[f32], d_in: usize, panels: &[Self], sums: &mut [[f32; PAIR]]) {
        let size = d_in * PANEL;
        assert!(x.len() == sums.len() * d_in && (panels.len() == size || panels.len() == 2 * size));
        // SAFETY: packing saw that the processor has the instructions, and the lengths were checked above.
        unsafe { x86::avx512::rows_pairs(x, d_in, panels, sums) }
    }
}

/// Any processor: one row at a time, sixteen columns at a time, so that the partial sums stay in registers.
fn portable<T: Element>(x: &[f32], d_in: usize, panels: &[T], sums: &mut [[f32; PAIR]]) {
    const WIDTH: usize = 16;
    for (p, panel) in panels.chunks_exact(d_in * PANEL).enumerate() {
        for (row, sums) in x.chunks_exact(d_in).zip(sums.iter_mut()) {
            for start in (0..PANEL).step_by(WIDTH) {
                let mut acc = [0f32; WIDTH];
                for (&value, weights) in row.iter().zip(panel.chunks_exact(PANEL)) {
                    for (a, w) in acc.iter_mut().zip(&weights[start..start + WIDTH]) {
                        *a = value.mul_add(w.widen(), *a);
                    }
                }
                sums[p * PANEL + start..][..WIDTH].copy_from_slice(&acc);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod tall;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;
