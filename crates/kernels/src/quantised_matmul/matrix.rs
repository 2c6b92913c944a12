//! Weights as codes in panels.

use super::kernel::exact::E4m3;
use super::scales::{ScaleFormat, Scales};
use super::{CodeBits, LARGEST_GROUP, LINE, PANEL};
use crate::few_row_matmul::{PackError, RowSource, pages};

use memmap2::MmapMut;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Everything about coded weights but the codes.
#[derive(Clone, Debug, PartialEq)]
pub struct Codes {
    /// Input width.
    pub d_in: usize,
    /// Output columns.
    pub d_out: usize,
    /// Size of a code.
    pub bits: CodeBits,
    /// Neighbouring inputs that share a scale; the last group may be shorter.
    pub group: usize,
    /// `[d_out, groups]`.
    pub scales: Vec<f32>,
    /// Number format in which scales are kept. It must hold each of them.
    pub scale_format: ScaleFormat,
    /// `[d_out, groups]`; without them every zero point is [`CodeBits::middle`].
    pub zeros: Option<Vec<u8>>,
    /// Input that stands at each place; without it they are in order. A permutation of `0..d_in`.
    pub order: Option<Vec<u32>>,
    /// The number that each code stands for, where that is not the code less its zero point. Of 4-bit codes the first 16
    /// count.
    pub numbers: Option<Numbers>,
}

/// Numbers by code.
pub type Numbers = Arc<[f32; 256]>;

impl Codes {
    /// Groups of a column.
    pub fn groups(&self) -> usize {
        self.d_in.div_ceil(self.group.max(1))
    }

    /// Bytes of a packed matrix.
    pub fn packed_bytes(&self) -> usize {
        let panels = self.d_out.div_ceil(PANEL);
        let scales = match self.scale_format {
            ScaleFormat::F32 => 4,
            ScaleFormat::F16 | ScaleFormat::Bf16 => 2,
        };
        let of_groups = panels * self.groups() * PANEL * (scales + usize::from(self.zeros.is_some()));
        let order = self.order.as_ref().map_or(0, |order| 4 * order.len());
        panels * self.d_in.div_ceil(self.bits.inputs_per_line()) * LINE + of_groups + order
    }

    /// Whether panels can hold such weights: groups that begin with a line, sums that fit 32 bits, lists of the right
    /// lengths.
    pub fn can_be_packed(&self) -> bool {
        let Some(count) = self.d_out.checked_mul(self.groups()) else { return false };
        let begins = self.group.is_multiple_of(self.bits.inputs_per_line()) || self.group >= self.d_in;
        self.d_in > 0
            && self.d_out > 0
            && self.group > 0
            && begins
            && self.group.min(self.d_in) <= LARGEST_GROUP
            && self.scales.len() == count
            && self.zeros.as_ref().is_none_or(|zeros| zeros.len() == count)
            && self.order.as_ref().is_none_or(|order| is_permutation(order, self.d_in))
    }
}

fn is_permutation(order: &[u32], size: usize) -> bool {
    let mut seen = vec![false; size];
    order.len() == size
        && order.iter().all(|&place| seen.get_mut(place as usize).is_some_and(|seen| !std::mem::replace(seen, true)))
}

/// Where codes come from: rows as checkpoints store them, one per output column of the product.
pub trait CodeSource: Sync {
    /// Writes the codes of rows `rows` of the `[d_out, d_in]` matrix to `out`, one byte each, in the order of
    /// [`Codes::order`].
    ///
    /// # Errors
    /// A one-line description of what could not be read.
    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), String>;
}

impl CodeSource for (&[u8], usize) {
    /// Codes in memory with their row length.
    fn read_codes(&self, rows: Range<usize>, out: &mut [u8]) -> Result<(), String> {
        out.copy_from_slice(&self.0[rows.start * self.1..rows.end * self.1]);
        Ok(())
    }
}

/// Frozen weights in panels `[ceil(d_out / PANEL)][lines][PANEL][4]` bytes; columns beyond `d_out` and inputs beyond
/// `d_in` have the code 0, and their scales are 0.
pub struct QuantisedMatrix {
    panels: MmapMut,
    /// `[panels][groups][PANEL]`.
    scales: Scales,
    /// `[panels][groups][PANEL]`.
    zeros: Option<Vec<u8>>,
    order: Option<Vec<u32>>,
    numbers: Option<Numbers>,
    /// Whether the numbers are 8-bit floats (E4M3) without NaN, which are computed instead of looked up.
    e4m3: bool,
    bits: CodeBits,
    group: usize,
    d_in: usize,
    d_out: usize,
}

