//! The CPU kernel.

use crate::isa::per_isa;

per_isa! {
    /// Rotates each head of one position in place by the angles whose cosines and sines are given.
    ///
    /// `heads [n, head_dim]`, `cos [r/2]`, `sin [r/2]` with `r ≤ head_dim` the rotated part of a head.
    pub fn rotate_heads(heads: &mut [f32], head_dim: usize, cos: &[f32], sin: &[f32]) {
        let half = cos.len();
        for head in heads.chunks_exact_mut(head_dim) {
            let (first, rest) = head.split_at_mut(half);
            for (((a, b), c), s) in first.iter_mut().zip(rest).zip(cos).zip(sin) {
                (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
            }
        }
    }
}

#[cfg(test)]
mod tests;
