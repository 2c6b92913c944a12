//! Upper bounds of the machine: memory reads and matmuls.

use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// Independent sums: more than the latency of a multiply-add times the units that do them, and no more than there are
/// registers.
const CHAINS: usize = 14;
const TURNS: usize = 4_000_000;

/// Multiply-adds of all threads, in floating-point operations per second.
pub fn multiply_add_peak() -> f64 {
    let threads = rayon::current_num_threads();
    let started = Instant::now();
    let lanes: usize = (0..threads).into_par_iter().map(|_| chains()).sum();
    2.0 * (TURNS * CHAINS * lanes) as f64 / started.elapsed().as_secs_f64()
}

/// Does [`TURNS`] multiply-adds in each chain, and tells how many lanes a chain has.
fn chains() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was detected.
            return unsafe { x86::avx512() };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: as above.
            return unsafe { x86::avx2() };
        }
    }
    let (x, y) = (black_box(0.999f32), black_box(0.001f32));
    let mut sums = [[1f32; 4]; CHAINS];
    for _ in 0..TURNS {
        sums.iter_mut().flatten().for_each(|sum| *sum = x.mul_add(*sum, y));
    }
    black_box(sums);
    4
}

/// Multiply-adds of bytes of all threads, per second; `None` on a processor without byte dot products of four.
pub fn byte_multiply_add_peak() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512vnni") {
        let threads = rayon::current_num_threads();
        let started = Instant::now();
        // SAFETY: the feature was detected.
        (0..threads).into_par_iter().for_each(|_| unsafe { x86::bytes() });
        return Some((TURNS * CHAINS * 64 * threads) as f64 / started.elapsed().as_secs_f64());
    }
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CHAINS, TURNS};
    use std::arch::x86_64::*;
    use std::hint::black_box;

    #[target_feature(enable = "avx512f")]
    pub fn avx512() -> usize {
        let (x, y) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let mut sums = [y; CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(x, *sum, y);
            }
        }
        black_box(sums);
        16
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn bytes() {
        let (x, y) = (_mm512_set1_epi8(black_box(3)), _mm512_set1_epi8(black_box(-5)));
        let mut sums = [y; CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, x, y);
            }
        }
        black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn avx2() -> usize {
        let (x, y) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
        let mut sums = [y; CHAINS];
        for _ in 0..TURNS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(x, *sum, y);
            }
        }
        black_box(sums);
        8
    }
}

/// Bytes per second of reading `buffer` once with all threads.
pub fn read_bytes(buffer: &[u8]) -> f64 {
    let started = Instant::now();
    let part = |part: &[u8]| {
        let mut lanes = [0u64; 16];
        for chunk in part.chunks_exact(128) {
            for (lane, bytes) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
                let mut value = [0; 8];
                value.copy_from_slice(bytes);
                *lane = lane.wrapping_add(u64::from_le_bytes(value));
            }
        }
        lanes.iter().fold(0u64, |sum, lane| sum.wrapping_add(*lane))
    };
    black_box(buffer.par_chunks(1 << 19).map(part).reduce(|| 0, u64::wrapping_add));
    buffer.len() as f64 / started.elapsed().as_secs_f64()
}
