//! Tiles of scores in the registers of x86 processors.
//!
//! Compilers turn the plain loops into vectors for some tile shapes and into scalars for others, so the instructions
//! are spelled out.

use super::SLOTS;
use std::arch::x86_64::*;

macro_rules! score_tile {
    ($features:literal, $lanes:literal, $zero:ident, $set:ident, $load:ident, $fma:ident, $store:ident) => {
        /// `scores[q][slot] = Σ_k queries[q][k] · keys[slot / SLOTS][k][slot % SLOTS]` for `B` blocks of slots.
        ///
        /// # Safety
        /// The features are present.
        #[target_feature(enable = $features)]
        pub unsafe fn score_tile<const Q: usize, const B: usize>(
            queries: &[&[f32]; Q],
            keys: &[f32],
            scores: &mut [f32],
            stride: usize,
        ) {
            const PARTS: usize = SLOTS / $lanes;
            let d = queries[0].len();
            assert!(queries.iter().all(|query| query.len() == d) && keys.len() == B * d * SLOTS);
            assert!(scores.len() >= (Q - 1) * stride + B * SLOTS);
            let mut sums = [[[$zero(); PARTS]; B]; Q];
            let queries = queries.map(<[f32]>::as_ptr);
            // SAFETY: all offsets lie within the lengths that were asserted.
            unsafe {
                for k in 0..d {
                    let mut block = [[$zero(); PARTS]; B];
                    for b in 0..B {
                        for part in 0..PARTS {
                            block[b][part] = $load(keys.as_ptr().add((b * d + k) * SLOTS + part * $lanes));
                        }
                    }
                    for q in 0..Q {
                        let value = $set(*queries[q].add(k));
                        for b in 0..B {
                            for part in 0..PARTS {
                                sums[q][b][part] = $fma(value, block[b][part], sums[q][b][part]);
                            }
                        }
                    }
                }
                for q in 0..Q {
                    for b in 0..B {
                        for part in 0..PARTS {
                            $store(scores.as_mut_ptr().add(q * stride + b * SLOTS + part * $lanes), sums[q][b][part]);
                        }
                    }
                }
            }
        }
    };
}

pub mod avx512 {
    use super::*;
    score_tile!("avx512f", 16, _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_fmadd_ps, _mm512_storeu_ps);
}

pub mod avx2 {
    use super::*;
    score_tile!("avx2,fma", 8, _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_fmadd_ps, _mm256_storeu_ps);
}
