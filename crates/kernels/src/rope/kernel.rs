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
mod tests {
    use super::super::reference;
    use crate::Isa;

    #[test]
    fn equals_the_reference_and_leaves_the_rest_of_a_head() {
        let (head_dim, half) = (24, 9);
        let angles: Vec<f64> = (0..half).map(|i| 0.3 * i as f64 - 1.0).collect();
        let cos: Vec<f32> = angles.iter().map(|a| a.cos() as f32).collect();
        let sin: Vec<f32> = angles.iter().map(|a| a.sin() as f32).collect();
        let x: Vec<f32> = (0..2 * head_dim).map(|i| i as f32 * 0.1 - 2.0).collect();
        for isa in Isa::available() {
            let mut y = x.clone();
            super::rotate_heads(isa, &mut y, head_dim, &cos, &sin);
            for h in 0..2 {
                let want = reference::rotate(&x[h * head_dim..(h + 1) * head_dim], &angles);
                for (a, b) in y[h * head_dim..(h + 1) * head_dim].iter().zip(want) {
                    assert!((f64::from(*a) - b).abs() < 1e-6);
                }
            }
        }
    }
}
