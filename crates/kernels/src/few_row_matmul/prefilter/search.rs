//! From bounds to the greatest outputs.

use super::super::{PANEL, kernel as product};
use super::{GROUP, Int8Prefilter, Rows, TILE, tile_of, tile_of_row};
use crate::{Isa, lanes};
use std::cell::RefCell;
use std::ops::Range;

/// Panels that are filtered as one piece of work.
const PIECE: usize = 4;
/// Looking at more than one panel in so many once more, by rows in 16 bits, is no gain over doing so at once.
const TOO_MANY_CLOSE: usize = 4;
/// Computing more than one panel in so many after all is no gain.
const TOO_MANY: usize = 8;

/// Memory of a search; kept by its thread, so that steps after the first allocate nothing.
#[derive(Default)]
struct Scratch {
    rows: Rows,
    /// The greatest lower and upper bounds, `[rows][panels]` each.
    bounds: [Vec<f32>; 2],
    /// Open panels of rows in 16 bits.
    close: [Vec<f32>; 2],
    /// Panels that may hold one of a row's greatest outputs: row and panel, by row.
    open: Vec<(u32, u32)>,
    /// Their outputs.
    outputs: Vec<[f32; PANEL]>,
    /// Rows as pairs or as they round to pairs, for weights in pairs.
    paired: [Vec<f32>; 2],
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    /// The greatest bounds of one row.
    static TOP: RefCell<Vec<(u32, f32)>> = const { RefCell::new(vec![]) };
}

