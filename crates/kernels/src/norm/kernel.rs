//! The CPU kernel: one row after the other.

use crate::{isa::per_isa, lanes};

per_isa! {
    /// Normalises each row of `x [rows, d]` by its root mean square and scales it by `w [d]`, into `y [rows, d]`.
    pub fn rms_norm(x: &[f32], w: &[f32], eps: f32, y: &mut [f32]) {
        let d = w.len();
        for (x, y) in x.chunks_exact(d).zip(y.chunks_exact_mut(d)) {
            let scale = 1.0 / (lanes::dot(x, x) / d as f32 + eps).sqrt();
            for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
                *y = x * scale * w;
            }
        }
    }
}

per_isa! {
    /// `x ← x + y`.
    pub fn add_rows(x: &mut [f32], y: &[f32]) {
        for (x, y) in x.iter_mut().zip(y) {
            *x += y;
        }
    }
}

#[cfg(test)]
mod tests;