impl std::fmt::Debug for QuantisedMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QuantisedMatrix[{} x {} in {} bits]", self.d_out, self.d_in, self.bits.bits())
    }
}

impl QuantisedMatrix {
    /// Packs codes, in parallel over panels.
    ///
    /// # Errors
    /// When panels cannot hold such weights ([`Codes::can_be_packed`]), there is no memory, or the source fails.
    pub fn pack(codes: Codes, source: &dyn CodeSource) -> Result<Self, PackError> {
        let size = PackError::Size { d_out: codes.d_out, d_in: codes.d_in };
        if !codes.can_be_packed() {
            return Err(size);
        }
        let Codes { d_in, d_out, bits, .. } = codes;
        let panel_bytes = d_in.div_ceil(bits.inputs_per_line()) * LINE;
        let Some(total) = d_out.div_ceil(PANEL).checked_mul(panel_bytes) else { return Err(size) };
        let mut panels = pages(total)?;
        let eight = bits == CodeBits::Eight && codes.numbers.as_ref().is_some_and(|numbers| E4m3::is_table(numbers));
        let has_nan = AtomicBool::new(false);
        panels.par_chunks_mut(panel_bytes).enumerate().try_for_each_init(
            || vec![0u8; PANEL * d_in],
            |rows, (panel, bytes)| {
                let range = panel * PANEL..((panel + 1) * PANEL).min(d_out);
                let rows = &mut rows[..range.len() * d_in];
                source.read_codes(range, rows).map_err(PackError::Source)?;
                if eight && rows.iter().any(|&code| E4m3::is_nan(code)) {
                    has_nan.store(true, Ordering::Relaxed);
                }
                lay(rows, d_in, bits, bytes);
                Ok(())
            },
        )?;
        let zeros = codes.zeros.as_ref().map(|zeros| by_panel(zeros, codes.groups(), d_out));
        let scales = Scales::new(codes.scale_format, by_panel(&codes.scales, codes.groups(), d_out));
        let Codes { order, numbers, group, .. } = codes;
        let e4m3 = eight && !has_nan.into_inner();
        Ok(Self { panels, scales, zeros, order, numbers, e4m3, bits, group: group.min(d_in), d_in, d_out })
    }

    /// Input width.
    pub fn d_in(&self) -> usize {
        self.d_in
    }

    /// Output columns.
    pub fn d_out(&self) -> usize {
        self.d_out
    }

    /// Size of a code.
    pub fn bits(&self) -> CodeBits {
        self.bits
    }

    /// Neighbouring inputs that share a scale.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Bytes held, padding included.
    pub fn bytes(&self) -> usize {
        let order = self.order.as_ref().map_or(0, |order| 4 * order.len());
        self.panels.len() + self.scales.bytes() + self.zeros.as_ref().map_or(0, Vec::len) + order
    }

    /// Whether codes stand for numbers of a table, which no integer product can multiply.
    pub(super) fn has_numbers(&self) -> bool {
        self.numbers.is_some()
    }

    /// Input that stands at each place, if they are not in order.
    pub(super) fn order(&self) -> Option<&[u32]> {
        self.order.as_deref()
    }

    /// Groups of a column.
    pub(super) fn groups(&self) -> usize {
        self.d_in.div_ceil(self.group)
    }

    /// Lines of a panel.
    pub(super) fn lines(&self) -> usize {
        self.d_in.div_ceil(self.bits.inputs_per_line())
    }

    /// A panel's codes, scales and zero points.
    pub(super) fn panel(&self, panel: usize) -> Panel<'_> {
        let (size, groups) = (self.lines() * LINE, self.groups());
        Panel {
            codes: &self.panels[panel * size..(panel + 1) * size],
            scales: &self.scales,
            zeros: self.zeros.as_deref(),
            meaning: match self.numbers.as_deref() {
                None => Meaning::Integers,
                Some(_) if self.e4m3 => Meaning::E4m3,
                Some(numbers) => Meaning::Table(numbers),
            },
            first: panel * groups * PANEL,
            groups,
            lines_per_group: self.group.div_ceil(self.bits.inputs_per_line()),
            bits: self.bits,
        }
    }

    /// Copies row `row` of the dequantised `[d_out, d_in]` matrix to `out`: an embedding look-up in tied weights.
    ///
    /// # Panics
    /// If `row >= d_out` or `out` is not `d_in` long.
    pub fn copy_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.d_out && out.len() == self.d_in, "row {row} of {self:?}");
        let (panel, column) = (self.panel(row / PANEL), row % PANEL);
        for place in 0..self.d_in {
            let at = self.order.as_ref().map_or(place, |order| order[place] as usize);
            out[at] = panel.weight(place / self.group, place, column);
        }
    }
}

