//! Arithmetic with a fixed order: sums over sixteen lanes, an exponential without branches.
//!
//! Element `i` of a sum always goes to lane `i % 16`, and the lanes are folded in one fixed order, so a sum depends on
//! its elements alone. Rust never reorders floating-point operations, hence vector and scalar code agree bit for bit.

/// Number of partial sums.
pub const LANES: usize = 16;

/// Folds sixteen partial sums in a fixed order.
#[inline(always)]
pub fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// `Σ a[i]·b[i]` over the shorter length.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut lanes = [0f32; LANES];
    let (a16, b16) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (ra, rb) = (a16.remainder(), b16.remainder());
    for (x, y) in a16.zip(b16) {
        for i in 0..LANES {
            lanes[i] = x[i].mul_add(y[i], lanes[i]);
        }
    }
    for i in 0..ra.len() {
        lanes[i] = ra[i].mul_add(rb[i], lanes[i]);
    }
    fold(lanes)
}

/// `Σ a[i]`.
#[inline(always)]
pub fn sum(a: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let chunks = a.chunks_exact(LANES);
    let rest = chunks.remainder();
    for x in chunks {
        for i in 0..LANES {
            lanes[i] += x[i];
        }
    }
    for i in 0..rest.len() {
        lanes[i] += rest[i];
    }
    fold(lanes)
}

/// The greatest of `a`, NaN left out; negative infinity of nothing.
#[inline(always)]
pub fn max(a: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = a.chunks_exact(LANES);
    let rest = chunks.remainder();
    for x in chunks {
        for i in 0..LANES {
            lanes[i] = if x[i] > lanes[i] { x[i] } else { lanes[i] };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a })
}

/// The greatest magnitude in `a`, NaN left out; 0 of nothing.
#[inline(always)]
pub fn max_abs(a: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let chunks = a.chunks_exact(LANES);
    let rest = chunks.remainder();
    for x in chunks {
        for i in 0..LANES {
            lanes[i] = lanes[i].max(x[i].abs());
        }
    }
    lanes.iter().chain(rest).fold(0f32, |a, b| a.max(b.abs()))
}

/// `e^x`, within 2 units in the last place between -87 and 88; 0 below, infinity above, NaN for NaN.
///
/// Cody-Waite reduction by multiples of ln 2, then a polynomial of degree 6 (minimax coefficients of the Cephes
/// library's `expf`).
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding 1.5 · 2^23 rounds to the nearest whole number, ties to even, and leaves it in the lowest bits of the sum:
    // a conversion to an integer would not become vector code, since Rust's saturates.
    const SHIFT: f32 = 12_582_912.0;
    let clamped = x.clamp(-87.0, 88.0);
    let shifted = clamped * LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = (-n).mul_add(LN2_LOW, (-n).mul_add(LN2_HIGH, clamped));
    let mut p = 1.987_569_1e-4_f32;
    p = p.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 0.166_666_65);
    p = p.mul_add(r, 0.5);
    let y = p.mul_add(r * r, r) + 1.0;
    // 2^n by its exponent bits; n lies in [-126, 127] after the clamp. A NaN's bits do not matter: y is NaN too.
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    let e = y * scale;
    if x < -87.0 {
        0.0
    } else if x > 88.0 {
        f32::INFINITY
    } else {
        e
    }
}

/// `tanh x`, within 3e-7.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    // For small |x| the quotient below would cancel; an odd polynomial (the first terms of the Taylor series) does not.
    let x2 = x * x;
    let small = x * x2.mul_add(x2.mul_add(x2.mul_add(-17.0 / 315.0, 2.0 / 15.0), -1.0 / 3.0), 1.0);
    let e = exp(-2.0 * x.abs());
    let large = ((1.0 - e) / (1.0 + e)).copysign(x);
    if x.abs() < 0.15 { small } else { large }
}

#[cfg(test)]
mod tests;
