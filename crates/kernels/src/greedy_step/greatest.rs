//! The greatest entry of a row on a GPU, found by all units of a cube.

use cubecl::prelude::*;

/// Units of a cube that share a row.
pub(crate) const UNITS: usize = 256;
/// Below any logit that counts.
pub(crate) const LEAST: f32 = -3.0e38;

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
    values: &mut Shared<[f32]>,
    places: &mut Shared<[u32]>,
    damaged: &mut Shared<[u32]>,
) {
    let unit = UNIT_POS as usize;
    let mut best = f32::new(LEAST);
    let mut place = none;
    let mut wrong = 0u32;
    let mut i = from + unit;
    while i < end {
        let mut value = f32::cast_from(logits[base + i]);
        // Not a number is neither below nor above the bound.
        let is_number = value <= f32::new(3.0e38) && value >= f32::new(LEAST);
        if !is_number {
            if !(value < f32::new(LEAST)) {
                wrong = 1u32;
            }
            if !(value > f32::new(3.0e38)) {
                value = f32::new(LEAST);
            }
        }
        let after = last_place == none || value < last_value || (value == last_value && i as u32 > last_place);
        if after && (place == none || value > best) {
            best = value;
            place = i as u32;
        }
        i += UNITS;
    }
    sync_cube();
    values[unit] = best;
    places[unit] = place;
    damaged[unit] = wrong;
    sync_cube();
    let mut half = CUBE_DIM as usize / 2;
    while half > 0 {
        if unit < half {
            let (value, place) = (values[unit + half], places[unit + half]);
            let mine = places[unit];
            let greater = value > values[unit] || (value == values[unit] && place < mine);
            if place != none && (mine == none || greater) {
                values[unit] = value;
                places[unit] = place;
            }
            damaged[unit] = max(damaged[unit], damaged[unit + half]);
        }
        sync_cube();
        half /= 2;
    }
}