/// The dequantised rows, to be packed anew in another type.
impl RowSource for QuantisedMatrix {
    fn read_rows(&self, rows: Range<usize>, out: &mut [f32]) -> Result<(), String> {
        for (row, out) in rows.zip(out.chunks_exact_mut(self.d_in)) {
            self.copy_row(row, out);
        }
        Ok(())
    }
}

/// Values `[d_out, groups]` as `[panels][groups][PANEL]`.
fn by_panel<T: Copy + Default>(values: &[T], groups: usize, d_out: usize) -> Vec<T> {
    let mut laid = vec![T::default(); d_out.div_ceil(PANEL) * groups * PANEL];
    for (row, values) in values.chunks_exact(groups).enumerate() {
        for (group, &value) in values.iter().enumerate() {
            laid[(row / PANEL * groups + group) * PANEL + row % PANEL] = value;
        }
    }
    laid
}

/// Lays the codes of up to [`PANEL`] rows into a panel.
fn lay(rows: &[u8], d_in: usize, bits: CodeBits, panel: &mut [u8]) {
    let width = bits.inputs_per_line();
    for (column, row) in rows.chunks_exact(d_in).enumerate() {
        for (inputs, line) in row.chunks(width).zip(panel.chunks_exact_mut(LINE)) {
            let cell = &mut line[4 * column..4 * column + 4];
            for (place, &code) in inputs.iter().enumerate() {
                match bits {
                    CodeBits::Eight => cell[place] = code,
                    CodeBits::Four => cell[place % 4] |= (code & 15) << (place / 4 * 4),
                }
            }
        }
    }
}

/// The numbers that codes stand for.
#[derive(Clone, Copy)]
pub(super) enum Meaning<'a> {
    /// The code less its zero point.
    Integers,
    /// The number at the code's place.
    Table(&'a [f32; 256]),
    /// 8-bit floats.
    E4m3,
}

/// One panel of a matrix.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    /// `[lines][PANEL][4]`.
    pub codes: &'a [u8],
    pub scales: &'a Scales,
    pub zeros: Option<&'a [u8]>,
    pub meaning: Meaning<'a>,
    /// Where this panel's scales and zero points begin.
    first: usize,
    pub groups: usize,
    pub lines_per_group: usize,
    pub bits: CodeBits,
}

impl Panel<'_> {
    /// Lines of a group.
    #[inline(always)]
    pub fn lines_of(&self, group: usize) -> Range<usize> {
        let start = group * self.lines_per_group;
        start..(start + self.lines_per_group).min(self.codes.len() / LINE)
    }

    /// Where the scales and zero points of `count` columns of a group are.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    #[inline(always)]
    pub fn place(&self, group: usize, column: usize, count: usize) -> Range<usize> {
        let start = self.first + group * PANEL + column;
        start..start + count
    }

    /// Scales of `N` columns of a group.
    #[inline(always)]
    pub fn scales_of<const N: usize>(&self, group: usize, column: usize) -> [f32; N] {
        self.scales.several(self.first + group * PANEL + column)
    }

    /// Zero points of `N` columns of a group.
    #[inline(always)]
    pub fn zeros_of<const N: usize>(&self, group: usize, column: usize) -> [i32; N] {
        match self.zeros {
            None => [i32::from(self.bits.middle()); N],
            Some(zeros) => {
                let zeros = &zeros[self.first + group * PANEL + column..][..N];
                std::array::from_fn(|i| i32::from(zeros[i]))
            }
        }
    }

    /// Dequantised weight at a place of a column.
    fn weight(&self, group: usize, place: usize, column: usize) -> f32 {
        let [zero] = self.zeros_of::<1>(group, column);
        let code = self.code(place, column);
        let number = match self.meaning {
            Meaning::Integers => (code - zero) as f32,
            Meaning::Table(numbers) => numbers[code as usize],
            Meaning::E4m3 => E4m3::number(code as u32),
        };
        self.scales.get(self.first + group * PANEL + column) * number
    }

    /// Code at a place of a column.
    pub fn code(&self, place: usize, column: usize) -> i32 {
        let width = self.bits.inputs_per_line();
        let byte = self.codes[place / width * LINE + 4 * column + place % 4];
        i32::from(match self.bits {
            CodeBits::Eight => byte,
            CodeBits::Four => byte >> (place % width / 4 * 4) & 15,
        })
    }
}
