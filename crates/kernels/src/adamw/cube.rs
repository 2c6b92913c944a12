//! A step of AdamW on a GPU.

use super::AdamWStep;
use crate::device;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

/// Units of a cube.
const UNITS: usize = 256;
/// Numbers of a unit: their loads are under way at once.
const NUMBERS: usize = 4;
/// Cubes in a row of the grid: devices bound each side of it.
const SIDE: usize = 1 << 15;

/// Some numbers of a parameter, from first to last: each is read before it is written. Sums of products are fused by
/// name, so every device computes the same.
#[cube(launch_unchecked, address_type = "dynamic")]
fn update_numbers(
    w: &mut Tensor<f32>,
    m: &mut Tensor<f32>,
    v: &mut Tensor<f32>,
    g: &Tensor<f32>,
    size: usize,
    b1: f32,
    b2: f32,
    first_correction: f32,
    second_correction: f32,
    epsilon: f32,
    rate: f32,
    keep: f32,
) {
    let from = CUBE_POS as usize * comptime!(UNITS * NUMBERS) + UNIT_POS as usize;
    let (own1, own2) = (f32::new(1.0) - b1, f32::new(1.0) - b2);
    #[unroll]
    for i in 0..comptime!(NUMBERS) {
        let at = from + comptime!(i * UNITS);
        if at < size {
            let gradient = g[at];
            let first = fma(b1, m[at], own1 * gradient);
            let second = fma(b2, v[at], own2 * gradient * gradient);
            let direction = first * first_correction / ((second * second_correction).sqrt() + epsilon);
            let weight = fma(w[at], keep, (f32::new(0.0) - rate) * direction);
            m[at] = first;
            v[at] = second;
            w[at] = weight;
        }
    }
}

/// See [`super::update`]: in the memory of weights and moments that nobody else sees, otherwise in copies.
pub(super) fn update(step: &AdamWStep, tensors: [CubeTensor; 3], g: &CubeTensor) -> [CubeTensor; 3] {
    let tensors = tensors.map(|tensor| if tensor.can_mut() { tensor } else { tensor.copy() });
    let [w, m, v] = &tensors;
    let size = g.meta.shape()[0];
    let cubes = size.div_ceil(UNITS * NUMBERS);
    // SAFETY: all tensors are as large, and numbers beyond the last are left alone.
    unsafe {
        update_numbers::launch_unchecked(
            &g.client,
            CubeCount::Static(cubes.min(SIDE) as u32, cubes.div_ceil(SIDE) as u32, 1),
            CubeDim::new_1d(UNITS as u32),
            device::address([w, m, v, g]),
            device::arg(w),
            device::arg(m),
            device::arg(v),
            device::arg(g),
            size,
            step.betas.0,
            step.betas.1,
            step.corrections.0,
            step.corrections.1,
            step.epsilon,
            step.rate,
            step.keep,
        );
    }
    tensors
}
