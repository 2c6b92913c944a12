//! The CPU kernel: one number after the other.

use super::AdamWStep;

/// A step over weights and moments, in place.
///
/// # Shapes
/// All `[n]`.
pub fn update_values(step: &AdamWStep, [w, m, v]: [&mut [f32]; 3], g: &[f32]) {
    let (b1, b2) = step.betas;
    for (((w, m), v), &g) in w.iter_mut().zip(m).zip(v).zip(g) {
        *m = b1 * *m + (1.0 - b1) * g;
        *v = b2 * *v + (1.0 - b2) * g * g;
        let direction = *m * step.corrections.0 / ((*v * step.corrections.1).sqrt() + step.epsilon);
        *w = *w * step.keep - step.rate * direction;
    }
}