impl Int8Prefilter {
    /// The `counts[i]` greatest outputs of each row `i` of `x · W`, greatest first, the lower column first on ties, one
    /// row after the other in `found` as `(column, output)`. False, and nothing of use in `found`, where filtering is
    /// of no use: a row is not finite, there are fewer panels than are wanted, or too much would have to be computed
    /// after all, now or lately.
    ///
    /// # Shapes
    /// `x [rows, d_in]`, `counts [rows]`.
    ///
    /// # Panics
    /// If a length does not fit.
    pub fn greatest(&self, isa: Isa, x: &[f32], counts: &[usize], found: &mut Vec<(u32, f32)>) -> bool {
        assert_eq!(x.len(), counts.len() * self.d_in, "rows for {self:?}");
        found.clear();
        let panels = self.d_out.div_ceil(PANEL);
        if counts.iter().any(|&count| count > panels) || !self.backoff.asks() {
            return false;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { rows: set, bounds, close, open, outputs, paired: [paired, rounded] } = scratch;
            // What the product reads, and the numbers that it means.
            let read = product::as_read(x, &self.weights, paired, rounded);
            if !set.set(read.numbers, self) {
                return false;
            }
            let useful = self.open_panels(isa, set, counts, bounds, close, open);
            self.backoff.note(useful);
            if useful {
                outputs.resize(open.len(), [0.0; PANEL]);
                crate::team::chunks(outputs, 1, open.len() * PANEL * self.d_in, |i, out| {
                    let (row, panel) = open[i];
                    product::panel(isa, read.row(row as usize), &self.weights, panel as usize, &mut out[0]);
                });
                choose(open, outputs, counts, self.d_out, found);
            }
            useful
        })
    }

    /// The panels that may hold one of a row's greatest outputs; false if they are too many.
    fn open_panels(
        &self,
        isa: Isa,
        rows: &Rows,
        counts: &[usize],
        bounds: &mut [Vec<f32>; 2],
        close: &mut [Vec<f32>; 2],
        open: &mut Vec<(u32, u32)>,
    ) -> bool {
        let panels = self.d_out.div_ceil(PANEL);
        let few = |open: &[(u32, u32)]| open.len() * TOO_MANY <= counts.len() * panels;
        if self.coarse_backoff.asks() {
            self.prefilter(rows, true, bounds);
            self.left_by(isa, bounds, counts, open);
            // Each is looked at for itself, so of several rows fewer may be left.
            let useful = open.len() * TOO_MANY_CLOSE <= (counts.len() + 1) * panels;
            self.coarse_backoff.note(useful);
            if useful {
                self.look_closer(isa, rows, counts, open, close);
                return few(open);
            }
        }
        self.prefilter(rows, false, bounds);
        self.left_by(isa, bounds, counts, open);
        few(open)
    }

    /// The panels that may hold one of a row's greatest outputs by bounds of all panels.
    fn left_by(&self, isa: Isa, bounds: &[Vec<f32>; 2], counts: &[usize], open: &mut Vec<(u32, u32)>) {
        let panels = self.d_out.div_ceil(PANEL);
        open.clear();
        for (row, &count) in counts.iter().enumerate() {
            let [low, high] = bounds.each_ref().map(|bounds| &bounds[row * panels..(row + 1) * panels]);
            let least = nth_greatest(isa, low, count);
            let may = high.iter().enumerate().filter(|(_, high)| **high >= least && count > 0);
            open.extend(may.map(|(panel, _)| (row as u32, panel as u32)));
        }
    }

    /// Leaves those of the open panels that are open by bounds of rows in 16 bits too, which are in `close` then.
    fn look_closer(
        &self,
        isa: Isa,
        rows: &Rows,
        counts: &[usize],
        open: &mut Vec<(u32, u32)>,
        close: &mut [Vec<f32>; 2],
    ) {
        let [low, high] = close;
        low.resize(open.len().max(low.len()), 0.0);
        high.resize(open.len().max(high.len()), 0.0);
        let out = Bounds { low: low.as_mut_ptr(), high: high.as_mut_ptr(), panels: 0 };
        crate::team::run(open.len(), 2 * open.len() * PANEL * self.d_in / GROUP, |i| {
            let (row, panel) = (open[i].0 as usize, open[i].1 as usize);
            let tile = tile_of_row(row, rows.facts.len());
            // SAFETY: each place is written by one task, within the bounds' size.
            self.tile::<false>(panel, rows, tile, row..row + 1, |_, bounds| unsafe { out.write(0, i, bounds) });
        });
        let (mut start, mut kept) = (0, 0);
        for (row, &count) in counts.iter().enumerate() {
            let end = start + open[start..].iter().take_while(|(of, _)| *of as usize == row).count();
            let least = nth_greatest(isa, &low[start..end], count);
            for i in start..end {
                if high[i] >= least {
                    open[kept] = open[i];
                    kept += 1;
                }
            }
            start = end;
        }
        open.truncate(kept);
    }

    /// Bounds of all panels for all rows, in 8 bits or in 16.
    fn prefilter(&self, rows: &Rows, coarse: bool, bounds: &mut [Vec<f32>; 2]) {
        let (count, panels) = (rows.facts.len(), self.d_out.div_ceil(PANEL));
        bounds.iter_mut().for_each(|bounds| bounds.resize((count * panels).max(bounds.len()), 0.0));
        let [low, high] = bounds;
        let out = Bounds { low: low.as_mut_ptr(), high: high.as_mut_ptr(), panels };
        crate::team::run(panels.div_ceil(PIECE), count * self.d_out * self.d_in, |piece| {
            for panel in piece * PIECE..((piece + 1) * PIECE).min(panels) {
                // SAFETY: each row and panel is written by one task, within the bounds' size.
                let write = |row: usize, bounds| unsafe { out.write(row, panel, bounds) };
                for tile in (0..count.div_ceil(TILE)).map(|tile| tile_of(tile, count)) {
                    if coarse {
                        self.tile::<true>(panel, rows, tile.clone(), tile, write);
                        continue;
                    }
                    // Sums of both parts fill the registers with half as many rows.
                    let half = tile.start + tile.len().div_ceil(2);
                    for part in [tile.start..half, half..tile.end] {
                        self.tile::<false>(panel, rows, tile.clone(), part, write);
                    }
                }
            }
        });
    }

    /// Bounds of a panel for some rows of a tile, in 8 bits (all of the tile) or in 16.
    fn tile<const COARSE: bool>(
        &self,
        panel: usize,
        rows: &Rows,
        tile: Range<usize>,
        part: Range<usize>,
        mut write: impl FnMut(usize, [f32; 2]),
    ) {
        #[cfg(target_arch = "x86_64")]
        {
            macro_rules! tiles {
                ($bounds:ident: $($height:literal)*) => {
                    match part.len() {
                        0 => {}
                        $($height => {
                            // SAFETY: a prefilter is made only where the processor has the instructions.
                            let bounds = unsafe { $bounds!($height) };
                            part.zip(bounds).for_each(|(row, bounds)| write(row, bounds));
                        })*
                        height => unreachable!("a tile of {height} rows"),
                    }
                };
            }
            macro_rules! in_8 {
                ($height:literal) => {
                    super::kernel::coarse::<$height>(self, panel, rows, tile)
                };
            }
            macro_rules! in_16 {
                ($height:literal) => {
                    super::kernel::fine::<$height>(self, panel, rows, tile, part.start)
                };
            }
            match COARSE {
                true => tiles!(in_8: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                false => tiles!(in_16: 1 2 3 4 5 6 7),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (&mut write, rows);
            unreachable!("prefilters are made elsewhere: {panel} {tile:?} {part:?}")
        }
    }
}

/// The bounds, written by one task per panel.
struct Bounds {
    low: *mut f32,
    high: *mut f32,
    panels: usize,
}
// SAFETY: tasks write disjoint parts.
unsafe impl Sync for Bounds {}

impl Bounds {
    /// # Safety
    /// The place lies within the bounds and is written by no other task.
    unsafe fn write(&self, row: usize, panel: usize, [low, high]: [f32; 2]) {
        // SAFETY: the caller's promise.
        unsafe {
            *self.low.add(row * self.panels + panel) = low;
            *self.high.add(row * self.panels + panel) = high;
        }
    }
}

/// The `count`-th greatest value; negative infinity if there are not so many.
fn nth_greatest(isa: Isa, values: &[f32], count: usize) -> f32 {
    match count {
        0 | 1 => lanes::max(values),
        _ if count > values.len() => f32::NEG_INFINITY,
        _ => TOP.with_borrow_mut(|top| {
            crate::top_rows::greatest(isa, values, count, top);
            top.last().map_or(f32::NEG_INFINITY, |&(_, value)| value)
        }),
    }
}

/// The greatest of the outputs of open panels, row by row.
fn choose(open: &[(u32, u32)], outputs: &[[f32; PANEL]], counts: &[usize], d_out: usize, found: &mut Vec<(u32, f32)>) {
    let mut next = 0;
    for (row, &count) in counts.iter().enumerate() {
        let start = found.len();
        while let Some(&(_, panel)) = open.get(next).filter(|(of, _)| *of as usize == row) {
            let first = panel as usize * PANEL;
            for (column, &value) in (first..d_out).zip(&outputs[next]) {
                let full = found.len() - start == count;
                if full && found.last().is_none_or(|least| value <= least.1) {
                    continue;
                }
                // Columns come in increasing order, so an equal one goes behind.
                let place = start + found[start..].partition_point(|&(_, other)| other >= value);
                found.insert(place, (column as u32, value));
                found.truncate(start + count);
            }
            next += 1;
        }
    }
}
