//! The greatest entry of a row on a GPU, found by all units of a cube.

use crate::collective::LEAST;
use cubecl::prelude::*;

/// Units of a cube that share a row.
pub(crate) const UNITS: usize = 256;

/// Memory that the units of a row share. The first place of each holds what [`next_greatest`] found.
#[derive(CubeType)]
pub(crate) struct Greatest {
    pub values: Shared<[f32]>,
    pub places: Shared<[u32]>,
    pub damaged: Shared<[u32]>,
}

#[cube]
pub(crate) fn new_greatest() -> Greatest {
    Greatest { values: Shared::new_slice(UNITS), places: Shared::new_slice(UNITS), damaged: Shared::new_slice(UNITS) }
}

/// Finds the greatest of `logits[base + from..base + end]` that comes after the last one in the order of value and
/// index; after none at all if `last_place` is `none`. It is left in `values[0]`, its index (without `base`) in
/// `places[0]`, and whether an entry is NaN or positive infinity in `damaged[0]`. Entries that are no numbers count as
/// the least.
#[cube]
pub(crate) fn next_greatest<F: Float>(
    logits: &Tensor<F>,
    base: usize,
    from: usize,
    end: usize,
    none: u32,
    last_value: f32,
    last_place: u32,
    memory: &mut Greatest,
) {
    let unit = UNIT_POS as usize;
    let mut best = f32::new(LEAST);
    let mut place = none;
    let mut wrong = 0u32;
    let mut i = from + unit;
    while i < end {
        let (value, not_finite) = finite_or_least(f32::cast_from(logits[base + i]));
        wrong = max(wrong, not_finite);
        let after = last_place == none || value < last_value || (value == last_value && i as u32 > last_place);
        if after && (place == none || value > best) {
            best = value;
            place = i as u32;
        }
        i += UNITS;
    }
    sync_cube();
    memory.values[unit] = best;
    memory.places[unit] = place;
    memory.damaged[unit] = wrong;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            let (value, place) = (memory.values[unit + half], memory.places[unit + half]);
            let (own, mine) = (memory.values[unit], memory.places[unit]);
            let greater = value > own || (value == own && place < mine);
            if place != none && (mine == none || greater) {
                memory.values[unit] = value;
                memory.places[unit] = place;
            }
            memory.damaged[unit] = max(memory.damaged[unit], memory.damaged[unit + half]);
        }
        sync_cube();
        half /= 2;
    }
}

/// The entry, or the least one where it is NaN or minus infinity; and 1 if it is NaN or positive infinity, else 0.
#[cube]
fn finite_or_least(entry: f32) -> (f32, u32) {
    let mut value = entry;
    let mut wrong = 0u32;
    // NaN is neither below nor above a bound.
    let is_number = entry <= f32::new(3.0e38) && entry >= f32::new(LEAST);
    if !is_number {
        if !(entry < f32::new(LEAST)) {
            wrong = 1u32;
        }
        if !(entry > f32::new(3.0e38)) {
            value = f32::new(LEAST);
        }
    }
    (value, wrong)
}
