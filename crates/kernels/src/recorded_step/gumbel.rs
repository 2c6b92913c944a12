//! The noise of [`gorgon_core::accept::noise`] on a GPU. Its 64-bit numbers are pairs of 32 bits, since not all devices
//! compute with 64.

use super::noise::{NoisePositions, NoiseTable};
use crate::device;
use burn::tensor::{DType, Tensor as Burn};
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;
/// Entries of a row that a unit computes: the row's state is hashed once for all of them.
const ENTRIES: usize = 8;

/// A 64-bit number.
#[derive(CubeType, Clone, Copy)]
struct Wide {
    high: u32,
    low: u32,
}

/// The weight of splitmix64's counter.
#[cube]
fn golden() -> Wide {
    Wide { high: 0x9e37_79b9u32, low: 0x7f4a_7c15u32 }
}

#[cube]
fn sum(a: Wide, b: Wide) -> Wide {
    let low = a.low + b.low;
    let mut high = a.high + b.high;
    if low < a.low {
        high += 1u32;
    }
    Wide { high, low }
}

#[cube]
fn product(a: Wide, b: Wide) -> Wide {
    Wide { high: a.low.mul_hi(b.low) + a.low * b.high + a.high * b.low, low: a.low * b.low }
}

#[cube]
fn xor(a: Wide, b: Wide) -> Wide {
    Wide { high: a.high ^ b.high, low: a.low ^ b.low }
}

/// `a ^ (a >> places)`.
#[cube]
fn fold(a: Wide, #[comptime] places: u32) -> Wide {
    let low = (a.low >> places) | (a.high << comptime!(32 - places));
    Wide { high: a.high ^ (a.high >> places), low: a.low ^ low }
}

/// The finaliser of splitmix64.
#[cube]
fn finalise(bits: Wide) -> Wide {
    let bits = product(fold(bits, 30u32), Wide { high: 0xbf58_476du32, low: 0x1ce4_e5b9u32 });
    let bits = product(fold(bits, 27u32), Wide { high: 0x94d0_49bbu32, low: 0x1331_11ebu32 });
    fold(bits, 31u32)
}

/// The state at a position of a sequence.
#[cube]
fn state_at(key: Wide, position: u32) -> Wide {
    let state = finalise(xor(finalise(golden()), key));
    let state = finalise(xor(finalise(sum(state, golden())), Wide { high: 0u32, low: position }));
    finalise(sum(state, golden()))
}

/// `ln E`, `E = -ln u`. Where `u` is above one half `E` follows from `v = 1 - u`, which is exact:
/// `E = 2 atanh(v / (2 - v))`.
#[cube]
fn log_exponential(state_high: u32, state_low: u32, token: u32) -> f32 {
    let counter = product(golden(), Wide { high: 0u32, low: token + 1u32 });
    let bits = finalise(sum(Wide { high: state_high, low: state_low }, counter));
    let (step, half) = (f32::new(2.0f32.powi(-32)), f32::new(2.0f32.powi(-53)));
    let fine = f32::new(2.0f32.powi(-52));
    let low = bits.low >> 12u32;
    let u = f32::cast_from(bits.high) * step + f32::cast_from(low) * fine + half;
    let mut exponential = -u.ln();
    if bits.high >= 0x8000_0000u32 {
        let v = f32::cast_from(0xffff_ffffu32 - bits.high) * step + f32::cast_from(0xf_ffffu32 - low) * fine + half;
        let z = v / (f32::new(2.0) - v);
        let square = z * z;
        let mut series = f32::new(1.0 / 13.0);
        series = series * square + f32::new(1.0 / 11.0);
        series = series * square + f32::new(1.0 / 9.0);
        series = series * square + f32::new(1.0 / 7.0);
        series = series * square + f32::new(1.0 / 5.0);
        series = series * square + f32::new(1.0 / 3.0);
        series = series * square + f32::new(1.0);
        exponential = f32::new(2.0) * z * series;
    }
    exponential.ln()
}

/// Some entries of a row for each unit.
///
/// # Shapes
/// `logits [rows, V]`, `key [2]`, `out [rows, V]`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn add_noise<F: Float>(
    logits: &Tensor<F>,
    key: &Tensor<i32>,
    positions: &Tensor<i32>,
    out: &mut Tensor<f32>,
    vocab: usize,
    offset: usize,
    stride: usize,
    step: usize,
    sharpness: f32,
    #[define(F)] _dtype: ElemType,
) {
    let row = CUBE_POS_Y as usize;
    let position = u32::cast_from(positions[offset + row * stride]) + 1u32 + (row * step) as u32;
    let state = state_at(Wide { high: u32::cast_from(key[1]), low: u32::cast_from(key[0]) }, position);
    let (high, low) = (state.high, state.low);
    let mut token = CUBE_POS_X as usize * comptime!(UNITS * ENTRIES) + UNIT_POS as usize;
    for _ in 0..ENTRIES {
        if token < vocab {
            let logit = f32::cast_from(logits[row * vocab + token]);
            out[row * vocab + token] = logit * sharpness - log_exponential(high, low, token as u32);
        }
        token += UNITS;
    }
}

/// See [`super::perturb`].
pub(super) fn perturb(logits: &Burn<3>, noise: &NoiseTable, positions: &NoisePositions, sharpness: f32) -> Burn<3> {
    let [batch, rows, vocab] = logits.dims();
    let logits = device::floats(logits);
    let (key, table) = (device::ints(noise.key()), device::ints(&positions.table));
    let out = device::empty(&logits, [batch, rows, vocab], DType::F32);
    // SAFETY: units stay within their rows, and the table has a position for each of them, as `NoisePositions` says.
    unsafe {
        add_noise::launch_unchecked(
            &logits.client,
            CubeCount::Static(vocab.div_ceil(UNITS * ENTRIES) as u32, (batch * rows) as u32, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([&logits, &out]),
            device::arg(&logits),
            device::arg(&key),
            device::arg(&table),
            device::arg(&out),
            vocab,
            positions.offset,
            positions.stride,
            positions.step,
            sharpness,
            device::elem(&logits),
        );
    }
    device::float_tensor(out)
}
